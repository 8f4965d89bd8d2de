//! The order of header names: headers that pass keep their place, even where others are removed or
//! recomputed.

use allowlist::HostPattern;
use http::Request;
use sandbox_credentials::{
    AwsAccessKey, HeaderPattern, Injection, MaskedSecret, SecretValue, SecretVariable, SigningCredential,
    prepare_secrets,
};

use crate::harness::{Pki, Setup, empty, plain_capture, raw};

const REAL: &str = "ghp_TheRealTokenOfThisTest0123456789";

/// The lines of a head after the first one.
fn fields(head: &str) -> Vec<&str> {
    let head = head.split("\r\n\r\n").next().unwrap_or_default();
    head.split("\r\n").skip(1).collect()
}

#[tokio::test]
async fn removed_http1_headers_do_not_reorder_the_others() {
    let (address, mut seen) = plain_capture(
        "HTTP/1.1 200 OK\r\nServer: s\r\nAlt-Svc: h3\r\nX-A: 1\r\nKeep-Alive: 5\r\nSet-Cookie: a\r\nConnection: keep-alive, X-Hop\r\n\
         X-B: 2\r\nX-Hop: 1\r\nContent-Length: 2\r\nSet-Cookie: b\r\nUpgrade: h2c\r\nX-C: 3\r\nX-D: 4\r\nDate: d\r\n\r\nok",
    )
    .await;
    let mut setup = Setup::new(Pki::new(), address);
    setup.policy = "url_prefixes: [{host: a.example, path: /public/*, methods: [GET, POST]}]";
    let proxy = setup.start().await;
    let get = "GET /public/x HTTP/1.1\r\nUser-Agent: u\r\nConnection: close, X-Hop\r\nX-A: 1\r\nX-Original-URL: /admin\r\nHost: a.example\r\n\
               Keep-Alive: 5\r\nX-B: 2\r\nTE: trailers\r\nX-Hop: 1\r\nX-C: 3\r\nX-Method: PUT\r\nX-A: 4\r\nProxy-Connection: x\r\nX-D: 5\r\nX-E: 6\r\n\r\n";
    let answer = raw(&proxy, get.as_bytes()).await;
    let expected = [
        "User-Agent: u",
        "X-A: 1",
        "X-A: 4",
        "Host: a.example",
        "X-B: 2",
        "TE: trailers",
        "X-C: 3",
        "X-D: 5",
        "X-E: 6",
    ];
    assert_eq!(fields(&seen.recv().await.unwrap()), expected);
    let answered = answer.0.to_ascii_lowercase();
    let expected = [
        "server: s",
        "x-a: 1",
        "set-cookie: a",
        "set-cookie: b",
        "x-b: 2",
        "content-length: 2",
        "x-c: 3",
        "x-d: 4",
        "date: d",
        "connection: close",
    ];
    assert_eq!(fields(&answered), expected);

    let post = "POST /public/x HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\nX-A: 1\r\nTransfer-Encoding: chunked\r\nKeep-Alive: 5\r\nX-B: 2\r\n\
                X-C: 3\r\n\r\n2\r\nab\r\n0\r\n\r\n";
    assert_eq!(raw(&proxy, post.as_bytes()).await.status(), 200);
    let expected = ["Host: a.example", "X-A: 1", "Transfer-Encoding: chunked", "X-B: 2", "X-C: 3"];
    assert_eq!(fields(&seen.recv().await.unwrap()), expected);
    proxy.stop().await;
}

/// A foreign signature and session token, a foreign key and a second credential are removed; the
/// real value replaces its surrogate in place.
#[tokio::test]
async fn changed_credentials_do_not_reorder_other_headers() {
    let scope = || vec![HostPattern::new("a.example").unwrap()];
    let value =
        |name: &str| SecretVariable::new(name, SecretValue::new(format!("TheRealValueOf{name}0123456789")));
    let key = SigningCredential::aws(AwsAccessKey {
        name: "aws".to_owned(),
        access_key_id: value("ID"),
        secret_access_key: value("KEY"),
        session_token: None,
        scopes: scope(),
    });
    let injection = Injection {
        scopes: scope(),
        headers: ["x-key", "x-other-key"].map(|name| HeaderPattern::new(name).unwrap()).into(),
        ..Injection::default()
    };
    let secret = MaskedSecret::new("TOKEN", SecretValue::new(REAL), injection);
    let secrets = prepare_secrets(&[secret], &[key]).unwrap();
    for alpn in ["h2", "http/1.1"] {
        let (mut setup, upstream) = Setup::fresh(&["a.example"], &[alpn]).await;
        setup.replacements = secrets.replacements().clone();
        let proxy = setup.start().await;
        let ask = Request::get("https://a.example/x");
        let ask = [
            ("x-a", "1"),
            ("authorization", "AWS AKIDOFASTRANGER:c2ln"),
            ("x-b", "2"),
            ("x-key", &secrets.env_vars()["TOKEN"]),
            ("accept-encoding", "gzip, dcb"),
            ("x-amz-security-token", "foreign"),
            ("x-c", "3"),
            ("x-other-key", "foreign"),
            ("x-d", "4"),
            ("x-e", "5"),
        ]
        .into_iter()
        .fold(ask, |ask, (name, value)| ask.header(name, value));
        let answer = proxy.ask2(ask.body(empty()).unwrap()).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let seen = upstream.seen().concat();
        let mut got: Vec<&str> = seen.lines().skip(1).collect();
        got.retain(|line| !line.starts_with("host: "));
        let real = format!("x-key: {REAL}");
        let expected = ["x-a: 1", "x-b: 2", &real, "accept-encoding: gzip", "x-c: 3", "x-d: 4", "x-e: 5"];
        assert_eq!(got, expected, "{alpn}");
        proxy.stop().await;
    }
}

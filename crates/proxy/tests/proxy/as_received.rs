//! The upstream gets what the client sent and the gate judged: targets that hyper cannot hold,
//! headers that name another path, responses in codings that the proxy does not decode.

use allowlist::HostPattern;
use sandbox_credentials::{HeaderPattern, Injection, MaskedSecret, SecretValue, prepare_secrets};
use sandbox_proxy_protocol::RequestOutcome;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

use crate::harness::{Pki, Proxy, Setup, TIMEOUT, plain_capture, raw, raw_tls};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const REAL: &str = "ghp_TheRealTokenOfThisTest0123456789";

async fn get(proxy: &Proxy, target: &str, more: &str) -> u16 {
    let head = format!("GET {target} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n{more}\r\n");
    raw(proxy, head.as_bytes()).await.status()
}

#[tokio::test]
async fn query_is_forwarded_unchanged() {
    let (address, mut seen) = plain_capture(OK).await;
    let mut setup = Setup::new(Pki::new(), address);
    setup.policy = "url_prefixes: [{host: a.example, path: '/find?q=*'}, {host: a.example, path: '/?x'}]";
    let proxy = setup.start().await;
    for (target, sent) in [
        ("/find?q=\"a b\"".replace(' ', "%20"), None),
        ("/find?q=<a>&b=\"\u{fc}\"".to_owned(), None),
        ("/find?q=\u{65e5}\u{672c}".to_owned(), None),
        ("/find?q=a'b`c|d^{e}\\".to_owned(), None),
        ("http://a.example/find?q=\"<>\"".to_owned(), Some("/find?q=\"<>\"")),
        ("http://a.example?x".to_owned(), Some("/?x")),
    ] {
        assert_eq!(get(&proxy, &target, "X: y\r\n").await, 200, "{target}");
        let expected = sent.unwrap_or(&target);
        assert_eq!(
            seen.recv().await.unwrap(),
            format!("GET {expected} HTTP/1.1\r\nHost: a.example\r\nX: y\r\n\r\n")
        );
        let record = proxy.request().await;
        assert_eq!((record.decision, record.target.as_str()), (RequestOutcome::Allowed, expected));
    }
    for (target, reason) in [
        ("/find?q=a#b", "path"),
        ("/find?q=\u{7f}", "path"),
        ("/other?q=\"", "path_not_allowed"),
        ("/fi\"nd?q=", "path_not_allowed"),
        ("/fi<nd?q=", "path"),
    ] {
        assert!(get(&proxy, target, "").await >= 400, "{target}");
        assert_eq!(proxy.request().await.reason.map(|reason| reason.to_string()).as_deref(), Some(reason));
    }
    proxy.stop().await;
}

/// The body of a request with a raw query is not lost, and the next request on the connection is
/// judged separately.
#[tokio::test]
async fn raw_query_is_not_reused_by_the_next_request() {
    let (address, mut seen) = plain_capture(OK).await;
    let proxy = Setup::new(Pki::new(), address).start().await;
    let requests = "POST /a?\" HTTP/1.1\r\nHost: a.example\r\nContent-Length: 3\r\n\r\nabcGET /b?%22 HTTP/1.1\r\nHost: a.example\r\n\r\n\
                    GET /c?<> HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";
    let answer = raw(&proxy, requests.as_bytes()).await;
    assert_eq!(answer.count(), 3, "{answer:?}");
    let mut all = String::new();
    while !all.contains("/c?<> HTTP/1.1\r\n") {
        all += &timeout(TIMEOUT, seen.recv()).await.unwrap().unwrap();
    }
    assert!(all.contains("POST /a?\" HTTP/1.1\r\n") && all.contains("abc"), "{all}");
    assert!(all.contains("GET /b?%22 HTTP/1.1\r\n"), "{all}");
    proxy.stop().await;
}

/// The HEADERS frame of a GET request, with authority and path as literals without indexing.
fn http2_request(stream: u8, path: &str) -> Vec<u8> {
    let literal = |index: u8, text: &str| {
        let length = u8::try_from(text.len()).unwrap();
        [&[index, length], text.as_bytes()].concat()
    };
    // GET and https are in the static table.
    let block = [vec![0x82, 0x87], literal(1, "a.example"), literal(4, path)].concat();
    let length = u8::try_from(block.len()).unwrap();
    [&[0, 0, length, 1, 5, 0, 0, 0, stream], block.as_slice()].concat()
}

/// Opens a connection to `a.example` over which HTTP/2 frames are written by hand.
async fn http2(proxy: &Proxy) -> TlsStream<TcpStream> {
    let mut stream = proxy.tls("a.example", &["h2"]).await.unwrap();
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    let hello = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice(), &settings].concat();
    stream.write_all(&hello).await.unwrap();
    stream
}

/// hyper's HTTP/2 cannot hold such a target: the reset asks the client to use HTTP/1.1.
#[tokio::test]
async fn unreadable_http2_request_is_reset_and_recorded() {
    let (setup, upstream) = Setup::fresh(&["a.example"], &["h2"]).await;
    let proxy = setup.start().await;
    let mut stream = http2(&proxy).await;
    stream.write_all(&http2_request(1, "/?\u{fc}")).await.unwrap();
    stream.write_all(&http2_request(3, "/?q=\"a\"")).await.unwrap();
    stream.flush().await.unwrap();
    let mut read = Vec::new();
    let expected = [0, 0, 4, 3, 0, 0, 0, 0, 3, 0, 0, 0, 13];
    while !read.windows(expected.len()).any(|frame| frame == expected) {
        let mut buffer = [0; 4096];
        let length = timeout(TIMEOUT, stream.read(&mut buffer)).await.expect("a reset comes").unwrap();
        assert!(length > 0, "{read:?}");
        read.extend_from_slice(&buffer[..length]);
    }
    let records = [proxy.request().await, proxy.request().await];
    let unseen = records.iter().find(|record| record.decision == RequestOutcome::Blocked).unwrap();
    assert_eq!((unseen.host.as_str(), unseen.status), ("a.example", None));
    assert_eq!(unseen.reason.map(|reason| reason.to_string()).as_deref(), Some("framing"));
    let seen = records.iter().find(|record| record.decision == RequestOutcome::Allowed).unwrap();
    assert_eq!(seen.target, "/?\u{fc}");
    assert_eq!(upstream.seen().len(), 1);
    proxy.stop().await;
}

/// h2 removes a fragment before any of our code sees it, so it cannot be refused as over HTTP/1.
/// The rest of the target is judged, sent and recorded.
#[tokio::test]
async fn fragment_over_http2_is_not_judged_sent_or_recorded() {
    let (mut setup, upstream) = Setup::fresh(&["a.example"], &["h2"]).await;
    setup.policy = "url_prefixes: [{host: a.example, path: /open}, {host: a.example, path: '/open?*'}]";
    let proxy = setup.start().await;
    for (path, left, allowed) in [
        // The control: without a fragment.
        ("/open?x=1", "/open?x=1", true),
        ("/open#/hidden", "/open", true),
        ("/open#", "/open", true),
        ("/open?x=1#&hidden=2?z", "/open?x=1", true),
        ("/open?x=1#\"\u{fc}\\hidden", "/open?x=1", true),
        ("/secret#/open", "/secret", false),
        ("/secret#/../open?x=1", "/secret", false),
        ("/#/open", "/", false),
    ] {
        let mut stream = http2(&proxy).await;
        stream.write_all(&http2_request(1, path)).await.unwrap();
        stream.flush().await.unwrap();
        let record = proxy.request().await;
        let decision = if allowed { RequestOutcome::Allowed } else { RequestOutcome::Blocked };
        assert_eq!((record.decision, record.target.as_str()), (decision, left), "{path}");
        let seen = upstream.seen();
        let lines: Vec<&str> = seen.iter().flat_map(|seen| seen.lines()).collect();
        let sent = format!("GET https://a.example{left} HTTP/2.0");
        assert_held!(allowed || lines.is_empty(), "{path}: {lines:?}");
        assert_eq!(lines, if allowed { vec![sent.as_str()] } else { vec![] }, "{path}");
    }
    let head = "GET /open#/hidden HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";
    let answer = raw_tls(&proxy, "a.example", head.as_bytes()).await;
    assert!(answer.0.contains("x-sandbox-blocked: path"), "{answer:?}");
    let seen = upstream.seen();
    assert_held!(seen.is_empty(), "{seen:?}");
    proxy.stop().await;
}

#[tokio::test]
async fn path_overriding_headers_are_removed_where_rules_restrict_paths() {
    let overriding =
        "X-Original-URL: /admin\r\nX_Rewrite_Url: /admin\r\nX-Forwarded-Uri: /admin\r\nX-Kept: 1\r\n";
    for (policy, travels) in [
        ("url_prefixes: [{host: a.example, path: /public/*}]", false),
        // The control: where every path is allowed, nothing is hidden.
        ("domains: [a.example]", true),
    ] {
        let (address, mut seen) = plain_capture(OK).await;
        let mut setup = Setup::new(Pki::new(), address);
        setup.policy = policy;
        let proxy = setup.start().await;
        assert_eq!(get(&proxy, "/public/x", overriding).await, 200);
        let got = seen.recv().await.unwrap();
        assert!(got.contains("X-Kept: 1"), "{got}");
        assert_held!(travels || !got.contains("/admin"), "{got}");
        assert_eq!(got.contains("/admin"), travels, "the control: {got}");
        proxy.stop().await;
    }
}

/// Starts a proxy that has a token for `a.example` if it is `known`, for plain text too.
async fn with_token(address: std::net::Ipv4Addr, known: bool) -> Proxy {
    let mut setup = Setup::new(Pki::new(), address);
    if known {
        let injection = Injection {
            scopes: vec![HostPattern::new("a.example").unwrap()],
            headers: vec![HeaderPattern::new("x-key").unwrap()],
            allow_plaintext: true,
            ..Injection::default()
        };
        let secret = MaskedSecret::new("TOKEN", SecretValue::new(REAL), injection);
        setup.replacements = prepare_secrets(&[secret], &[]).unwrap().replacements().clone();
    }
    setup.start().await
}

#[tokio::test]
async fn response_in_an_unknown_transfer_coding_is_refused() {
    for answer in [
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    ] {
        for known in [true, false] {
            let (address, _seen) = plain_capture(answer).await;
            let proxy = with_token(address, known).await;
            let status = get(&proxy, "/", "").await;
            assert_eq!(status, if known { 502 } else { 200 }, "{answer:?}");
            proxy.stop().await;
        }
    }
}

#[tokio::test]
async fn response_header_whose_name_is_a_secret_is_removed() {
    let answer = "HTTP/1.1 200 OK\r\nghp_TheRealTokenOfThisTest0123456789: 1\r\nX-Kept: 1\r\nContent-Length: 0\r\n\r\n";
    for known in [true, false] {
        let (address, _seen) = plain_capture(answer).await;
        let proxy = with_token(address, known).await;
        let head = "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";
        let got = raw(&proxy, head.as_bytes()).await.0;
        assert!(got.contains("X-Kept: 1"), "{got}");
        let came_back = got.to_ascii_lowercase().contains(&REAL.to_ascii_lowercase());
        assert_held!(!known || !came_back, "{got}");
        assert_eq!(came_back, !known, "the control: {got}");
        proxy.stop().await;
    }
}

#[tokio::test]
async fn localhost_names_are_refused() {
    let (address, _seen) = plain_capture(OK).await;
    let mut setup = Setup::new(Pki::new(), address);
    setup.policy = "domains: ['*']";
    let proxy = setup.start().await;
    for host in ["localhost", "a.localhost.", "LOCALHOST.localdomain", "ip6-localhost"] {
        let head = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let answer = raw(&proxy, head.as_bytes()).await;
        assert_held!(answer.status() != 200, "{host}: {answer:?}");
        assert_eq!(answer.status(), 403, "{answer:?}");
        assert_eq!(proxy.request().await.reason.map(|reason| reason.to_string()).as_deref(), Some("address"));
    }
    // The control: another name leads to the same address.
    assert_eq!(get(&proxy, "/", "").await, 200);
    proxy.stop().await;
}

//! Masked secrets over real connections: the headers that the upstream gets, and the records. Each
//! attack has a control next to it.

use http::{HeaderMap, HeaderValue, Request, Version};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use sandbox_credentials::{
    HeaderPattern, Injection, MaskedSecret, PreparedSecrets, SecretValue, prepare_secrets,
};
use sandbox_proxy_protocol::{Command, Event, PolicyChange, PolicyState, ReplacementMap, RequestRecord};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::harness::{Body, Proxy, Setup, TIMEOUT, Upstream, body, empty, get, raw, raw_tls};

const REAL: &str = "ghp_TheRealTokenOfThisTest0123456789";
const API_KEY: &str = "sk-ant-api03-TheRealKeyOfThisTest";
const PLAIN: &str = "glpat-TheRealTokenForPlainHttp";

/// A token for `a.example` in `authorization` and `cookie`, a key in `x-api-key`, and a token in
/// `x-plain` that may be sent in plain text.
struct Fixture {
    proxy: Proxy,
    upstream: Upstream,
    secrets: PreparedSecrets,
}

impl Fixture {
    async fn start(alpn: &[&str]) -> Self {
        Self::start_with(alpn, |_| {}).await
    }

    async fn start_with(alpn: &[&str], change: impl Fn(&mut Injection)) -> Self {
        let secret = |variable: &str, value: &str, headers: &[&str], plain: bool| {
            let mut injection = Injection {
                scopes: vec![allowlist::HostPattern::new("a.example").unwrap()],
                headers: headers.iter().map(|name| HeaderPattern::new(name).unwrap()).collect(),
                allow_plaintext: plain,
                ..Injection::default()
            };
            change(&mut injection);
            MaskedSecret::new(variable, SecretValue::new(value), injection)
        };
        let masked = [
            secret("TOKEN", REAL, &["Authorization", "Cookie"], false),
            secret("API_KEY", API_KEY, &["x-api-key"], false),
            secret("PLAIN", PLAIN, &["x-plain"], true),
        ];
        let secrets = prepare_secrets(&masked, &[]).unwrap();
        let (mut setup, upstream) = Setup::fresh(&["a.example", "b.example"], alpn).await;
        setup.policy = "domains: [a.example, b.example]";
        setup.replacements = secrets.replacements().clone();
        Self { proxy: setup.start().await, upstream, secrets }
    }

    fn surrogate(&self, variable: &str) -> &str {
        &self.secrets.env_vars()[variable]
    }

    fn bearer(&self) -> String {
        format!("Bearer {}", self.surrogate("TOKEN"))
    }

    /// Sends a request with these headers over HTTP `version`; returns the header lines that the
    /// upstream got, and the record.
    async fn ask(
        &self,
        version: Version,
        host: &str,
        headers: &[(&str, &str)],
    ) -> (Vec<String>, RequestRecord) {
        let request = if version == Version::HTTP_2 {
            Request::get(format!("https://{host}/x?q=1"))
        } else {
            Request::get("/x?q=1").header("host", host)
        };
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let request = request.body(empty()).unwrap();
        let answer = if version == Version::HTTP_2 {
            self.proxy.ask2(request).await
        } else {
            self.proxy.ask1(request).await
        };
        assert_eq!(answer.status, 200, "{answer:?}");
        (self.got(), self.proxy.request().await)
    }

    /// The header lines of the only request that the upstream got, without `host`.
    fn got(&self) -> Vec<String> {
        let seen = self.upstream.seen();
        assert_eq!(seen.len(), 1, "{seen:?}");
        let lines = seen[0].lines().skip(1).map(str::to_owned);
        lines.filter(|line| !line.starts_with("host: ")).collect()
    }
}

const BOTH: [Version; 2] = [Version::HTTP_11, Version::HTTP_2];

#[tokio::test]
async fn surrogate_becomes_the_real_value_over_every_pair_of_protocols() {
    for alpn in ["h2", "http/1.1"] {
        let fixture = Fixture::start(&[alpn]).await;
        for version in BOTH {
            let headers = [("authorization", fixture.bearer()), ("x-a", "1".to_owned())];
            let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
            let (got, record) = fixture.ask(version, "a.example", &headers).await;
            assert_eq!(got, [format!("authorization: Bearer {REAL}"), "x-a: 1".to_owned()]);
            assert_eq!((record.masked, record.dropped, record.scrubbed), (1, 0, 0));
            assert_eq!(record.credentials, ["TOKEN"]);
            assert_eq!((record.target.as_str(), record.region), ("/x?q=1", None));
        }
        fixture.proxy.stop().await;
    }
}

#[tokio::test]
async fn foreign_credentials_are_removed() {
    let fixture = Fixture::start(&["h2", "http/1.1"]).await;
    let bearer = fixture.bearer();
    let attack = format!("Bearer attacker.{}", fixture.surrogate("TOKEN"));
    let pair = format!("{bearer}, Bearer attacker");
    for version in BOTH {
        for (headers, got, counts) in [
            (vec![("authorization", "Bearer attacker")], vec![], (0, 1)),
            (vec![("authorization", attack.as_str())], vec![], (0, 1)),
            (vec![("authorization", pair.as_str())], vec![], (0, 1)),
            (vec![("cookie", "session=attacker")], vec![], (0, 1)),
            (vec![("x-api-key", "attacker"), ("x-b", "1")], vec!["x-b: 1".to_owned()], (0, 1)),
            // The surrogate of one entry is a foreign credential for another.
            (vec![("x-api-key", fixture.surrogate("TOKEN"))], vec![], (0, 1)),
            (
                vec![("authorization", "Bearer attacker"), ("authorization", &bearer), ("x-b", "1")],
                vec![format!("authorization: Bearer {REAL}"), "x-b: 1".to_owned()],
                (1, 1),
            ),
            (
                vec![("authorization", &bearer), ("authorization", "Bearer attacker")],
                vec![format!("authorization: Bearer {REAL}")],
                (1, 1),
            ),
        ] {
            let (upstream_got, record) = fixture.ask(version, "a.example", &headers).await;
            assert_held!(!upstream_got.concat().contains("attacker"), "{headers:?}: {upstream_got:?}");
            assert_eq!(upstream_got, got, "{headers:?}");
            assert_eq!((record.masked, record.dropped), counts, "{headers:?}");
            assert_eq!(record.credentials.len(), counts.0 as usize, "{headers:?}");
        }
    }
    fixture.proxy.stop().await;
}

#[tokio::test]
async fn foreign_credentials_pass_where_the_entry_allows_them() {
    let fixture = Fixture::start_with(&["h2"], |injection| injection.allow_foreign_credentials = true).await;
    let (got, record) = fixture.ask(Version::HTTP_2, "a.example", &[("authorization", "Bearer own")]).await;
    assert_eq!((got, record.dropped), (vec!["authorization: Bearer own".to_owned()], 0));
    fixture.proxy.stop().await;
}

#[tokio::test]
async fn surrogate_out_of_scope_is_sent_unchanged() {
    let fixture = Fixture::start(&["h2"]).await;
    let bearer = fixture.bearer();
    for version in BOTH {
        let headers = [("authorization", bearer.as_str()), ("x-api-key", "other")];
        let (got, record) = fixture.ask(version, "b.example", &headers).await;
        assert_held!(!got.concat().contains(REAL), "{got:?}");
        assert_eq!(got, [format!("authorization: {bearer}"), "x-api-key: other".to_owned()]);
        assert_eq!((record.masked, record.dropped), (0, 0));
    }
    fixture.proxy.stop().await;
}

#[tokio::test]
async fn cookies_on_several_lines_are_one_header() {
    for alpn in ["h2", "http/1.1"] {
        let fixture = Fixture::start(&[alpn]).await;
        let session = format!("session={}", fixture.surrogate("TOKEN"));
        let headers = [("cookie", "a=1"), ("cookie", session.as_str()), ("cookie", "session=attacker")];
        let (got, record) = fixture.ask(Version::HTTP_2, "a.example", &headers).await;
        assert_held!(!got.concat().contains("attacker"), "{got:?}");
        assert_eq!(got, [format!("cookie: a=1; session={REAL}")]);
        assert_eq!((record.masked, record.dropped), (1, 1));
        fixture.proxy.stop().await;
    }
}

#[tokio::test]
async fn surrogate_outside_of_its_headers_is_sent_unchanged() {
    let fixture = Fixture::start(&["h2"]).await;
    let surrogate = fixture.surrogate("TOKEN").to_owned();
    let uri = format!("https://a.example/{surrogate}?key={surrogate}");
    let request = Request::post(uri).header("x-other", &surrogate).body(body("text")).unwrap();
    assert_eq!(fixture.proxy.ask2(request).await.status, 200);
    let seen = fixture.upstream.seen().concat();
    assert!(seen.contains(&format!("/{surrogate}?key={surrogate}")), "{seen}");
    assert_held!(!seen.contains(REAL), "{seen}");
    assert!(seen.contains(&format!("x-other: {surrogate}")), "{seen}");
    assert_eq!(fixture.proxy.request().await.masked, 0);
    fixture.proxy.stop().await;
}

#[tokio::test]
async fn surrogate_over_plain_http_is_replaced_only_where_the_entry_allows_it() {
    let fixture = Fixture::start(&["h2"]).await;
    let head = |header: &str, value: &str| {
        format!("GET /x HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n{header}: {value}\r\n\r\n")
    };
    for (header, value, expected, counts) in [
        ("Authorization", fixture.bearer(), None, (0, 1)),
        ("x-api-key", "attacker".to_owned(), None, (0, 1)),
        ("x-plain", "attacker".to_owned(), None, (0, 1)),
        ("x-plain", fixture.surrogate("PLAIN").to_owned(), Some(format!("x-plain: {PLAIN}")), (1, 0)),
    ] {
        assert_eq!(raw(&fixture.proxy, head(header, &value).as_bytes()).await.status(), 200);
        let got = fixture.got();
        assert_held!(![REAL, API_KEY, "attacker"].iter().any(|text| got.concat().contains(text)), "{got:?}");
        assert_eq!(got, Vec::from_iter(expected), "{header}: {value}");
        let record = fixture.proxy.request().await;
        assert_eq!((record.masked, record.dropped), counts, "{header}: {value}");
    }
    fixture.proxy.stop().await;
}

#[tokio::test]
async fn web_socket_is_opened_with_the_real_value() {
    let fixture = Fixture::start(&["h2", "http/1.1"]).await;
    for (value, expected) in [
        (fixture.bearer(), Some(format!("authorization: Bearer {REAL}"))),
        ("Bearer attacker".to_owned(), None),
    ] {
        let head = format!(
            "GET /socket HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nAuthorization: {value}\r\n\r\n"
        );
        let mut stream = fixture.proxy.tls("a.example", &["http/1.1"]).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut start = [0; 12];
        timeout(TIMEOUT, stream.read_exact(&mut start)).await.expect("a response arrives").unwrap();
        assert_eq!(&start, b"HTTP/1.1 101");
        let got = fixture.got().into_iter();
        let sent: Vec<String> = got.filter(|line| line.starts_with("authorization")).collect();
        assert_held!(!sent.concat().contains("attacker"), "{sent:?}");
        assert_eq!(sent, Vec::from_iter(expected));
        let record = fixture.proxy.request().await;
        assert_eq!(record.masked + record.dropped, 1);
    }
    fixture.proxy.stop().await;
}

fn with_trailers(trailers: &[(&'static str, &str)]) -> Body {
    let mut map = HeaderMap::new();
    for (name, value) in trailers {
        map.append(*name, HeaderValue::from_str(value).unwrap());
    }
    let frames = [Ok(Frame::data(bytes::Bytes::from_static(b"12345"))), Ok(Frame::trailers(map))];
    StreamBody::new(futures_util::stream::iter(frames)).boxed_unsync()
}

#[tokio::test]
async fn credential_in_a_trailer_is_removed() {
    let fixture = Fixture::start(&["h2"]).await;
    let surrogate = fixture.surrogate("PLAIN").to_owned();
    let trailers = [
        ("x-plain", surrogate.as_str()),
        ("x-api-key", "attacker"),
        ("private-token", "attacker"),
        ("x-sum", "1"),
    ];
    for (host, expected) in [
        ("a.example", "trailers\nx-sum: 1\n".to_owned()),
        // Out of scope the entry's header is an ordinary header, but well-known credential headers
        // are still removed.
        ("b.example", format!("trailers\nx-plain: {surrogate}\nx-sum: 1\n")),
    ] {
        let request = Request::post(format!("https://{host}/length")).body(with_trailers(&trailers)).unwrap();
        assert_eq!(fixture.proxy.ask2(request).await.body, "5");
        let seen = fixture.upstream.seen();
        assert_held!(!seen.concat().contains(PLAIN) && !seen.concat().contains("attacker"), "{seen:?}");
        assert_eq!(seen.last(), Some(&expected), "{seen:?}");
    }
    fixture.proxy.stop().await;
}

#[tokio::test]
async fn policy_change_leaves_credentials_in_force() {
    let fixture = Fixture::start(&["h2"]).await;
    let policy = allowlist::Allowlist::from_yaml("domains: [a.example]", "policy.yaml").unwrap();
    fixture.proxy.command(&Command::SetPolicy { policy }).await;
    loop {
        let request = get("https://b.example/");
        fixture.proxy.ask2(request).await;
        if fixture.proxy.request().await.reason.is_some() {
            break;
        }
    }
    fixture.upstream.seen();
    let bearer = fixture.bearer();
    let (got, record) = fixture.ask(Version::HTTP_2, "a.example", &[("authorization", &bearer)]).await;
    assert_eq!((got, record.masked), (vec![format!("authorization: Bearer {REAL}")], 1));
    fixture.proxy.stop().await;
}

#[tokio::test]
async fn renewed_value_is_sent_at_once_and_neither_value_comes_back() {
    const NEXT: &str = "ghp_TheRealTokenAfterItWasRenewed987";
    let mut fixture = Fixture::start(&["http/1.1"]).await;
    let bearer = fixture.bearer();
    let usual = [("authorization", bearer.as_str())];
    let (got, _) = fixture.ask(Version::HTTP_11, "a.example", &usual).await;
    assert_eq!(got, [format!("authorization: Bearer {REAL}")]);
    fixture.secrets.renew("TOKEN", SecretValue::new(NEXT)).unwrap();
    assert_eq!(fixture.bearer(), bearer, "the surrogate of the task is the same");
    let replacements = ReplacementMap(fixture.secrets.replacements().clone());
    fixture.proxy.command(&Command::SetReplacements { replacements }).await;
    let changed = |event| match event {
        Event::Policy { change, state, .. } => Some((change, state)),
        _ => None,
    };
    assert_eq!(fixture.proxy.record(changed).await, (PolicyChange::Credentials, PolicyState::Up));
    let (got, record) = fixture.ask(Version::HTTP_11, "a.example", &usual).await;
    assert_eq!((got, record.masked), (vec![format!("authorization: Bearer {NEXT}")], 1));
    // Even where an upstream kept the earlier value, the container sees neither.
    for real in [REAL, NEXT] {
        let request = Request::post("/echo").header("host", "a.example");
        let answer = fixture.proxy.ask1(request.body(body(real)).unwrap()).await;
        assert_held!(!answer.body.contains(real), "{answer:?}");
        assert!(answer.body.contains(fixture.surrogate("TOKEN")), "{answer:?}");
        // The control: a host out of the secret's scope brings it back.
        let request = Request::post("/echo").header("host", "b.example");
        let answer = fixture.proxy.ask1(request.body(body(real)).unwrap()).await;
        assert!(answer.body.contains(real), "{answer:?}");
    }
    fixture.proxy.stop().await;
}

#[tokio::test]
async fn refused_request_sends_no_credential() {
    let fixture = Fixture::start(&["http/1.1"]).await;
    let head = format!(
        "GET /x HTTP/1.1\r\nHost: c.example\r\nConnection: close\r\nAuthorization: {}\r\n\r\n",
        fixture.bearer()
    );
    assert_eq!(raw_tls(&fixture.proxy, "c.example", head.as_bytes()).await.status(), 403);
    let record = fixture.proxy.request().await;
    assert_eq!((record.masked, record.dropped), (0, 0));
    assert_held!(fixture.upstream.connections() == 0, "{:?}", fixture.upstream.seen());
    fixture.proxy.stop().await;
}

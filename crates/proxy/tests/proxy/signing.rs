//! AWS signatures over real connections: the upstream gets a signature by the real key instead of
//! the container's, and signatures by other keys are removed.

use std::fmt::Write;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use sandbox_credentials::{
    AwsAccessKey, HeaderPattern, Injection, MaskedSecret, PreparedSecrets, SecretValue, SecretVariable,
    SigningCredential, prepare_secrets,
};
use sandbox_proxy_protocol::{Event, RequestOutcome};
use time::{Duration, OffsetDateTime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::harness::{Body, Proxy, Setup, TIMEOUT, Upstream, empty, get, raw, raw_tls, streaming_body};

const KEY_ID: &str = "AKIAIOSFODNN7EXAMPLE";
const SECRET_KEY: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
const SESSION: &str = "TheRealSessionTokenOfThisTest/0123456789==";
const API_KEY: &str = "sk-ant-api03-TheRealKeyOfThisTest";
const TOO_MUCH: usize = 16 * 1024 * 1024 + 1;

/// A temporary AWS key for `a.example`, and a masked secret in `x-api-key`.
struct Fixture {
    proxy: Proxy,
    upstream: Upstream,
    secrets: PreparedSecrets,
}

impl Fixture {
    async fn start(alpn: &[&str]) -> Self {
        Self::start_with(alpn, false).await
    }

    async fn start_with(alpn: &[&str], allow_foreign_credentials: bool) -> Self {
        let scope = || vec![allowlist::HostPattern::new("a.example").unwrap()];
        let value = |variable: &str, value: &str| SecretVariable::new(variable, SecretValue::new(value));
        let key = AwsAccessKey {
            name: "aws".to_owned(),
            access_key_id: value("ID", KEY_ID),
            secret_access_key: value("KEY", SECRET_KEY),
            session_token: Some(value("SESSION", SESSION)),
            scopes: scope(),
        };
        let key = SigningCredential::aws(key).allow_foreign_credentials(allow_foreign_credentials);
        let injection = Injection {
            scopes: scope(),
            headers: vec![HeaderPattern::new("x-api-key").unwrap()],
            ..Injection::default()
        };
        let masked = MaskedSecret::new("API_KEY", SecretValue::new(API_KEY), injection);
        let secrets = prepare_secrets(&[masked], &[key]).unwrap();
        let (mut setup, upstream) = Setup::fresh(&["a.example", "b.example"], alpn).await;
        setup.policy = "domains: [a.example, b.example]";
        setup.replacements = secrets.replacements().clone();
        Self { proxy: setup.start().await, upstream, secrets }
    }

    fn surrogate(&self, variable: &str) -> &str {
        &self.secrets.env_vars()[variable]
    }

    /// A request with a dummy signature by `key_id` at `at`.
    fn signed(&self, method: &str, uri: &str, key_id: &str, at: OffsetDateTime) -> http::request::Builder {
        let (date, clock) = (day(at), at.time());
        let time = format!("{date}T{:02}{:02}{:02}Z", clock.hour(), clock.minute(), clock.second());
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential={key_id}/{date}/eu-west-1/dynamodb/aws4_request, \
             SignedHeaders=host;x-amz-date;x-amz-security-token, Signature={}",
            "0".repeat(64)
        );
        Request::builder()
            .method(method)
            .uri(uri)
            .header("x-amz-date", time)
            .header("authorization", authorization)
            .header("x-amz-security-token", self.surrogate("SESSION"))
    }

    fn signed_now(&self, method: &str, uri: &str) -> http::request::Builder {
        self.signed(method, uri, self.surrogate("ID"), OffsetDateTime::now_utc())
    }

    /// The only head that the upstream got.
    fn got(&self) -> String {
        let seen = self.upstream.seen();
        assert_eq!(seen.len(), 1, "{seen:?}");
        seen.concat()
    }

    fn has_only_real_values(&self, got: &str) {
        assert!(
            got.contains(&format!("Credential={KEY_ID}/"))
                || got.contains(&format!("X-Amz-Credential={KEY_ID}%2F")),
            "{got}"
        );
        assert!(!got.contains(&"0".repeat(64)), "the signature was not replaced: {got}");
        for variable in ["ID", "KEY", "SESSION"] {
            assert!(!got.contains(self.surrogate(variable)), "{variable}: {got}");
        }
        assert_held!(!got.contains(SECRET_KEY), "{got}");
    }
}

fn day(at: OffsetDateTime) -> String {
    format!("{:04}{:02}{:02}", at.year(), u8::from(at.month()), at.day())
}

fn full(bytes: Vec<u8>) -> Body {
    Full::new(Bytes::from(bytes)).boxed_unsync()
}

const HASH: &str = "x-amz-content-sha256";

#[tokio::test]
async fn request_is_signed_with_the_real_key() {
    for alpn in ["h2", "http/1.1"] {
        let fixture = Fixture::start(&[alpn]).await;
        let request = fixture.signed_now("GET", "https://a.example/x?q=1").header(HASH, "UNSIGNED-PAYLOAD");
        assert_eq!(fixture.proxy.ask2(request.body(empty()).unwrap()).await.status, 200);
        let got = fixture.got();
        fixture.has_only_real_values(&got);
        assert!(got.contains(&format!("x-amz-security-token: {SESSION}\n")), "{got}");
        let record = fixture.proxy.request().await;
        assert_eq!((record.masked, record.dropped), (1, 0));
        assert_eq!(record.credentials, ["aws"]);
        assert_eq!((record.target.as_str(), record.region.as_deref()), ("/x?q=1", Some("eu-west-1")));
        fixture.proxy.stop().await;
    }
}

#[tokio::test]
async fn signed_request_is_sent_with_one_normalized_host() {
    let fixture = Fixture::start(&["http/1.1"]).await;
    let request =
        fixture.signed_now("GET", "/x").header(HASH, "UNSIGNED-PAYLOAD").header("host", "A.example:443");
    let mut sender = fixture.proxy.http1("a.example").await;
    let answer = sender.send_request(request.body(empty()).unwrap()).await.unwrap();
    assert_eq!(answer.status(), 200);
    let got = fixture.got();
    assert_eq!(got.matches("host: ").count(), 1);
    assert!(got.contains("host: a.example\n"), "{got}");
    fixture.proxy.stop().await;
}

#[tokio::test]
async fn signing_and_masking_apply_to_the_same_request() {
    let fixture = Fixture::start(&["h2"]).await;
    for (key, line, counts) in [
        (fixture.surrogate("API_KEY"), format!("x-api-key: {API_KEY}\n"), (2, 0)),
        ("attacker", String::new(), (1, 1)),
    ] {
        let request = fixture.signed_now("GET", "https://a.example/x").header(HASH, "UNSIGNED-PAYLOAD");
        let request = request.header("x-api-key", key).body(empty()).unwrap();
        assert_eq!(fixture.proxy.ask2(request).await.status, 200);
        let got = fixture.got();
        fixture.has_only_real_values(&got);
        assert_held!(!got.contains("attacker"), "{got}");
        assert!(got.contains(&line), "{got}");
        let record = fixture.proxy.request().await;
        assert_eq!((record.masked, record.dropped), counts);
    }
    fixture.proxy.stop().await;
}

#[tokio::test]
async fn signature_by_another_key_in_scope_is_removed() {
    let fixture = Fixture::start(&["h2"]).await;
    let now = OffsetDateTime::now_utc();
    for (host, kept) in [("a.example", false), ("b.example", true)] {
        let uri = format!("https://{host}/x");
        let request =
            fixture.signed("GET", &uri, "AKIAATTACKERSOWNKEY0", now).header("x-a", "1").header("x-b", "2");
        assert_eq!(fixture.proxy.ask2(request.body(empty()).unwrap()).await.status, 200);
        let got = fixture.got();
        assert_held!(kept || !got.contains("authorization") && !got.contains("x-amz-security"), "{got}");
        assert_eq!(got.contains("authorization: AWS4"), kept, "{got}");
        assert_eq!(got.contains("x-amz-security-token"), kept, "{got}");
        assert!(got.contains("x-a: 1\nx-b: 2\n"), "{got}");
        let record = fixture.proxy.request().await;
        assert_eq!((record.masked, record.dropped, record.region), (0, u32::from(!kept), None));
    }
    // The surrogate itself, out of scope: it is sent, but worthless.
    let request = fixture.signed_now("GET", "https://b.example/x").body(empty()).unwrap();
    assert_eq!(fixture.proxy.ask2(request).await.status, 200);
    assert!(fixture.got().contains(fixture.surrogate("ID")));
    fixture.proxy.stop().await;
}

#[tokio::test]
async fn signature_over_plain_http_is_removed() {
    let fixture = Fixture::start(&["h2"]).await;
    let request = fixture.signed_now("GET", "/x").header("host", "a.example").body(()).unwrap();
    let mut head = "GET /x HTTP/1.1\r\nConnection: close\r\n".to_owned();
    for (name, value) in request.headers() {
        write!(head, "{name}: {}\r\n", value.to_str().unwrap()).unwrap();
    }
    assert_eq!(raw(&fixture.proxy, format!("{head}\r\n").as_bytes()).await.status(), 200);
    let got = fixture.got();
    assert_held!(!got.contains("authorization") && !got.contains(KEY_ID) && !got.contains(SESSION), "{got}");
    assert_eq!(fixture.proxy.request().await.dropped, 1);
    fixture.proxy.stop().await;
}

#[tokio::test]
async fn presigned_url_changes_only_its_query() {
    let fixture = Fixture::start(&["h2"]).await;
    let now = OffsetDateTime::now_utc();
    let presigned = |key_id: &str| {
        let date = day(now);
        format!(
            "/a%20b//c?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={key_id}%2F{date}%2Feu-west-1%2Fs3%2Faws4_request\
             &X-Amz-Date={date}T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host&x=1&X-Amz-Signature={}",
            "0".repeat(64)
        )
    };
    let target = presigned(fixture.surrogate("ID"));
    let request = get(format!("https://a.example{target}"));
    assert_eq!(fixture.proxy.ask2(request).await.status, 200);
    let got = fixture.got();
    fixture.has_only_real_values(&got);
    assert!(got.starts_with("GET https://a.example/a%20b//c?") && got.contains("x=1"), "{got}");
    let record = fixture.proxy.request().await;
    assert_eq!((record.target, record.region.as_deref()), (target, Some("eu-west-1")));

    let target = presigned("AKIAATTACKERSOWNKEY0");
    let request = get(format!("https://a.example{target}"));
    assert_eq!(fixture.proxy.ask2(request).await.status, 200);
    let got = fixture.got();
    assert_held!(!got.contains("ATTACKERSOWNKEY"), "{got}");
    assert!(got.starts_with("GET https://a.example/a%20b//c?x=1 HTTP"), "{got}");
    let record = fixture.proxy.request().await;
    assert_eq!((record.target, record.dropped), (target, 1));
    fixture.proxy.stop().await;
}

#[tokio::test]
async fn body_without_a_hash_is_hashed() {
    let fixture = Fixture::start(&["h2", "http/1.1"]).await;
    for bytes in [Vec::new(), b"hello".to_vec(), vec![b'x'; 300_000]] {
        let request = fixture.signed_now("POST", "https://a.example/echo").body(full(bytes.clone())).unwrap();
        let answer = fixture.proxy.ask2(request).await;
        assert_eq!((answer.status.as_u16(), answer.body.as_bytes()), (200, bytes.as_slice()));
        fixture.has_only_real_values(&fixture.got());
        let record = fixture.proxy.request().await;
        assert_eq!((record.bytes_up, record.masked), (bytes.len() as u64, 1));
    }
    // A body of unknown length.
    let request =
        fixture.signed_now("POST", "https://a.example/length").body(streaming_body(1_000_000)).unwrap();
    assert_eq!(fixture.proxy.ask2(request).await.body, "1000000");
    fixture.proxy.stop().await;
}

#[tokio::test]
async fn body_too_large_to_be_hashed_is_refused() {
    let fixture = Fixture::start(&["h2"]).await;
    let request =
        fixture.signed_now("POST", "https://a.example/length").body(streaming_body(TOO_MUCH)).unwrap();
    let answer = fixture.proxy.ask2(request).await;
    assert_eq!(
        (answer.status.as_u16(), answer.headers["x-sandbox-error"].to_str().unwrap()),
        (413, "body_too_large")
    );
    assert!(answer.body.contains(HASH), "{}", answer.body);
    let record = fixture.proxy.request().await;
    assert_eq!((record.decision, record.status), (RequestOutcome::Error, Some(413)));
    assert!(record.error.unwrap().starts_with("Sign: "));
    // A request that states its hash needs no buffer.
    let request = fixture.signed_now("POST", "https://a.example/length").header(HASH, "UNSIGNED-PAYLOAD");
    let answer = fixture.proxy.ask2(request.body(streaming_body(TOO_MUCH)).unwrap()).await;
    assert_eq!(answer.body, TOO_MUCH.to_string());
    assert_eq!(fixture.upstream.seen().len(), 1);
    fixture.proxy.stop().await;
}

/// The start of the first response to a head with `Expect: 100-continue`.
async fn answer_before_body(fixture: &Fixture, request: http::request::Builder, length: usize) -> String {
    let request = request.body(()).unwrap();
    let mut head = "POST /length HTTP/1.1\r\nHost: a.example\r\nExpect: 100-continue\r\n".to_owned();
    for (name, value) in request.headers() {
        write!(head, "{name}: {}\r\n", value.to_str().unwrap()).unwrap();
    }
    write!(head, "Content-Length: {length}\r\n\r\n").unwrap();
    let mut stream = fixture.proxy.tls("a.example", &["http/1.1"]).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut start = [0; 12];
    timeout(TIMEOUT, stream.read_exact(&mut start)).await.expect("a response arrives").unwrap();
    String::from_utf8_lossy(&start).into_owned()
}

#[tokio::test]
async fn refused_upload_with_expect_gets_no_100_continue() {
    let fixture = Fixture::start(&["h2"]).await;
    let good = || fixture.signed_now("POST", "/length");
    assert_eq!(answer_before_body(&fixture, good(), 5).await, "HTTP/1.1 100");
    assert_eq!(answer_before_body(&fixture, good(), TOO_MUCH).await, "HTTP/1.1 413");
    let twice = good().header("authorization", "AWS4-HMAC-SHA256 Credential=x");
    assert_eq!(answer_before_body(&fixture, twice, 5).await, "HTTP/1.1 502");
    assert_held!(fixture.upstream.connections() == 0, "{:?}", fixture.upstream.seen());
    fixture.proxy.stop().await;
}

#[tokio::test]
async fn request_that_cannot_be_signed_is_not_sent() {
    let fixture = Fixture::start(&["h2"]).await;
    let request = fixture.signed_now("GET", "https://a.example/x").header(HASH, "UNSIGNED-PAYLOAD");
    let request = request
        .header("authorization", "AWS4-HMAC-SHA256 nonsense")
        .header("x-api-key", fixture.surrogate("API_KEY"));
    let answer = fixture.proxy.ask2(request.body(empty()).unwrap()).await;
    assert_eq!((answer.status.as_u16(), answer.headers["x-sandbox-error"].to_str().unwrap()), (502, "sign"));
    let record = fixture.proxy.request().await;
    assert_eq!((record.decision, record.masked), (RequestOutcome::Error, 0));
    let error = record.error.unwrap();
    assert!(error.starts_with("Sign: "), "{error}");
    assert_held!(fixture.upstream.connections() == 0, "{:?}", fixture.upstream.seen());
    fixture.proxy.stop().await;
}

#[tokio::test]
async fn wrong_clock_is_reported() {
    let fixture = Fixture::start(&["h2"]).await;
    let at = OffsetDateTime::now_utc() - Duration::minutes(20);
    let request = fixture
        .signed("GET", "https://a.example/x", fixture.surrogate("ID"), at)
        .header(HASH, "UNSIGNED-PAYLOAD");
    assert_eq!(fixture.proxy.ask2(request.body(empty()).unwrap()).await.status, 200);
    let warning = fixture
        .proxy
        .record(|event| if let Event::Warning { text } = event { Some(text) } else { None })
        .await;
    assert!(warning.contains("a.example was signed 20 minutes behind"), "{warning}");
    fixture.proxy.stop().await;
}

/// A body in chunks, signed with zeros.
fn chunks(data: &[&[u8]]) -> Vec<u8> {
    let mut body = Vec::new();
    for chunk in data.iter().chain([&&b""[..]]) {
        body.extend(format!("{:x};chunk-signature={}\r\n", chunk.len(), "0".repeat(64)).into_bytes());
        body.extend_from_slice(chunk);
        body.extend_from_slice(b"\r\n");
    }
    body
}

fn chunked(fixture: &Fixture, decoded: usize) -> http::request::Builder {
    fixture
        .signed_now("PUT", "https://a.example/echo")
        .header(HASH, "STREAMING-AWS4-HMAC-SHA256-PAYLOAD")
        .header("content-encoding", "aws-chunked")
        .header("x-amz-decoded-content-length", decoded)
}

#[tokio::test]
async fn chunks_are_signed_while_they_are_forwarded() {
    for alpn in ["h2", "http/1.1"] {
        let fixture = Fixture::start(&[alpn]).await;
        let data: [&[u8]; 3] = [&vec![b'a'; 70_000], b"b", &vec![b'c'; 200_000]];
        let sent = chunks(&data);
        for announced in [true, false] {
            let mut request = chunked(&fixture, 270_001);
            if announced {
                request = request.header("content-length", sent.len());
            }
            let answer = fixture.proxy.ask2(request.body(full(sent.clone())).unwrap()).await;
            assert_eq!((answer.status.as_u16(), answer.body.len()), (200, sent.len()));
            assert!(!answer.body.contains(&"0".repeat(64)), "a signature of a chunk was not replaced");
            let stripped: Vec<&str> =
                answer.body.split("\r\n").filter(|line| !line.contains(";chunk-signature=")).collect();
            assert_eq!(stripped.concat().as_bytes(), data.concat());
            fixture.has_only_real_values(&fixture.got());
            assert_eq!(fixture.proxy.request().await.bytes_up, sent.len() as u64);
        }
        fixture.proxy.stop().await;
    }
}

#[tokio::test]
async fn request_with_unsignable_chunks_is_refused() {
    let fixture = Fixture::start(&["h2"]).await;
    let good = chunks(&[&[b'a'; 1000]]);
    let large = chunks(&[&vec![b'a'; 1024 * 1024 + 1]]);
    let cases = [
        (large, 413, "x-sandbox-error"),
        (b"nonsense\r\n\r\n".to_vec(), 400, "x-sandbox-blocked"),
        (good[..good.len() - 3].to_vec(), 400, "x-sandbox-blocked"),
    ];
    for (sent, status, header) in cases {
        // Of unknown length, so that a truncated body is not an HTTP error by itself.
        let frames = sent.chunks(1000).map(|piece| Ok(http_body::Frame::data(Bytes::copy_from_slice(piece))));
        let frames: Vec<_> = frames.collect();
        let body = http_body_util::StreamBody::new(futures_util::stream::iter(frames)).boxed_unsync();
        let request = Request::builder().method("PUT").uri("https://a.example/length");
        let mut request = request.body(body).unwrap();
        *request.headers_mut() = chunked(&fixture, 1000).body(()).unwrap().into_parts().0.headers;
        let answer = fixture.proxy.ask2(request).await;
        assert_eq!(answer.status, status, "{answer:?}");
        assert!(answer.headers.contains_key(header), "{answer:?}");
    }
    fixture.proxy.stop().await;
}

#[tokio::test]
async fn presigned_web_socket_is_signed_with_the_real_key() {
    let fixture = Fixture::start(&["http/1.1"]).await;
    let date = day(OffsetDateTime::now_utc());
    let head = format!(
        "GET /socket?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={}%2F{date}%2Feu-west-1%2Ftranscribe%2Faws4_request\
         &X-Amz-Date={date}T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host&X-Amz-Signature={} HTTP/1.1\r\n\
         Host: a.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        fixture.surrogate("ID"),
        "0".repeat(64)
    );
    let mut stream = fixture.proxy.tls("a.example", &["http/1.1"]).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut start = [0; 12];
    timeout(TIMEOUT, stream.read_exact(&mut start)).await.expect("a response arrives").unwrap();
    assert_eq!(&start, b"HTTP/1.1 101");
    fixture.has_only_real_values(&fixture.got());
    fixture.proxy.stop().await;
}

#[tokio::test]
async fn foreign_credential_in_scope_is_removed_unless_the_key_allows_it() {
    for allowed in [false, true] {
        let fixture = Fixture::start_with(&["http/1.1"], allowed).await;
        let own = [("authorization", "Bearer attacker"), ("x-amz-security-token", "attacker")];
        for ((name, value), host) in own.into_iter().zip(["a.example"; 2]).chain([(own[0], "b.example")]) {
            let head =
                format!("GET /x HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{name}: {value}\r\n\r\n");
            let answer = raw_tls(&fixture.proxy, host, head.as_bytes()).await;
            assert_eq!(answer.status(), 200);
            let kept = allowed || host == "b.example";
            let got = fixture.got();
            assert_held!(kept || !got.contains("attacker"), "{got}");
            assert_eq!(got.contains(&format!("{name}: {value}\n")), kept, "{got}");
            let record = fixture.proxy.request().await;
            assert_eq!((record.masked, record.dropped), (0, u32::from(!kept)), "{name} {host}");
        }
        for (key, kept) in [(fixture.surrogate("ID"), true), ("AKIAATTACKERSOWNKEY0", allowed)] {
            let request = fixture
                .signed("GET", "https://a.example/x", key, OffsetDateTime::now_utc())
                .header(HASH, "UNSIGNED-PAYLOAD");
            assert_eq!(fixture.proxy.ask2(request.body(empty()).unwrap()).await.status, 200);
            let got = fixture.got();
            assert_held!(kept || !got.contains("authorization"), "{got}");
            assert_eq!(got.contains("authorization: AWS4"), kept, "{got}");
        }
        fixture.proxy.stop().await;
    }
}

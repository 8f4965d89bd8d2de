//! Responses that contain a real value: the container gets its surrogate instead.

use std::error::Error;
use std::net::Ipv4Addr;

use http::Request;
use http_body_util::BodyExt;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use sandbox_credentials::{HeaderPattern, Injection, MaskedSecret, SecretValue, prepare_secrets};
use sandbox_proxy_protocol::RequestOutcome;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::harness::{Pki, Proxy, Setup, TIMEOUT, Upstream, empty, get, goaway, raw_tls, send_goaway};

const REAL: &str = "ghp_TheRealTokenOfThisTest0123456789";

async fn start(alpn: &[&str], allow_echo: bool) -> (Proxy, Upstream, String) {
    let pki = Pki::new();
    let upstream = Upstream::start(pki.server(&["a.example"], alpn)).await;
    let (setup, surrogate) = setup(pki, upstream.address, allow_echo);
    (setup.start().await, upstream, surrogate)
}

/// The setup of a proxy with a token for `a.example`, and the token's surrogate.
pub(crate) fn setup(pki: Pki, upstream: Ipv4Addr, allow_echo: bool) -> (Setup, String) {
    let injection = Injection {
        scopes: vec![allowlist::HostPattern::new("a.example").unwrap()],
        headers: vec![HeaderPattern::new("authorization").unwrap()],
        allow_echo,
        ..Injection::default()
    };
    let secret = MaskedSecret::new("TOKEN", SecretValue::new(REAL), injection);
    let secrets = prepare_secrets(&[secret], &[]).unwrap();
    let mut setup = Setup::new(pki, upstream);
    setup.replacements = secrets.replacements().clone();
    let surrogate = secrets.env_vars()["TOKEN"].clone();
    (setup, surrogate)
}

#[tokio::test]
async fn real_value_in_headers_body_and_trailers_is_replaced_unless_echo_is_allowed() {
    for alpn in ["h2", "http/1.1"] {
        for (echo, scrubbed) in [(false, true), (true, false)] {
            let (proxy, upstream, surrogate) = start(&[alpn], echo).await;
            let held = format!("Bearer {surrogate}");
            let real = format!("Bearer {REAL}");
            let expected = if scrubbed { &held } else { &real };
            let request = Request::get("https://a.example/reflect")
                .header("authorization", &held)
                .header("te", "trailers");
            let answer = proxy.ask2(request.body(empty()).unwrap()).await;
            assert!(upstream.seen().concat().contains(&real), "the upstream got the real value");
            assert_held!(echo || !format!("{answer:?}").contains(REAL), "{answer:?}");
            assert_eq!(
                (&answer.body, answer.headers["x-echo"].to_str().unwrap()),
                (expected, expected.as_str())
            );
            let trailers = answer.trailers.expect("the trailers are forwarded");
            assert_eq!(trailers["x-echo"], expected.as_str());
            let count = proxy.request().await.scrubbed;
            assert!(if scrubbed { count >= 3 } else { count == 0 }, "{count}");
            proxy.stop().await;
        }
    }
}

#[tokio::test]
async fn real_value_in_the_reason_phrase_is_replaced() {
    for (echo, status_line) in
        [(false, "HTTP/1.1 200 Bearer SURROGATE\r\n"), (true, "HTTP/1.1 200 Bearer REAL\r\n")]
    {
        let (proxy, _upstream, surrogate) = start(&["http/1.1"], echo).await;
        let head = format!(
            "GET /reflect HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\nAuthorization: Bearer {surrogate}\r\n\r\n"
        );
        let answer = raw_tls(&proxy, "a.example", head.as_bytes()).await.0;
        assert_held!(echo || !answer.contains(REAL), "{answer}");
        let shown = answer.replace(REAL, "REAL").replace(&surrogate, "SURROGATE");
        assert!(shown.starts_with(status_line), "{shown}");
        assert_eq!(answer.contains(REAL), echo);
        proxy.stop().await;
    }
}

#[tokio::test]
async fn real_value_in_the_head_of_an_upgrade_is_replaced() {
    for echo in [false, true] {
        let (proxy, _upstream, surrogate) = start(&["http/1.1"], echo).await;
        let head = format!(
            "GET /socket HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nAuthorization: Bearer {surrogate}\r\n\r\n"
        );
        let mut stream = proxy.tls("a.example", &["http/1.1"]).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            answer.push(timeout(TIMEOUT, stream.read_u8()).await.expect("the 101 arrives").unwrap());
        }
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 101"), "{answer}");
        assert_held!(echo || !answer.contains(REAL), "{answer}");
        let (expected, other) = if echo { (REAL, surrogate.as_str()) } else { (surrogate.as_str(), REAL) };
        assert!(answer.contains(expected) && !answer.contains(other), "{answer}");
        proxy.stop().await;
    }
}

#[tokio::test]
async fn unsearchable_response_is_not_passed_on() {
    for (echo, status) in [(false, 502), (true, 200)] {
        let (proxy, _upstream, _) = start(&["h2"], echo).await;
        let answer = proxy.ask2(get("https://a.example/exotic")).await;
        assert_held!(echo || !answer.body.contains("who can read"), "{answer:?}");
        assert_eq!(answer.status, status, "{answer:?}");
        let record = proxy.request().await;
        if echo {
            assert_eq!(record.decision, RequestOutcome::Allowed);
        } else {
            assert_eq!(answer.headers["x-sandbox-error"], "encoding");
            assert!(answer.body.contains("allow_echo"), "{}", answer.body);
            assert!(record.error.unwrap().starts_with("Scrub: "));
        }
        proxy.stop().await;
    }
}

#[tokio::test]
async fn unreadable_encodings_are_removed_from_accept_encoding() {
    for echo in [false, true] {
        let (proxy, upstream, _) = start(&["h2"], echo).await;
        let request = Request::get("https://a.example/")
            .header("accept-encoding", "exotic, gzip")
            .header("grpc-accept-encoding", "message-exotic");
        assert_eq!(proxy.ask2(request.body(empty()).unwrap()).await.status, 200);
        let seen = upstream.seen().concat();
        assert!(seen.contains("gzip"), "{seen}");
        assert_eq!(seen.contains("exotic"), echo, "{seen}");
        proxy.stop().await;
    }
}

/// The text for the error code of the GOAWAY frame.
const CALM: &str = "connection error received: detected excessive load generating behavior";
const DEBUG_DATA: &[u8] = b"bad token ghp_TheRealTokenOfThisTest0123456789";

/// The control of the next test: an error and its causes contain the debug data.
#[tokio::test]
async fn goaway_debug_data_reaches_a_direct_client() {
    let (near, far) = tokio::io::duplex(4096);
    tokio::spawn(send_goaway(far, DEBUG_DATA, false));
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(near)).await.unwrap();
    tokio::spawn(connection);
    let request = get("https://a.example/x");
    let error = sender.send_request(request).await.unwrap_err();
    let mut causes = Vec::new();
    let mut next = error.source();
    while let Some(cause) = next {
        causes.push(cause.to_string());
        next = cause.source();
    }
    let message = causes.join(": ");
    assert!(message.contains(CALM) && message.contains(REAL), "{message}");
}

#[tokio::test]
async fn goaway_debug_data_is_in_no_response_and_no_record() {
    for answers in [false, true] {
        let pki = Pki::new();
        let upstream = goaway(pki.server(&["a.example"], &["h2"]), DEBUG_DATA, answers).await;
        // Not even where responses may contain the value: debug data is not part of a response.
        let (setup, surrogate) = setup(pki, upstream, true);
        let proxy = setup.start().await;
        let request = Request::get("https://a.example/x")
            .header("authorization", format!("Bearer {surrogate}"))
            .body(empty())
            .unwrap();
        let mut sender = proxy.http2("a.example").await;
        // A broken response may end before the client has seen its head.
        let answer = match sender.send_request(request).await {
            Ok(answer) => format!("{} {:?}", answer.status(), answer.into_body().collect().await),
            Err(error) => format!("{error:?}"),
        };
        let record = proxy.request().await;
        let shown = format!("{record:?}");
        for text in [&answer, &shown] {
            assert_held!(!text.contains(REAL) && !text.contains("bad token"), "{text}");
        }
        let expected = if answers {
            "Reset: error reading a body from connection"
        } else {
            assert!(answer.starts_with("502 "), "{answer}");
            CALM
        };
        assert!(record.error.unwrap().ends_with(expected), "{shown}");
        proxy.stop().await;
    }
}

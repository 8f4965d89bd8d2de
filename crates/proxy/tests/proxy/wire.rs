//! Raw requests and responses: a request that two parsers could delimit differently never passes.

use http::Request;
use sandbox_proxy_protocol::RequestOutcome;

use crate::harness::{Pki, Proxy, Setup, Upstream, body, plain_capture, raw};

async fn start() -> (Proxy, Upstream) {
    let (setup, upstream) = Setup::fresh(&["a.example"], &["http/1.1"]).await;
    (setup.start().await, upstream)
}

#[tokio::test]
async fn ambiguous_framing_is_refused_and_the_connection_ends() {
    let (proxy, upstream) = start().await;
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: a.example\r\n\r\n";
    // One case of each kind; the full tables are in `http/head.rs` and `http/framing/tests.rs`.
    let cases = [
        "POST /length HTTP/1.1\r\nHost: a.example\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST /length HTTP/1.0\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST /length HTTP/1.1\r\nHost: a.example\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
        "GET / HTTP/1.1\nHost: a.example\n\n",
        "GET / HTTP/1.1\r\nHost: a.example\n\r\n",
        "GET / HTTP/1.1\r\nHost: a.example\rX: y\r\n\r\n",
        "GET / HTTP/1.1\r\n Host: a.example\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "\u{16}\u{3}\u{1}\r\n\r\n",
    ];
    for case in cases {
        let answer = raw(&proxy, format!("{case}{smuggled}").as_bytes()).await;
        assert_held!(answer.status() != 200 && answer.count() == 1, "{case:?}: {answer:?}");
        assert_eq!(answer.status(), 400, "{case:?}: {answer:?}");
        let record = proxy.request().await;
        assert_eq!((record.decision, record.status), (RequestOutcome::Blocked, Some(400)), "{case:?}");
    }
    assert_held!(upstream.connections() == 0, "{:?}", upstream.seen());
    proxy.stop().await;
}

#[tokio::test]
async fn repeated_content_length_over_http2_is_refused() {
    let (proxy, upstream) = start().await;
    let request =
        Request::post("https://a.example/length").header("content-length", "2").header("content-length", "2");
    let answer = proxy.ask2(request.body(body("ab")).unwrap()).await;
    assert_eq!((answer.status.as_u16(), answer.reason()), (400, "framing"));
    assert_held!(upstream.connections() == 0, "{:?}", upstream.seen());
    proxy.stop().await;
}

#[tokio::test]
async fn malformed_chunks_are_refused_and_the_rest_is_not_read() {
    let (proxy, _upstream) = start().await;
    let cases = [
        "zz\r\n",
        "1\r\nabc\r\n",
        "1 \r\na\r\n0\r\n\r\n",
        "1\na\n0\n\n",
        "-1\r\n",
        "ffffffffffffffffff\r\n",
        "1\r\na\r\n0\r\n folded\r\n\r\n",
        "1\r\na\r\n0\r\nno colon\r\n\r\n",
        "1\r\na\r\n0\r\n: no name\r\n\r\n",
    ];
    for case in cases {
        let head = "POST /length HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n";
        let smuggled = "GET /smuggled HTTP/1.1\r\nHost: a.example\r\n\r\n";
        let answer = raw(&proxy, format!("{head}{case}{smuggled}").as_bytes()).await;
        assert_held!(answer.status() != 200 && answer.count() == 1, "{case:?}: {answer:?}");
        assert_eq!(answer.status(), 400, "{case:?}: {answer:?}");
        assert_eq!(proxy.request().await.status, Some(400), "{case:?}");
    }
    proxy.stop().await;
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order_until_one_is_refused() {
    let (proxy, _upstream) = start().await;
    let good = "POST /length HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nab\r\n0\r\n\r\n";
    let other = "\r\nPOST /length HTTP/1.1\r\nHost: a.example\r\nContent-Length: 3\r\n\r\nabc";
    let answer =
        raw(&proxy, format!("{good}{other}{good}GET / HTTP/1.1\nHost: a.example\n\n{good}").as_bytes()).await;
    let statuses: Vec<&str> =
        answer.0.split("HTTP/1.1 ").skip(1).filter_map(|answer| answer.get(..3)).collect();
    assert_held!(statuses.len() <= 4, "a request after the refusal was read: {answer:?}");
    assert_eq!(statuses, ["200", "200", "200", "400"], "{answer:?}");
    proxy.stop().await;
}

#[tokio::test]
async fn oversize_heads_are_431() {
    let (proxy, _upstream) = start().await;
    let long = format!("GET / HTTP/1.1\r\nHost: a.example\r\nX: {}\r\n\r\n", "x".repeat(70 * 1024));
    let many = format!("GET / HTTP/1.1\r\nHost: a.example\r\n{}\r\n", "x: y\r\n".repeat(200));
    for head in [long, many] {
        let answer = raw(&proxy, head.as_bytes()).await;
        assert_eq!(answer.status(), 431, "{answer:?}");
        let record = proxy.request().await;
        assert_eq!((record.status, record.host.as_str()), (Some(431), "a.example"));
    }
    let largest =
        format!("GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n{}\r\n", "x: y\r\n".repeat(198));
    assert_eq!(raw(&proxy, largest.as_bytes()).await.status(), 200);
    let long = format!(
        "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\nX: {}\r\n\r\n",
        "x".repeat(60 * 1024)
    );
    assert_eq!(raw(&proxy, long.as_bytes()).await.status(), 200);
    proxy.stop().await;
}

#[tokio::test]
async fn request_reaches_the_upstream_unchanged() {
    let (address, mut seen) =
        plain_capture("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Odd-Case: Yes\r\n\r\nok").await;
    let proxy = Setup::new(Pki::new(), address).start().await;
    let head = "GET /a%2fb//c?x=%00&y=../ HTTP/1.1\r\nHost: A.example\r\nZ-Last: 1\r\nAccept: one\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\
                Connection: Upgrade, HTTP2-Settings, x-named, close\r\nX-Named: gone\r\nProxy-Authorization: gone\r\nAccept: two\r\nKeep-Alive: 1\r\nX-MiXed: yes\r\n\r\n";
    let answer = raw(&proxy, head.as_bytes()).await;
    assert_eq!(answer.status(), 200, "{answer:?}");
    assert!(answer.0.contains("\r\nX-Odd-Case: Yes\r\n"), "{answer:?}");
    let expected = "GET /a%2fb//c?x=%00&y=../ HTTP/1.1\r\nHost: A.example\r\nZ-Last: 1\r\nAccept: one\r\nAccept: two\r\nX-MiXed: yes\r\n\r\n";
    assert_eq!(seen.recv().await.unwrap(), expected);
    proxy.stop().await;
}

#[tokio::test]
async fn connection_header_that_names_an_essential_header_is_refused() {
    let (proxy, upstream) = start().await;
    for name in ["host", "content-length", "authorization"] {
        let head = format!("GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close, {name}\r\n\r\n");
        assert_eq!(raw(&proxy, head.as_bytes()).await.status(), 400, "{name}");
    }
    assert_held!(upstream.connections() == 0, "{:?}", upstream.seen());
    proxy.stop().await;
}

#[tokio::test]
async fn unrequested_101_is_an_error() {
    let (address, _seen) = plain_capture(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nsmuggled",
    )
    .await;
    let proxy = Setup::new(Pki::new(), address).start().await;
    let answer = raw(&proxy, b"GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n").await;
    assert_eq!(answer.status(), 502, "{answer:?}");
    assert_held!(!answer.0.contains("smuggled"), "{answer:?}");
    assert_eq!(proxy.request().await.decision, RequestOutcome::Error);
    proxy.stop().await;
}

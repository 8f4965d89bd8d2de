//! Limits: a clear response at each, never a hang.

use std::time::{Duration, Instant};

use allowlist::Reason;
use http::Request;
use sandbox_proxy_protocol::{BlockReason, Command, Event, Limits};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::harness::{Answer, Proxy, Setup, TIMEOUT, Upstream, empty, get, raw};

async fn start(change: impl FnOnce(&mut Limits)) -> (Proxy, Upstream) {
    let (mut setup, upstream) = Setup::fresh(&["a.example"], &["h2"]).await;
    change(&mut setup.limits);
    (setup.start().await, upstream)
}

async fn limit(proxy: &Proxy) -> String {
    proxy.record(|event| if let Event::Limit { limit, .. } = event { Some(limit) } else { None }).await
}

async fn read_until_closed(mut stream: TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    let _ = timeout(TIMEOUT, stream.read_to_end(&mut rest)).await.expect("the proxy closes the connection");
    rest
}

#[tokio::test]
async fn connection_above_the_limit_is_closed() {
    let (proxy, _upstream) = start(|limits| limits.connections = 2).await;
    let held =
        [TcpStream::connect(proxy.http()).await.unwrap(), TcpStream::connect(proxy.https()).await.unwrap()];
    let mut refused = TcpStream::connect(proxy.http()).await.unwrap();
    // The refusal may arrive as a reset during this write.
    let _ = refused.write_all(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").await;
    assert!(read_until_closed(refused).await.is_empty());
    assert_eq!(limit(&proxy).await, "connections");
    drop(held);
    let served = async {
        while raw_status(&proxy).await != 200 {
            tokio::task::yield_now().await;
        }
    };
    timeout(TIMEOUT, served).await.expect("a slot becomes free");
    proxy.stop().await;
}

#[tokio::test]
async fn limit_reached_just_before_the_owner_disconnects_is_recorded() {
    let (mut proxy, _upstream) = start(|limits| limits.connections = 1).await;
    let held = TcpStream::connect(proxy.http()).await.unwrap();
    let refused = TcpStream::connect(proxy.http()).await.unwrap();
    assert!(read_until_closed(refused).await.is_empty());
    proxy.abandon().await;
    assert_eq!(limit(&proxy).await, "connections");
    drop(held);
}

async fn raw_status(proxy: &Proxy) -> u16 {
    let mut stream = TcpStream::connect(proxy.http()).await.unwrap();
    let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n").await;
    let answer = String::from_utf8(read_until_closed(stream).await).unwrap();
    answer.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0)
}

#[tokio::test]
async fn request_above_the_limit_is_503() {
    let (proxy, upstream) = start(|limits| limits.requests = 1).await;
    let client = proxy.http2("a.example").await;
    let mut waiting = client.clone();
    let request = get("https://a.example/events");
    let open = waiting.send_request(request).await.unwrap();
    let mut other = client.clone();
    let refused = Answer::read(other.send_request(get("https://a.example/")).await.unwrap()).await;
    assert_eq!((refused.status.as_u16(), refused.reason()), (503, "limit"));
    let record = proxy.request().await;
    assert_eq!(
        (record.status, record.reason, record.host.as_str()),
        (Some(503), Some(BlockReason::Limit), "a.example")
    );
    assert_eq!(limit(&proxy).await, "requests");
    upstream.go_on();
    assert_eq!(Answer::read(open).await.status, 200);
    proxy.request().await;
    let answer = other.send_request(get("https://a.example/")).await.unwrap();
    assert_eq!(answer.status(), 200);
    proxy.stop().await;
}

#[tokio::test]
async fn slow_head_is_408() {
    let (proxy, _upstream) = start(|limits| limits.head_timeout_ms = 300).await;
    let started = Instant::now();
    let mut stream = TcpStream::connect(proxy.http()).await.unwrap();
    let (mut read, mut write) = stream.split();
    let dribble = async {
        for byte in b"GET / HTTP/1.1\r\nHost: a.example\r\nX: ".iter().chain(b"y".iter().cycle()) {
            if write.write_all(&[*byte]).await.is_err() {
                return;
            }
            // tidy: sleep: the slow client under test.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let mut answer = Vec::new();
    // A write may fail before the response is read.
    let ((), _) = tokio::join!(dribble, read.read_to_end(&mut answer));
    assert!(String::from_utf8_lossy(&answer).starts_with("HTTP/1.1 408 "), "{answer:?}");
    assert!(started.elapsed() < Duration::from_secs(5));
    assert_eq!(proxy.request().await.reason, Some(BlockReason::Timeout));
    proxy.stop().await;
}

#[tokio::test]
async fn silent_connection_is_closed() {
    let (proxy, _upstream) = start(|limits| limits.head_timeout_ms = 200).await;
    for address in [proxy.http(), proxy.https()] {
        let stream = TcpStream::connect(address).await.unwrap();
        assert!(read_until_closed(stream).await.is_empty());
        assert_eq!(limit(&proxy).await, "head_timeout_ms");
    }
    // A partial ClientHello does not extend the time.
    let mut stream = TcpStream::connect(proxy.https()).await.unwrap();
    stream.write_all(&[0x16, 3, 1, 2, 0, 1]).await.unwrap();
    read_until_closed(stream).await;
    proxy.stop().await;
}

#[tokio::test]
async fn idle_connections_are_closed() {
    let (proxy, _upstream) = start(|limits| limits.idle_timeout_ms = 2000).await;
    let mut http1 = proxy.http1("a.example").await;
    Answer::read(
        http1
            .send_request(Request::get("/").header("host", "a.example").body(empty()).unwrap())
            .await
            .unwrap(),
    )
    .await;
    let mut http2 = proxy.http2("a.example").await;
    Answer::read(http2.send_request(get("https://a.example/")).await.unwrap()).await;
    let closed = async {
        while !http1.is_closed() || !http2.is_closed() {
            tokio::task::yield_now().await;
        }
    };
    timeout(TIMEOUT, closed).await.expect("both connections are closed");
    proxy.stop().await;
}

#[tokio::test]
async fn connection_with_an_open_request_is_not_idle() {
    let (proxy, upstream) = start(|limits| limits.idle_timeout_ms = 1000).await;
    let request = get("https://a.example/wait");
    let mut client = proxy.http2("a.example").await;
    let mut waiting = std::pin::pin!(client.send_request(request));
    assert!(timeout(Duration::from_millis(2500), &mut waiting).await.is_err());
    upstream.go_on();
    assert_eq!(Answer::read(waiting.await.unwrap()).await.body, "at last");
    proxy.stop().await;
}

#[tokio::test]
async fn upstream_that_does_not_respond_in_time_is_502() {
    let (proxy, _upstream) = start(|limits| limits.response_timeout_ms = Some(200)).await;
    let answer = proxy.ask2(get("https://a.example/wait")).await;
    assert_eq!(
        (answer.status.as_u16(), &answer.headers["x-sandbox-error"]),
        (502, &"timeout".parse().unwrap())
    );
    proxy.stop().await;
}

#[tokio::test]
async fn stopping_proxy_waits_for_requests_up_to_the_drain_limit() {
    let (proxy, _upstream) = start(|limits| limits.drain_ms = 300).await;
    let request = get("https://a.example/wait");
    let mut client = proxy.http2("a.example").await;
    let mut waiting = std::pin::pin!(client.send_request(request));
    assert!(timeout(Duration::from_millis(200), &mut waiting).await.is_err());
    let started = Instant::now();
    proxy.stop().await;
    assert!(started.elapsed() >= Duration::from_millis(300) && started.elapsed() < Duration::from_secs(10));
    assert!(waiting.await.is_err());
}

#[tokio::test]
async fn owner_that_disconnects_ends_requests_at_once_with_a_record() {
    let (mut proxy, _upstream) = start(|limits| limits.drain_ms = 600_000).await;
    let request = get("https://a.example/wait");
    let mut client = proxy.http2("a.example").await;
    let mut waiting = std::pin::pin!(client.send_request(request));
    let open = proxy.record(|event| match event {
        Event::RequestOpen(open) => Some(open),
        _ => None,
    });
    let open = tokio::select! {
        _ = &mut waiting => panic!("the request does not wait"),
        open = open => open,
    };
    assert_eq!(
        (open.method.as_str(), open.host.as_str(), open.target.as_str()),
        ("GET", "a.example", "/wait")
    );
    proxy.abandon().await;
    assert!(waiting.await.is_err());
    assert_eq!(proxy.request().await.target, "/wait");
}

#[tokio::test]
async fn request_over_the_log_limit_is_refused_and_refusals_do_not_count() {
    let (proxy, upstream) = start(|limits| limits.log_bytes = 5 * 800).await;
    for _ in 0..50 {
        let refused = get("https://a.example:444/");
        assert_eq!(proxy.ask2(refused).await.status, 403);
        assert_eq!(proxy.request().await.reason, Some(Reason::Port.into()));
    }
    let ask = async || {
        let request = get("https://a.example/");
        let status = proxy.ask2(request).await.status;
        (status.as_u16(), proxy.request().await.reason)
    };
    let mut served = 0;
    let full = loop {
        match ask().await {
            (200, None) if served < 50 => served += 1,
            other => break other,
        }
    };
    assert_eq!(full, (503, Some(BlockReason::Limit)));
    assert_eq!(ask().await, (503, Some(BlockReason::Limit)), "the limit lasts");
    assert!((3..10).contains(&served), "{served}");
    assert_eq!(upstream.connections(), 1);
    proxy.stop().await;
}

#[tokio::test]
async fn silent_owner_blocks_every_request() {
    let (proxy, _upstream) = start(|limits| limits.owner_timeout_ms = Some(1_000)).await;
    let ask = async |client: &mut hyper::client::conn::http2::SendRequest<_>, path: &str| {
        let url = format!("https://a.example{path}");
        let request = get(url);
        client.send_request(request).await.map(|response| response.status().as_u16())
    };
    let mut client = proxy.http2("a.example").await;
    assert_eq!(ask(&mut client, "/").await.unwrap(), 200, "the control");
    let cut = timeout(TIMEOUT, ask(&mut client, "/wait")).await.expect("the request is cut off");
    assert!(cut.is_err(), "{cut:?}");
    let mut client = proxy.http2("a.example").await;
    assert_eq!(ask(&mut client, "/").await.unwrap(), 503);
    let back = async {
        loop {
            proxy.command(&Command::Alive {}).await;
            if ask(&mut client, "/").await.is_ok_and(|status| status == 200) {
                return;
            }
        }
    };
    timeout(TIMEOUT, back).await.expect("requests pass once the owner is back");
    proxy.stop().await;
}

#[tokio::test]
async fn refusals_do_not_count_as_connections() {
    let (proxy, _upstream) = start(|limits| limits.connections = 1).await;
    for _ in 0..5 {
        let served = async {
            while raw(&proxy, b"GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
                .await
                .status()
                != 403
            {
                tokio::task::yield_now().await;
            }
        };
        timeout(TIMEOUT, served).await.expect("the slot becomes free again");
    }
    proxy.stop().await;
}

#[tokio::test]
async fn pooled_connections_above_the_limit_are_closed() {
    for alpn in ["h2", "http/1.1"] {
        let names = ["a.example", "b.example", "c.example", "d.example", "e.example"];
        let (mut setup, upstream) = Setup::fresh(&names, &[alpn]).await;
        setup.policy = "domains: [\"*.example\"]";
        setup.limits.pooled_connections = 2;
        let proxy = setup.start().await;
        for name in names {
            let answer = proxy.ask2(get(format!("https://{name}/"))).await;
            assert_eq!(answer.status, 200);
        }
        let evicted = async {
            while upstream.open_connections() != 2 {
                tokio::task::yield_now().await;
            }
        };
        timeout(TIMEOUT, evicted).await.expect("the pool keeps two connections");
        assert_eq!(upstream.connections(), 5);
        proxy.stop().await;
    }
}

#[tokio::test]
async fn request_with_a_full_record_queue_is_refused() {
    let (mut setup, _upstream) = Setup::fresh(&["a.example"], &["h2"]).await;
    setup.owner_reads = false;
    let proxy = setup.start().await;
    let mut client = proxy.http2("a.example").await;
    let mut statuses = Vec::new();
    while statuses.len() < 10_000 && statuses.last() != Some(&503) {
        let response =
            client.send_request(Request::head("https://a.example/").body(empty()).unwrap()).await.unwrap();
        statuses.push(response.status().as_u16());
    }
    assert_eq!(statuses.last(), Some(&503));
    assert!(statuses.len() > 1000, "{}", statuses.len());
}

#[tokio::test]
async fn too_many_headers_over_http2_are_431() {
    let (proxy, _upstream) = start(|limits| limits.headers = 20).await;
    let request = |count| {
        (0..count).fold(Request::get("https://a.example/"), |request, index| {
            request.header(format!("x-{index}"), "1")
        })
    };
    assert_eq!(proxy.ask2(request(20).body(empty()).unwrap()).await.status, 200);
    assert_eq!(proxy.ask2(request(21).body(empty()).unwrap()).await.status, 431);
    proxy.request().await;
    let record = proxy.request().await;
    assert_eq!(record.reason, Some(BlockReason::HeadTooLarge));
    let long = Request::get("https://a.example/").header("x", "y".repeat(70 * 1024));
    assert_eq!(proxy.ask2(long.body(empty()).unwrap()).await.status, 431);
    assert_eq!(proxy.request().await.reason, Some(BlockReason::HeadTooLarge));
    proxy.stop().await;
}

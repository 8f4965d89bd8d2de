//! WebSocket upgrades: they open only after the upstream's 101, and then pass byte for byte.

use allowlist::Reason;
use sandbox_proxy_protocol::{BlockReason, Command, Event, TunnelRecord};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::harness::{Pki, Proxy, Setup, TIMEOUT, Upstream, raw_tls};

async fn start() -> (Proxy, Upstream) {
    let pki = Pki::new();
    // HTTP/2 is offered too, but must not be chosen for an upgrade.
    let upstream = Upstream::start(pki.server(&["a.example"], &["h2", "http/1.1"])).await;
    (Setup::new(pki, upstream.address).start().await, upstream)
}

fn head(path: &str, host: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
}

async fn tunnel_record(proxy: &Proxy) -> TunnelRecord {
    proxy.record(|event| if let Event::Tunnel(record) = event { Some(record) } else { None }).await
}

/// Opens a WebSocket and checks that it echoes bytes that are not HTTP.
async fn open(proxy: &Proxy) -> tokio_rustls::client::TlsStream<tokio::net::TcpStream> {
    let mut stream = proxy.tls("a.example", &["http/1.1"]).await.unwrap();
    stream.write_all(head("/socket?x=1", "a.example").as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(timeout(TIMEOUT, stream.read_u8()).await.expect("the 101 arrives").unwrap());
    }
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{answer}");
    assert!(
        answer.to_lowercase().contains("\r\nsec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=\r\n"),
        "{answer}"
    );
    for bytes in [b"\x81\x05hello\n".as_slice(), b"POST / HTTP/1.1\nbare\r\r\n\r\n", &[0, 255, 10, 13, 13]] {
        stream.write_all(bytes).await.unwrap();
        let mut echo = vec![0; bytes.len()];
        timeout(TIMEOUT, stream.read_exact(&mut echo)).await.expect("the echo arrives").unwrap();
        assert_eq!(echo, bytes);
    }
    stream
}

#[tokio::test]
async fn tunnelled_bytes_pass_both_ways_and_are_counted() {
    let (proxy, _upstream) = start().await;
    let stream = open(&proxy).await;
    let request = proxy.request().await;
    assert_eq!((request.status, request.target.as_str()), (Some(101), "/socket?x=1"));
    drop(stream);
    let record = tunnel_record(&proxy).await;
    assert_eq!((record.host.as_str(), record.target.as_str()), ("a.example", "/socket?x=1"));
    assert_eq!((record.bytes_up, record.bytes_down), (38, 38));
    proxy.stop().await;
}

#[tokio::test]
async fn handshake_to_a_forbidden_host_is_refused() {
    let (proxy, upstream) = start().await;
    let answer = raw_tls(
        &proxy,
        "evil.example",
        head("/socket", "evil.example").replace("keep-alive", "close").as_bytes(),
    )
    .await;
    assert_eq!(answer.status(), 403, "{answer:?}");
    assert_eq!(proxy.request().await.reason, Some(Reason::Host.into()));
    assert_held!(upstream.connections() == 0, "{:?}", upstream.seen());
    proxy.stop().await;
}

#[tokio::test]
async fn response_without_101_opens_no_tunnel() {
    let (proxy, _upstream) = start().await;
    // The bytes that follow are the next request, and are judged as such.
    let smuggled = "GET /x HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    let bytes = head("/socket-refused", "a.example") + smuggled;
    let answer = raw_tls(&proxy, "a.example", bytes.as_bytes()).await;
    let statuses: Vec<&str> =
        answer.0.split("HTTP/1.1 ").skip(1).filter_map(|answer| answer.get(..3)).collect();
    assert_held!(!answer.0.contains("HTTP/1.1 200"), "{answer:?}");
    assert_eq!(statuses, ["403", "421"], "{answer:?}");
    assert_eq!(proxy.request().await.reason, None);
    assert_eq!(proxy.request().await.reason, Some(BlockReason::IdentityMismatch));
    proxy.stop().await;
}

#[tokio::test]
async fn quarantine_ends_a_tunnel() {
    let (proxy, _upstream) = start().await;
    let mut stream = open(&proxy).await;
    proxy.command(&Command::Quarantine {}).await;
    let mut rest = Vec::new();
    let _ = timeout(TIMEOUT, stream.read_to_end(&mut rest)).await.expect("the tunnel ends");
    assert!(rest.is_empty());
    tunnel_record(&proxy).await;
    proxy.stop().await;
}

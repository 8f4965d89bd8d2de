//! Peers that send an endless flood at no cost to themselves: the memory of the program does not
//! grow, and other clients are served.

use std::net::{Ipv4Addr, SocketAddr};

use http::Request;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::harness::{
    HTTP, HTTPS, Pki, Proxy, Setup, TIMEOUT, Upstream, empty, fresh_address, get, peak_memory, raw,
};

/// Frames of a flood (RUSTSEC-2026-0258: each stayed in memory).
const FRAMES: usize = 1_000_000;
/// The peak resident memory that the program may reach, in kilobytes.
const MAX_PEAK_KB: u64 = 40_000;

fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags, 0, 0, 0, 1], payload].concat()
}

/// Writes `piece` `times` times, or until the peer stops reading; returns whether all was written.
async fn flood(stream: &mut (impl AsyncWrite + Unpin), piece: &[u8], times: usize) -> bool {
    let block = piece.repeat(1000);
    for _ in 0..times / 1000 {
        match timeout(TIMEOUT, stream.write_all(&block)).await {
            Ok(Ok(())) => {}
            _ => return false,
        }
    }
    let _ = timeout(TIMEOUT, stream.flush()).await;
    true
}

async fn is_served(proxy: &Proxy) -> bool {
    let request = Request::get("/").header("host", "b.example").body(empty()).unwrap();
    proxy.ask1(request).await.status == 200
}

/// Starts a proxy in a process of its own, for two hosts of one upstream.
async fn start(upstream: &Upstream, pki: Pki) -> (Proxy, u32) {
    let mut setup = Setup::new(pki, upstream.address);
    setup.policy = "domains: [a.example, b.example]";
    setup.start_process().await
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_frames_of_a_task_do_not_grow_memory() {
    let pki = Pki::new();
    let upstream = Upstream::start(pki.server(&["a.example", "b.example"], &["h2", "http/1.1"])).await;
    let (proxy, process) = start(&upstream, pki).await;
    let stream = proxy.tls("a.example", &["h2"]).await.unwrap();
    let (mut reading, mut writing) = tokio::io::split(stream);
    let drained = tokio::spawn(async move { tokio::io::copy(&mut reading, &mut tokio::io::sink()).await });
    // POST /wait, which the upstream does not read.
    let head = [&[0x83, 0x87, 0x01, 9][..], b"a.example", &[0x04, 5], b"/wait"].concat();
    let mut settings = frame(4, 0, b"");
    settings[8] = 0;
    let hello = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", settings.as_slice(), &frame(1, 4, &head)].concat();
    writing.write_all(&hello).await.unwrap();
    flood(&mut writing, &frame(0, 0, b""), FRAMES).await;
    assert!(is_served(&proxy).await);
    let peak = peak_memory(process);
    assert!(peak < MAX_PEAK_KB, "{peak} kB");
    drained.abort();
    upstream.go_on();
    proxy.stop().await;
}

/// Listens at a fresh address and runs `speak` on each connection.
pub(crate) async fn serve_connections<F>(
    port: u16,
    speak: impl Fn(TcpStream) -> F + Send + 'static,
) -> Ipv4Addr
where
    F: Future<Output = ()> + Send + 'static,
{
    let address = fresh_address();
    let listener = TcpListener::bind(SocketAddr::new(address.into(), port)).await.unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(speak(stream));
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_frames_of_an_upstream_do_not_grow_memory() {
    // The control: without the flood the response begins.
    for frames in [0, FRAMES] {
        let pki = Pki::new();
        let acceptor = TlsAcceptor::from(pki.server(&["a.example"], &["h2"]));
        let (flooded, mut all) = tokio::sync::mpsc::unbounded_channel();
        let address = serve_connections(HTTPS, move |stream| {
            let (acceptor, flooded) = (acceptor.clone(), flooded.clone());
            async move {
                let Ok(stream) = acceptor.accept(stream).await else {
                    return;
                };
                let (mut reading, mut writing) = tokio::io::split(stream);
                let _ = writing.write_all(&settings()).await;
                if read_request(&mut reading).await.is_none() {
                    return;
                }
                let rest = tokio::spawn(async move {
                    let _ = tokio::io::copy(&mut reading, &mut tokio::io::sink()).await;
                });
                let _ = writing.write_all(&frame(1, 4, &[0x88])).await;
                flood(&mut writing, &frame(0, 0, b""), frames).await;
                let _ = flooded.send(());
                let _ = rest.await;
            }
        })
        .await;
        let (proxy, process) = Setup::new(pki, address).start_process().await;
        let request = get("https://a.example/");
        let mut client = proxy.http2("a.example").await;
        // A flood may end the stream at once.
        let answer = timeout(TIMEOUT, client.send_request(request)).await.unwrap();
        if frames == 0 {
            assert_eq!(answer.as_ref().unwrap().status(), 200);
        }
        all.recv().await.unwrap();
        let peak = peak_memory(process);
        assert!(peak < MAX_PEAK_KB, "{peak} kB");
        drop(answer);
        proxy.stop().await;
    }
}

fn settings() -> Vec<u8> {
    let mut settings = frame(4, 0, b"");
    // Settings belong to stream 0.
    settings[8] = 0;
    settings
}

/// Reads up to and including the head of a request.
async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> Option<()> {
    stream.read_exact(&mut [0; 24]).await.ok()?;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await.ok()?;
        let [a, b, c, kind, ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        stream.read_exact(&mut payload).await.ok()?;
        if kind == 1 {
            return Some(());
        }
    }
}

/// nono#1617: the response to an upgrade was read without a bound.
#[tokio::test(flavor = "multi_thread")]
async fn endless_response_head_is_refused_in_bounded_memory() {
    const UPGRADE: &str = "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\n\
                           Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
    const PLAIN: &str = "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";
    for (begin, again) in [
        (
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX: ",
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        ),
        ("HTTP/1.1 101 Switching Protocols\r\n", "X: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n"),
        ("", "HTTP/1.1 103 Early Hints\r\nLink: </x>; rel=preload\r\n\r\n"),
        ("", "HTTP/1.1 100 Continue\r\n\r\n"),
    ] {
        for asked in [UPGRADE, PLAIN] {
            let address = serve_connections(HTTP, move |mut stream| async move {
                let mut buffer = [0; 4096];
                let _ = stream.read(&mut buffer).await;
                let _ = stream.write_all(begin.as_bytes()).await;
                // Until the proxy closes the connection.
                while flood(&mut stream, again.as_bytes(), 1000).await {}
            })
            .await;
            let mut setup = Setup::new(Pki::new(), address);
            setup.limits.response_timeout_ms = Some(2000);
            let (proxy, process) = setup.start_process().await;
            let answer = raw(&proxy, asked.as_bytes());
            let status = timeout(TIMEOUT, answer).await.expect("a response arrives").status();
            assert!([502, 504].contains(&status), "{begin:?} {again:?}: {status}");
            let peak = peak_memory(process);
            assert!(peak < MAX_PEAK_KB, "{begin:?} {again:?}: {peak} kB");
            proxy.stop().await;
        }
    }
}

//! The memory of the program does not depend on the amount of traffic.

use std::time::Duration;

use futures_util::future::join_all;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::floods::serve_connections;
use crate::harness::{Answer, HTTPS, Pki, Setup, empty, get, peak_memory, streaming_body};
use crate::reflected;

/// The bytes of one upload and of one download.
const LARGE: usize = 128 * 1024 * 1024;
/// The peak resident memory that the program may reach, in kilobytes.
const MAX_PEAK_KB: u64 = 40_000;

#[tokio::test(flavor = "multi_thread")]
async fn large_bodies_and_many_streams_stay_below_the_bound() {
    let (setup, _upstream) = Setup::fresh(&["a.example"], &["h2", "http/1.1"]).await;
    let (proxy, process) = setup.start_process().await;

    let answer =
        proxy.ask2(Request::post("https://a.example/length").body(streaming_body(LARGE)).unwrap()).await;
    assert_eq!(answer.body, LARGE.to_string());
    let request = Request::get(format!("/zeros?{LARGE}")).header("host", "a.example").body(empty()).unwrap();
    let mut response = proxy.http1("a.example").await.send_request(request).await.unwrap();
    let mut length = 0;
    while let Some(frame) = response.body_mut().frame().await {
        length += frame.unwrap().into_data().map_or(0, |data| data.len());
    }
    assert_eq!(length, LARGE);

    // Twenty clients request large bodies and do not read them.
    let stalled = join_all((0..20).map(|_| async {
        let mut client = proxy.http2("a.example").await;
        let request = get(format!("https://a.example/zeros?{LARGE}"));
        let response = client.send_request(request).await.unwrap();
        (client, response)
    }))
    .await;
    // They do not block another client, once the proxy has noticed that they are slow.
    // tidy: sleep: nothing reports that their upstream may send no more; too short a wait passes.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut other = None;
    for seconds in [1, 2, 4, 8, 16, 32, 64] {
        let mut client = proxy.http1("a.example").await;
        let request = Request::get("/").header("host", "a.example").body(empty()).unwrap();
        let asked = async { Answer::read(client.send_request(request).await.unwrap()).await.status };
        other = timeout(Duration::from_secs(seconds), asked).await.ok();
        if other.is_some() {
            break;
        }
    }
    assert_eq!(other, Some(StatusCode::OK));
    let peak = peak_memory(process);
    assert!(peak < MAX_PEAK_KB, "{peak} kB");
    drop(stalled);
    proxy.stop().await;
}

/// The memory reserved for one zstd stream with the largest window, 8 MiB. All decoders together
/// must not exceed 64 MiB.
const RESERVED: u64 = 17 * 1024;
/// More than twice the window, so that the window was moved. The last bytes may be withheld: a
/// secret could begin there.
const DECODED: usize = 20 << 20;
const READ: usize = 17 << 20;

/// Starts an upstream that responds with an unfinished zstd frame with the largest window: blocks
/// of one repeated byte, each of 128 KiB.
async fn unfinished_zstd(pki: &Pki) -> std::net::Ipv4Addr {
    let acceptor = TlsAcceptor::from(pki.server(&["a.example"], &["http/1.1"]));
    serve_connections(HTTPS, move |stream| {
        let acceptor = acceptor.clone();
        async move {
            let Ok(mut stream) = acceptor.accept(stream).await else {
                return;
            };
            let _ = stream.read(&mut [0; 4096]).await;
            let head = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Encoding: zstd\r\n\r\n";
            let frame = [0x28, 0xb5, 0x2f, 0xfd, 0, 13 << 3];
            let blocks = [0x02, 0x00, 0x10, b'x'].repeat(DECODED >> 17);
            let _ = stream.write_all(&[&head[..], &frame, &blocks].concat()).await;
            let _ = stream.flush().await;
            let _ = stream.read(&mut [0]).await;
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn zstd_stream_above_the_decoder_memory_limit_does_not_pass() {
    let pki = Pki::new();
    let address = unfinished_zstd(&pki).await;
    let (setup, surrogate) = reflected::setup(pki, address, false);
    let (proxy, process) = setup.start_process().await;
    let before = peak_memory(process);
    let mut held = Vec::new();
    for expected in [true, true, true, false] {
        let request = Request::get("/")
            .header("host", "a.example")
            .header("authorization", format!("Bearer {surrogate}"))
            .body(empty())
            .unwrap();
        let mut client = proxy.http1("a.example").await;
        let mut response = client.send_request(request).await.unwrap();
        let mut length = 0;
        while length < READ {
            match response.body_mut().frame().await {
                Some(Ok(frame)) => length += frame.into_data().map_or(0, |data| data.len()),
                _ => break,
            }
        }
        assert_eq!(length >= READ, expected, "{length}");
        held.push((client, response));
    }
    let taken = peak_memory(process) - before;
    // The control: at least three windows are allocated.
    assert!(taken > 3 * 8 * 1024, "{taken} kB");
    assert!(taken < 4 * RESERVED, "{taken} kB");
    drop(held);
    proxy.stop().await;
}

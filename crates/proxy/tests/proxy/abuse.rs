//! Clients that use all that the limits admit and leave their requests or responses unfinished: the
//! memory of the program stays far below the limit of its container.

use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use futures_util::{StreamExt, stream};
use http::{HeaderValue, Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::harness::{Body, Proxy, Setup, TIMEOUT, get, peak_memory, streaming_body};

/// Connections that the limits admit.
const CONNECTIONS: usize = 256;
/// Requests that the limits admit.
const REQUESTS: usize = 512;
/// Larger than any window or buffer.
const LARGE: usize = 64 * 1024 * 1024;
/// The peak resident memory that the program may reach, in kilobytes; its container has 128 MiB. This is
/// for the unoptimized program, whose peak in the test with the most is between 82,000 and 101,000; that
/// of the shipped one is below 50,000 in all of them.
const MAX_PEAK_KB: u64 = 112_000;
/// The time for requests that get no response to progress as far as they can.
const SETTLE: Duration = Duration::from_secs(1);

/// Opens an HTTP/2 connection whose streams accept no byte of a response body.
async fn connect_without_reading(proxy: &Proxy, server_name: &str) -> http2::SendRequest<Body> {
    let stream = proxy.tls(server_name, &["h2"]).await.unwrap();
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(0)
        .handshake(TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    sender
}

/// Opens as many connections as the limits admit, each for the server name that `name` returns for
/// its number.
async fn connect_all(proxy: &Proxy, name: impl Fn(usize) -> String) -> Vec<http2::SendRequest<Body>> {
    let made = stream::iter(0..CONNECTIONS).map(|number| {
        let name = name(number);
        async move { connect_without_reading(proxy, &name).await }
    });
    made.buffered(32).collect().await
}

/// Sends a request with `lines` header lines that the proxy refuses.
async fn send_denied(
    client: &http2::SendRequest<Body>,
    url: &str,
    lines: usize,
) -> hyper::Result<Response<Incoming>> {
    let request = get(url);
    let (mut parts, body) = request.into_parts();
    for _ in 0..lines {
        parts.headers.append("x", HeaderValue::from_static("y"));
    }
    client.clone().send_request(Request::from_parts(parts, body)).await
}

/// Collects responses until no more arrive. Some never do, because none of the bodies is read.
async fn collect_responses<F>(mut asked: FuturesUnordered<F>) -> Vec<Response<Incoming>>
where
    F: Future<Output = hyper::Result<Response<Incoming>>>,
{
    let mut held = Vec::new();
    let mut wait = TIMEOUT;
    while let Ok(Some(response)) = timeout(wait, asked.next()).await {
        held.extend(response.ok());
        wait = SETTLE;
    }
    held
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_responses_stay_below_the_memory_bound() {
    let (setup, _upstream) = Setup::fresh(&["a.example"], &["h2"]).await;
    let (proxy, process) = setup.start_process().await;
    let clients = connect_all(&proxy, |_| "evil.example".to_owned()).await;
    let requests = (0..64).flat_map(|_| clients.iter());
    let asked: FuturesUnordered<_> =
        requests.map(|client| send_denied(client, "https://evil.example/", 0)).collect();
    let held = collect_responses(asked).await;
    for status in [403, 503] {
        assert!(held.iter().any(|response| response.status() == status), "{status}");
    }
    let peak = peak_memory(process);
    assert!(peak < MAX_PEAK_KB, "{peak} kB");
    drop(held);
    drop(clients);
    proxy.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_of_very_many_lines_stay_below_the_memory_bound() {
    let (setup, _upstream) = Setup::fresh(&["a.example"], &["h2"]).await;
    let (proxy, process) = setup.start_process().await;
    let clients = connect_all(&proxy, |_| "evil.example".to_owned()).await;
    let requests = (0..2).flat_map(|_| clients.iter());
    // Each header line is one byte on the wire.
    let asked = requests.map(|client| send_denied(client, "https://evil.example/", 1500)).collect();
    let held = collect_responses(asked).await;
    assert!(held.iter().any(|response| response.status() == 431));
    let peak = peak_memory(process);
    assert!(peak < MAX_PEAK_KB, "{peak} kB");
    drop(held);
    drop(clients);
    proxy.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_without_a_reader_stay_below_the_memory_bound() {
    let (setup, _upstream) = Setup::fresh(&["a.example"], &["h2"]).await;
    let (proxy, process) = setup.start_process().await;
    let clients = connect_all(&proxy, |_| "a.example".to_owned()).await;
    // The upstream does not read the bodies of the first path; the gate refuses the second, whose
    // bodies the proxy itself reads in part.
    let paths = ["https://a.example/wait", "https://b.example/"];
    let uploads = clients.iter().flat_map(|client| {
        paths.into_iter().cycle().take(16).map(|path| {
            let mut client = client.clone();
            async move {
                let request = Request::post(path).body(streaming_body(LARGE)).unwrap();
                client.send_request(request).await
            }
        })
    });
    let _ = timeout(3 * SETTLE, join_all(uploads)).await;
    let peak = peak_memory(process);
    assert!(peak < MAX_PEAK_KB, "{peak} kB");
    drop(clients);
    proxy.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_downloads_from_many_hosts_stay_below_the_memory_bound() {
    for alpn in ["h2", "http/1.1"] {
        let (mut setup, _upstream) = Setup::fresh(&["*.a.example"], &[alpn]).await;
        setup.policy = "domains: [\"*.a.example\"]";
        let (proxy, process) = setup.start_process().await;
        let clients = connect_all(&proxy, |number| format!("h{number}.a.example")).await;
        let downloads = (0..REQUESTS).map(|number| {
            let number = number % CONNECTIONS;
            let mut client = clients[number].clone();
            async move {
                let url = format!("https://h{number}.a.example/zeros?{LARGE}");
                client.send_request(get(url)).await.unwrap()
            }
        });
        let held = join_all(downloads).await;
        // Some may fail on a busy machine.
        let begun = held.iter().filter(|response| response.status() == 200).count();
        assert!(begun > REQUESTS / 2, "{alpn}: {begun}");
        let _ = timeout(SETTLE, std::future::pending::<()>()).await;
        let peak = peak_memory(process);
        assert!(peak < MAX_PEAK_KB, "{alpn}: {peak} kB");
        drop(held);
        drop(clients);
        proxy.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_that_never_end_stay_below_the_memory_bound() {
    let (setup, _upstream) = Setup::fresh(&["a.example"], &["h2"]).await;
    let (proxy, process) = setup.start_process().await;
    let head = format!("GET / HTTP/1.1\r\nHost: a.example\r\nX: {}", "x".repeat(60 * 1024));
    let clients = (0..CONNECTIONS).map(|_| async {
        let mut stream = TcpStream::connect(proxy.http()).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        stream
    });
    let clients = join_all(clients).await;
    let _ = timeout(SETTLE, std::future::pending::<()>()).await;
    let peak = peak_memory(process);
    assert!(peak < MAX_PEAK_KB, "{peak} kB");
    drop(clients);
    proxy.stop().await;
}

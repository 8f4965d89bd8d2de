//! The memory of the program does not depend on how much goes through it.

use futures_util::future::join_all;
use http::Request;
use http_body_util::BodyExt;

use crate::harness::{Answer, Setup, empty, get, peak_memory, streaming_body};

/// What goes through, each way and for each protocol.
const LARGE: usize = 128 * 1024 * 1024;
/// What the program may ever have had resident, in kilobytes.
const MOST: u64 = 40_000;

#[tokio::test(flavor = "multi_thread")]
async fn large_bodies_and_many_streams_stay_below_the_bound() {
    let (setup, _upstream) = Setup::fresh(&["a.example"], &["h2", "http/1.1"]).await;
    let (proxy, process) = setup.start_process().await;

    let answer = proxy
        .ask2(
            Request::post("https://a.example/length")
                .body(streaming_body(LARGE))
                .unwrap(),
        )
        .await;
    assert_eq!(answer.body, LARGE.to_string());
    let request = Request::get(format!("/zeros?{LARGE}"))
        .header("host", "a.example")
        .body(empty())
        .unwrap();
    let mut response = proxy
        .http1("a.example")
        .await
        .send_request(request)
        .await
        .unwrap();
    let mut length = 0;
    while let Some(frame) = response.body_mut().frame().await {
        length += frame.unwrap().into_data().map_or(0, |data| data.len());
    }
    assert_eq!(length, LARGE);

    // Twenty clients that ask for much and do not read it.
    let stalled = join_all((0..20).map(|_| async {
        let mut client = proxy.http2("a.example").await;
        let request = get(format!("https://a.example/zeros?{LARGE}"));
        let response = client.send_request(request).await.unwrap();
        (client, response)
    }))
    .await;
    // Another one is not held up by them.
    let answer = proxy
        .http1("a.example")
        .await
        .send_request(
            Request::get("/")
                .header("host", "a.example")
                .body(empty())
                .unwrap(),
        )
        .await;
    assert_eq!(Answer::read(answer.unwrap()).await.status, 200);
    let peak = peak_memory(process);
    assert!(peak < MOST, "{peak} kB");
    drop(stalled);
    proxy.stop().await;
}

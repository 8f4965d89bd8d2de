//! Bodies as they come, in bounded memory.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt;
use tokio::time::timeout;

use crate::harness::{Answer, Proxy, Setup, TIMEOUT, Upstream, empty, get, streaming_body};

const LARGE: usize = 64 * 1024 * 1024;

async fn start(alpn: &[&str]) -> (Proxy, Upstream) {
    let (setup, upstream) = Setup::fresh(&["a.example"], alpn).await;
    (setup.start().await, upstream)
}

async fn next_text(response: &mut http::Response<hyper::body::Incoming>) -> Bytes {
    let frame = timeout(TIMEOUT, response.body_mut().frame()).await.expect("a frame comes").unwrap().unwrap();
    frame.into_data().unwrap()
}

/// The body ends, and nothing more is in it.
async fn ends(response: http::Response<hyper::body::Incoming>) {
    assert_eq!(Answer::read(response).await.body, "");
}

#[tokio::test]
async fn the_first_event_comes_while_the_stream_is_open() {
    for alpn in ["h2", "http/1.1"] {
        let (proxy, upstream) = start(&[alpn]).await;
        for http2 in [true, false] {
            let mut response = if http2 {
                let request = get("https://a.example/events");
                proxy.http2("a.example").await.send_request(request).await.unwrap()
            } else {
                let request = Request::get("/events").header("host", "a.example").body(empty()).unwrap();
                proxy.http1("a.example").await.send_request(request).await.unwrap()
            };
            // The upstream holds the second event back until the test releases it, so this one came
            // by itself.
            assert_eq!(next_text(&mut response).await, "data: first\n\n");
            upstream.go_on();
            assert_eq!(next_text(&mut response).await, "data: second\n\n");
            ends(response).await;
            assert_eq!(proxy.request().await.bytes_down, 27);
        }
        proxy.stop().await;
    }
}

#[tokio::test]
async fn large_bodies_go_both_ways() {
    for alpn in ["h2", "http/1.1"] {
        let (proxy, _upstream) = start(&[alpn]).await;
        let answer =
            proxy.ask2(Request::post("https://a.example/length").body(streaming_body(LARGE)).unwrap()).await;
        assert_eq!(answer.body, LARGE.to_string());
        assert_eq!(proxy.request().await.bytes_up, LARGE as u64);
        let request =
            Request::get(format!("/zeros?{LARGE}")).header("host", "a.example").body(empty()).unwrap();
        let answer = proxy.ask1(request).await;
        assert_eq!(answer.body.len(), LARGE);
        assert_eq!(proxy.request().await.bytes_down, LARGE as u64);
        proxy.stop().await;
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_stops_the_upstream() {
    let (proxy, _upstream) = start(&["h2"]).await;
    let request = get(format!("https://a.example/zeros?{LARGE}"));
    let response = proxy.http2("a.example").await.send_request(request).await.unwrap();
    // While this one is served, the other would go on if anything on its way let it.
    let other = Request::get(format!("/zeros?{LARGE}")).header("host", "a.example").body(empty()).unwrap();
    assert_eq!(proxy.ask1(other).await.body.len(), LARGE);
    assert_eq!(proxy.request().await.bytes_down, LARGE as u64);
    drop(response);
    let record = proxy.request().await;
    assert!(record.bytes_down < 16 * 1024 * 1024, "{}", record.bytes_down);
    proxy.stop().await;
}

#[tokio::test]
async fn an_upload_and_its_answer_flow_at_the_same_time() {
    for alpn in ["h2", "http/1.1"] {
        let (proxy, _upstream) = start(&[alpn]).await;
        let (sender, receiver) = tokio::sync::mpsc::channel::<Bytes>(1);
        let frames = futures_util::stream::unfold(receiver, |mut receiver| async {
            let bytes = receiver.recv().await?;
            Some((Ok(http_body::Frame::data(bytes)), receiver))
        });
        let request = Request::post("https://a.example/echo")
            .body(http_body_util::StreamBody::new(frames).boxed_unsync())
            .unwrap();
        let mut client = proxy.http2("a.example").await;
        let mut response =
            timeout(TIMEOUT, client.send_request(request)).await.expect("the head comes first").unwrap();
        for text in ["one", "two", "three"] {
            sender.send(Bytes::from(text)).await.unwrap();
            assert_eq!(next_text(&mut response).await, text);
        }
        drop(sender);
        ends(response).await;
        proxy.stop().await;
    }
}

#[tokio::test]
async fn a_client_that_goes_away_is_recorded() {
    let (proxy, upstream) = start(&["h2"]).await;
    let mut client = proxy.http2("a.example").await;
    let waiting = client.send_request(get("https://a.example/wait"));
    assert!(timeout(Duration::from_millis(300), waiting).await.is_err());
    drop(client);
    let record = proxy.request().await;
    assert_eq!((record.target.as_str(), record.status), ("/wait", None));
    drop(upstream);
    proxy.stop().await;
}

#[tokio::test]
async fn an_answer_before_the_upload_ends_is_delivered() {
    for alpn in ["h2", "http/1.1"] {
        let (proxy, _upstream) = start(&[alpn]).await;
        let request = Request::post("https://a.example/early").body(streaming_body(1024 * 1024)).unwrap();
        let response = proxy.http2("a.example").await.send_request(request).await.unwrap();
        assert_eq!(Answer::read(response).await.status, 413, "{alpn}");
        proxy.stop().await;
    }
}

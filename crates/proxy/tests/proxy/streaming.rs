//! Bodies are forwarded as they arrive, in bounded memory.

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
    let frame = timeout(TIMEOUT, response.body_mut().frame()).await.expect("a frame").unwrap().unwrap();
    frame.into_data().unwrap()
}

/// Reads to the end of the body, which must have no more data.
async fn ends(response: http::Response<hyper::body::Incoming>) {
    assert_eq!(Answer::read(response).await.body, "");
}

#[tokio::test]
async fn first_event_arrives_while_the_stream_is_open() {
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
            // The upstream withholds the second event until the test releases it, so the first one
            // was forwarded without it.
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
async fn large_bodies_pass_both_ways() {
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
async fn client_that_does_not_read_stops_the_upstream() {
    let (proxy, _upstream) = start(&["h2"]).await;
    let request = get(format!("https://a.example/zeros?{LARGE}"));
    let response = proxy.http2("a.example").await.send_request(request).await.unwrap();
    // During this request, the other response would continue to arrive if it had no backpressure.
    let other = Request::get(format!("/zeros?{LARGE}")).header("host", "a.example").body(empty()).unwrap();
    assert_eq!(proxy.ask1(other).await.body.len(), LARGE);
    assert_eq!(proxy.request().await.bytes_down, LARGE as u64);
    drop(response);
    let record = proxy.request().await;
    assert!(record.bytes_down < 16 * 1024 * 1024, "{}", record.bytes_down);
    proxy.stop().await;
}

#[tokio::test]
async fn upload_and_its_response_are_forwarded_concurrently() {
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
            timeout(TIMEOUT, client.send_request(request)).await.expect("the head arrives first").unwrap();
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
async fn request_of_a_disconnected_client_is_recorded() {
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
async fn response_before_the_upload_ends_is_delivered() {
    for alpn in ["h2", "http/1.1"] {
        let (proxy, _upstream) = start(&[alpn]).await;
        let request = Request::post("https://a.example/early").body(streaming_body(1024 * 1024)).unwrap();
        let response = proxy.http2("a.example").await.send_request(request).await.unwrap();
        assert_eq!(Answer::read(response).await.status, 413, "{alpn}");
        proxy.stop().await;
    }
}

//! The budget of a policy is enforced to the exact request, for every kind of request.

use http::{Method, Request};
use http_body_util::BodyExt as _;
use sandbox_proxy_protocol::{BlockReason, Command, Event, RequestOutcome, Tokens, Traffic};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use crate::harness::{Body, Proxy, Setup, TIMEOUT, Upstream, body, get, streaming_body};

async fn start(policy: &'static str) -> (Proxy, Upstream) {
    let (setup, upstream) = Setup::fresh(&["a.example"], &["h2", "http/1.1"]).await;
    (Setup { policy, ..setup }.start().await, upstream)
}

fn post(path: &str, body: Body) -> Request<Body> {
    let uri = format!("https://a.example{path}");
    Request::builder().method(Method::POST).uri(uri).body(body).unwrap()
}

fn json(path: &str, text: &'static str) -> Request<Body> {
    let mut request = post(path, body(text));
    request.headers_mut().insert("content-type", "application/json".parse().unwrap());
    request
}

async fn traffic(proxy: &Proxy) -> Traffic {
    proxy.command(&Command::Report {}).await;
    proxy.record(|event| if let Event::Traffic(traffic) = event { Some(traffic) } else { None }).await
}

#[tokio::test]
async fn parallel_requests_pass_up_to_the_budget() {
    let (proxy, upstream) = start("{domains: [a.example], budget: {requests: 7}}").await;
    let proxy = &proxy;
    let asked = (0..20).map(|_| async { proxy.ask2(get("https://a.example/x")).await });
    let answers = futures_util::future::join_all(asked).await;
    let passed = answers.iter().filter(|answer| answer.status == 200).count();
    assert_eq!((passed, upstream.seen().len()), (7, 7));
    let refused = answers.iter().find(|answer| answer.status != 200).unwrap();
    assert_eq!((refused.status.as_u16(), refused.reason()), (403, "budget"));
    assert!(refused.body.contains("do not retry") && refused.body.contains("`budget.requests`"));
    assert_eq!(traffic(proxy).await.requests, 7);

    let policy = "{domains: [a.example], budget: {requests: 8}}";
    let policy = allowlist::Allowlist::from_yaml(policy, "policy.yaml").unwrap();
    proxy.command(&Command::SetPolicy { policy }).await;
    proxy.record(|event| matches!(event, Event::Policy { .. }).then_some(())).await;
    assert_eq!(proxy.ask2(get("https://a.example/x")).await.status, 200, "earlier use still counts");
    assert_eq!(proxy.ask2(get("https://a.example/x")).await.status, 403);
    assert_eq!(traffic(proxy).await.requests, 8);
}

#[tokio::test]
async fn request_body_over_the_budget_is_cut_off() {
    for http2 in [true, false] {
        let (proxy, _upstream) = start("{domains: [a.example], budget: {sent: 1m, received: 1m}}").await;
        let ask = async |mut request: Request<Body>| {
            if http2 {
                return proxy.ask2(request).await;
            }
            request.headers_mut().insert("host", "a.example".parse().unwrap());
            *request.uri_mut() = request.uri().path().parse().unwrap();
            proxy.ask1(request).await
        };
        assert_eq!(ask(post("/length", streaming_body(1 << 19))).await.body, "524288", "the control");
        let refused = ask(post("/length", streaming_body(4 << 20))).await;
        assert_eq!((refused.status.as_u16(), refused.reason()), (403, "budget"));
        let record = proxy
            .record(|event| match event {
                Event::Request(record) if record.reason.is_some() => Some(record),
                _ => None,
            })
            .await;
        assert_eq!(record.reason, Some(BlockReason::Budget));
        assert!(record.bytes_up <= 1 << 19, "{record:?}");
        assert_eq!(ask(get("https://a.example/x")).await.status, 403, "nothing passes afterwards");
    }
}

#[tokio::test]
async fn response_over_the_budget_is_cut_off() {
    let (proxy, _upstream) = start("{domains: [a.example], budget: {received: 1m}}").await;
    let response = proxy.http2("a.example").await.send_request(get("https://a.example/zeros?4194304")).await;
    let read = timeout(TIMEOUT, response.unwrap().into_body().collect()).await.expect("the body ends");
    assert!(read.is_err(), "the client sees an incomplete body");
    let record = proxy.request().await;
    assert_eq!((record.decision, record.status), (RequestOutcome::Error, Some(200)));
    assert!(record.bytes_down <= 1 << 20 && record.error.unwrap().starts_with("Budget: "));
    assert_eq!(proxy.ask2(get("https://a.example/x")).await.reason(), "budget");
}

#[tokio::test]
async fn request_after_reported_tokens_use_up_the_budget_is_refused() {
    let (proxy, upstream) =
        start("{domains: [a.example], vendor_tools: {hosts: [a.example]}, budget: {output_tokens: 50}}")
            .await;
    let usage =
        r#"{"type":"message","usage":{"input_tokens":3,"cache_read_input_tokens":4,"output_tokens":40}}"#;
    let ask = async || {
        let mut request = json("/echo/v1/messages", usage);
        request.headers_mut().insert("accept-encoding", "gzip".parse().unwrap());
        proxy.ask2(request).await
    };
    assert_eq!(ask().await.status, 200);
    assert_eq!(proxy.request().await.tokens, Some(Tokens { input: 7, output: 40 }));
    assert_eq!(ask().await.status, 200, "40 are fewer than 50");
    let refused = ask().await;
    assert_eq!((refused.status.as_u16(), refused.reason()), (403, "budget"));
    let batch = proxy.ask2(json("/v1/messages/batches", "{}")).await;
    assert!(batch.reason() == "budget" && batch.body.contains("used up"), "{batch:?}");
    assert!(upstream.seen().iter().all(|head| head.contains("accept-encoding: identity\n")));
    let used = traffic(&proxy).await;
    assert_eq!((used.requests, used.tokens), (2, Tokens { input: 14, output: 80 }));
}

#[tokio::test]
async fn uncountable_response_is_not_passed_on_under_a_token_budget() {
    for (budget, expected) in [("{output_tokens: 50}", 502), ("{requests: 9}", 200)] {
        let policy =
            format!("{{domains: [a.example], vendor_tools: {{hosts: [a.example]}}, budget: {budget}}}");
        let (proxy, _upstream) = start(policy.leak()).await;
        assert_eq!(proxy.ask2(json("/exotic/v1/messages", "{}")).await.status, expected, "{budget}");
        let batch = proxy.ask2(json("/v1/messages/batches", "{}")).await;
        assert_eq!(batch.reason() == "budget", expected == 502, "its tokens come later: {batch:?}");
        assert_eq!(proxy.ask2(get("https://a.example/exotic")).await.status, 200, "not a request to a model");
    }
}

#[tokio::test]
async fn websocket_bytes_count_against_the_budget() {
    let (proxy, _upstream) = start("{domains: [a.example], budget: {sent: 10b}}").await;
    let mut stream = proxy.tls("a.example", &["http/1.1"]).await.unwrap();
    let head = "GET /socket HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(timeout(TIMEOUT, stream.read_u8()).await.expect("the 101 arrives").unwrap());
    }
    stream.write_all(&[0; 11]).await.unwrap();
    let rest = timeout(TIMEOUT, stream.read_to_end(&mut answer)).await.expect("the tunnel is cut off");
    drop((rest, stream));
    assert_eq!(proxy.ask2(get("https://a.example/x")).await.reason(), "budget");
    assert_eq!(traffic(&proxy).await.bytes_up, 11);
}

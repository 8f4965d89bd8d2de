//! Requests and responses over each pair of protocols, and failures of the upstream.

use http::{HeaderMap, HeaderValue, Request};
use http_body_util::BodyExt;
use sandbox_proxy_protocol::{Event, RequestOutcome, Scheme};

use crate::harness::{
    Answer, Pki, Proxy, Setup, Upstream, body, empty, get, plain_capture, raw, streaming_body,
};

async fn start(alpn: &[&str]) -> (Proxy, Upstream) {
    let (setup, upstream) = Setup::fresh(&["a.example"], alpn).await;
    (setup.start().await, upstream)
}

#[tokio::test]
async fn every_pair_of_protocols_carries_a_request() {
    for (alpn, version) in [("h2", "HTTP/2.0"), ("http/1.1", "HTTP/1.1")] {
        let (proxy, _upstream) = start(&[alpn]).await;
        let ask1 =
            Request::get("/headers?q=1").header("host", "a.example").header("x-b", "1").header("x-a", "2");
        let answer = proxy.ask1(ask1.body(empty()).unwrap()).await;
        assert_eq!(answer.status, 200);
        let uri = if alpn == "h2" { "https://a.example/headers?q=1" } else { "/headers?q=1" };
        let host = if alpn == "h2" { "" } else { "host: a.example\n" };
        assert_eq!(answer.body, format!("GET {uri} {version}\n{host}x-b: 1\nx-a: 2\n"));

        let ask2 = Request::get("https://a.example/headers?q=1")
            .header("cookie", "a=1")
            .header("x-b", "1")
            .header("cookie", "b=2");
        let answer = proxy.ask2(ask2.body(empty()).unwrap()).await;
        let cookies = if alpn == "h2" { "cookie: a=1\ncookie: b=2\n" } else { "cookie: a=1; b=2\n" };
        assert_eq!(answer.body, format!("GET {uri} {version}\n{host}{cookies}x-b: 1\n"));
        proxy.stop().await;
    }
}

#[tokio::test]
async fn record_has_every_field_of_the_request() {
    let (proxy, _upstream) = start(&["h2"]).await;
    let request = Request::post("https://a.example/echo?x=1").body(body("hello")).unwrap();
    assert_eq!(proxy.ask2(request).await.body, "hello");
    let record = proxy.request().await;
    assert_eq!(
        (record.decision, record.status, record.scheme),
        (RequestOutcome::Allowed, Some(200), Scheme::Https)
    );
    assert_eq!(
        (record.method.as_str(), record.host.as_str(), record.target.as_str()),
        ("POST", "a.example", "/echo?x=1")
    );
    assert_eq!((record.bytes_up, record.bytes_down), (5, 5));
    assert_eq!(record.rule.map(|rule| rule.host), Some("a.example".to_owned()));
    assert!(record.first_byte_ms.is_some() && record.reason.is_none() && record.error.is_none());
    proxy.stop().await;
}

#[tokio::test]
async fn bodies_of_unknown_length_arrive_whole_with_every_method() {
    const LENGTH: usize = 300_000;
    for alpn in ["h2", "http/1.1"] {
        let (proxy, _upstream) = start(&[alpn]).await;
        for method in ["POST", "GET", "PUT"] {
            let request = Request::builder()
                .method(method)
                .uri("https://a.example/length")
                .body(streaming_body(LENGTH))
                .unwrap();
            assert_eq!(proxy.ask2(request).await.body, LENGTH.to_string(), "{method} to {alpn}");
            let request = Request::builder().method(method).uri("/length").header("host", "a.example");
            let request =
                request.header("transfer-encoding", "chunked").body(streaming_body(LENGTH)).unwrap();
            assert_eq!(proxy.ask1(request).await.body, LENGTH.to_string(), "{method} to {alpn}");
        }
        proxy.stop().await;
    }
}

#[tokio::test]
async fn response_to_head_keeps_its_length() {
    for alpn in ["h2", "http/1.1"] {
        let (proxy, _upstream) = start(&[alpn]).await;
        let answer =
            proxy.ask1(Request::head("/hello").header("host", "a.example").body(empty()).unwrap()).await;
        assert_eq!(
            (answer.status.as_u16(), &answer.headers["content-length"]),
            (200, &HeaderValue::from_static("5")),
            "{alpn}"
        );
        let answer = proxy.ask2(Request::head("https://a.example/hello").body(empty()).unwrap()).await;
        assert_eq!((answer.status.as_u16(), answer.body.as_str()), (200, ""), "{alpn}");
        proxy.stop().await;
    }
}

#[tokio::test]
async fn trailers_are_forwarded_both_ways() {
    for alpn in ["h2", "http/1.1"] {
        let (proxy, _upstream) = start(&[alpn]).await;
        if alpn == "h2" {
            let request = Request::post("https://a.example/trailers")
                .header("te", "trailers")
                .header("content-type", "application/grpc");
            let answer = proxy.ask2(request.body(body("message")).unwrap()).await;
            assert_eq!(answer.trailers.unwrap()["grpc-status"], "0", "{alpn}");
            assert_eq!(answer.body, "message");
        }
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", HeaderValue::from_static("42"));
        // An upstream that merges trailers into the headers must not find these.
        trailers.insert("authorization", HeaderValue::from_static("Bearer x"));
        trailers.insert("x-http-method-override", HeaderValue::from_static("DELETE"));
        let upload = streaming_body(4).with_trailers(std::future::ready(Some(Ok(trailers)))).boxed_unsync();
        let request = Request::post("https://a.example/echo")
            .header("te", "trailers")
            .header("trailer", "x-sum, authorization, x-http-method-override");
        let answer = proxy.ask2(request.body(upload).unwrap()).await;
        let mut expected = HeaderMap::new();
        expected.insert("x-sum", HeaderValue::from_static("42"));
        assert_eq!(answer.trailers, Some(expected), "{alpn}");
        proxy.stop().await;
    }
}

#[tokio::test]
async fn alt_svc_is_removed_and_duplicate_headers_are_kept() {
    let (proxy, _upstream) = start(&["h2", "http/1.1"]).await;
    let answer = proxy.ask2(get("https://a.example/alternative")).await;
    assert!(!answer.headers.contains_key("alt-svc"));
    let cookies: Vec<_> = answer.headers.get_all("set-cookie").iter().collect();
    assert_eq!(cookies, ["a=1", "b=2"]);
    proxy.stop().await;
}

#[tokio::test]
async fn method_overriding_headers_are_removed_where_rules_restrict_methods() {
    let (mut setup, _upstream) = Setup::fresh(&["a.example"], &["h2"]).await;
    setup.policy = "url_prefixes: [{host: a.example, path: \"/headers*\", methods: [POST]}, {host: b.example, path: \"\"}]";
    let proxy = setup.start().await;
    let request = || {
        Request::post("https://a.example/headers")
            .header("x-http-method-override", "DELETE")
            .header("x_method_override", "DELETE")
            .header("x-kept", "1")
    };
    let answer = proxy.ask2(request().body(empty()).unwrap()).await;
    assert_held!(!answer.body.contains("override"), "{}", answer.body);
    assert!(answer.body.contains("x-kept"), "{}", answer.body);
    let warning =
        proxy.record(|event| if let Event::Warning { text } = event { Some(text) } else { None }).await;
    assert!(warning.contains("POST") && warning.contains("a.example"), "{warning}");
    let answer = proxy.ask2(get("https://a.example/headers")).await;
    assert_held!(answer.status != 200, "{answer:?}");
    assert_eq!((answer.status.as_u16(), answer.reason()), (403, "method"));
    proxy.stop().await;
}

#[tokio::test]
async fn connections_are_reused() {
    for (alpn, most) in [("h2", 1), ("http/1.1", 2)] {
        let (proxy, upstream) = start(&[alpn]).await;
        for _ in 0..10 {
            let answer = proxy.ask2(get("https://a.example/x")).await;
            assert_eq!(answer.status, 200);
        }
        assert!(upstream.connections() <= most, "{alpn}: {}", upstream.connections());
        proxy.stop().await;
    }
}

#[tokio::test]
async fn concurrent_requests_share_one_http2_connection() {
    let (proxy, upstream) = start(&["h2"]).await;
    let sender = proxy.http2("a.example").await;
    let requests = (0..50).map(|index| {
        let mut sender = sender.clone();
        async move {
            let request = get(format!("https://a.example/{index}"));
            Answer::read(sender.send_request(request).await.unwrap()).await.body
        }
    });
    let answers = futures_util::future::join_all(requests).await;
    assert!(answers.iter().enumerate().all(|(index, body)| *body == format!("hello from /{index}")));
    assert_eq!(upstream.connections(), 1);
    proxy.stop().await;
}

#[tokio::test]
async fn pooled_connection_that_was_closed_is_replaced() {
    let (address, mut seen) = plain_capture("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
    let proxy = Setup::new(Pki::new(), address).start().await;
    for _ in 0..20 {
        let answer = raw(
            &proxy,
            b"POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        )
        .await;
        assert_eq!(answer.status(), 200, "{answer:?}");
        seen.recv().await.unwrap();
    }
    proxy.stop().await;
}

#[tokio::test]
async fn upstream_failures_are_named() {
    let pki = Pki::new();
    let upstream = Upstream::start(pki.server(&["other.example"], &["h2"])).await;
    let mut setup = Setup::new(pki.clone(), upstream.address);
    setup.policy = "domains: [a.example, a.unknown, a.10.example]";
    let proxy = setup.start().await;
    for (host, reason, begin) in
        [("a.example", "tls", "TLS: "), ("a.unknown", "dns", "Connection failed: Name or service not known")]
    {
        let answer = proxy.ask2(get(format!("https://{host}/"))).await;
        assert_eq!(
            (answer.status.as_u16(), &answer.headers["x-sandbox-error"]),
            (502, &HeaderValue::from_static(reason)),
            "{host}"
        );
        let record = proxy.request().await;
        assert_eq!((record.decision, record.status), (RequestOutcome::Error, Some(502)));
        assert!(record.error.as_ref().is_some_and(|error| error.starts_with(begin)), "{record:?}");
        assert!(!format!("{record:?}").contains("other.example"), "text of the upstream: {record:?}");
    }
    proxy.stop().await;

    // Nothing listens at the upstream's address.
    let proxy = Setup::new(pki.clone(), crate::harness::fresh_address()).start().await;
    let answer = raw(&proxy, b"GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n").await;
    assert_eq!(answer.status(), 502);
    for detail in ["127.", "111", "refused", "os error"] {
        assert!(!answer.0.contains(detail), "{answer:?}");
    }
    assert_eq!(proxy.request().await.error.unwrap(), "Connection failed: Connection refused");
    proxy.stop().await;

    // The response is not HTTP.
    let (address, _seen) = plain_capture("nonsense\r\n\r\n").await;
    let proxy = Setup::new(pki, address).start().await;
    let answer = raw(&proxy, b"GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n").await;
    assert!(answer.0.contains("x-sandbox-error: reset\r\n"), "{answer:?}");
    proxy.stop().await;
}

#[tokio::test]
async fn host_address_is_refused_with_a_hint() {
    for is_own in [true, false] {
        let (mut setup, upstream) = Setup::fresh(&["a.example"], &["h2"]).await;
        if is_own {
            setup.host_addresses = vec![upstream.address];
        } else {
            setup.allow_addresses.clear();
        }
        let proxy = setup.start().await;
        let answer = proxy.ask2(get("https://a.example/")).await;
        assert_held!(upstream.connections() == 0, "{answer:?}");
        assert_eq!((answer.status.as_u16(), answer.reason()), (403, "address"));
        let page = &answer.body;
        assert_eq!(page.contains("add it to `services`"), is_own, "{page}");
        assert_eq!(page.contains("add its network to `upstream.allow_addresses`"), !is_own, "{page}");
        proxy.stop().await;
    }
}

#[tokio::test]
async fn private_address_that_is_not_allowed_is_refused() {
    let (mut setup, upstream) = Setup::fresh(&["a.example"], &["h2"]).await;
    setup.allow_addresses = vec!["10.0.0.0/8"];
    let proxy = setup.start().await;
    let answer = proxy.ask2(get("https://a.example/")).await;
    assert_held!(upstream.connections() == 0, "{answer:?}");
    assert_eq!((answer.status.as_u16(), answer.reason()), (403, "address"));
    assert_eq!(proxy.request().await.decision, RequestOutcome::Blocked);
    proxy.stop().await;
}

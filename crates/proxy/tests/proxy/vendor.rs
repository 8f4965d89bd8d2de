//! Requests to a model's vendor: tools that the vendor would run are removed before anything is
//! sent.

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};

use crate::harness::{Answer, Body, Proxy, Setup, Upstream, empty, get};

const NONE: &str = "domains: [a.example]\nvendor_tools: {hosts: [a.example]}";
const REFUSE: &str = "domains: [a.example]\nvendor_tools: {hosts: [a.example], denied: refuse}";
const ANY: &str = "domains: [a.example]\nvendor_tools: {hosts: [a.example], web_search: any, web_fetch: any, mcp: any, \
                   code_execution: any, files_by_url: any, other: any}";

const WITH: &str =
    r#"{"model":"m", "tools":[{"name":"f"}, {"type":"web_search_20250305","name":"web_search"}],"n":1.0}"#;
const WITHOUT: &str = r#"{"model":"m", "tools":[{"name":"f"}],"n":1.0}"#;

async fn start(policy: &'static str, alpn: &[&str]) -> (Proxy, Upstream) {
    let (setup, upstream) = Setup::fresh(&["a.example"], alpn).await;
    (Setup { policy, ..setup }.start().await, upstream)
}

fn whole(body: impl Into<Bytes>) -> Body {
    Full::new(body.into()).map_err(|never| match never {}).boxed_unsync()
}

/// Sends a Messages request, with these headers in addition to its content type.
async fn ask(proxy: &Proxy, http2: bool, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Answer {
    let uri =
        if http2 { "https://a.example/echo/v1/messages?beta=true" } else { "/echo/v1/messages?beta=true" };
    let mut request = Request::post(uri).header("content-type", "application/json");
    if !http2 {
        request = request.header("host", "a.example");
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(whole(body)).unwrap();
    if http2 { proxy.ask2(request).await } else { proxy.ask1(request).await }
}

#[tokio::test]
async fn removed_tool_does_not_reach_the_upstream() {
    for alpn in ["h2", "http/1.1"] {
        for (policy, expected) in [(NONE, Some(WITHOUT)), (REFUSE, None), (ANY, Some(WITH))] {
            let (proxy, upstream) = start(policy, &[alpn]).await;
            for http2 in [true, false] {
                let answer = ask(&proxy, http2, &[("anthropic-beta", "web-search-2025-03-05")], WITH).await;
                let record = proxy.request().await;
                let removed: Vec<&str> = record.removed.iter().map(|kind| kind.as_str()).collect();
                assert_held!(policy == ANY || !answer.body.contains("web_search_2"), "{}", answer.body);
                if let Some(expected) = expected {
                    assert_eq!((answer.status.as_u16(), answer.body.as_str()), (200, expected));
                    assert_eq!(record.bytes_up, expected.len() as u64);
                    assert_eq!(removed, if policy == NONE { vec!["web_search"] } else { vec![] });
                } else {
                    assert_eq!((answer.status.as_u16(), answer.reason()), (403, "vendor_tool"));
                    assert!(answer.body.contains("web_search"), "{}", answer.body);
                    assert_held!(upstream.connections() == 0, "{:?}", upstream.seen());
                }
                let plain = ask(&proxy, http2, &[], WITHOUT).await;
                assert_eq!((plain.status.as_u16(), plain.body.as_str()), (200, WITHOUT));
                assert!(proxy.request().await.removed.is_empty());
                if policy == REFUSE {
                    break;
                }
            }
            proxy.stop().await;
        }
    }
}

#[tokio::test]
async fn unreadable_body_is_refused_unless_every_tool_is_allowed() {
    let doubled = br#"{"tools":[],"t\u006fols":[{"type":"web_search_20250305"}]}"#;
    let gzip: &[(&str, &str)] = &[("content-encoding", "gzip")];
    for (headers, body, reason) in [
        (&[][..], doubled.as_slice(), "vendor_tool"),
        (&[], b"\x1f\x8b\x08 not JSON", "vendor_tool"),
        (&[], br#"{"messages":[{"content":[{"type":"image","source":{"type":"url","url":"https://x.example/"}}]}]}"#, "vendor_tool"),
        (gzip, WITHOUT.as_bytes(), "body"),
        (&[("content-type", "text/plain")], WITHOUT.as_bytes(), "vendor_tool"),
    ] {
        let (proxy, upstream) = start(NONE, &["h2"]).await;
        let answer = ask(&proxy, true, headers, body.to_vec()).await;
        assert_eq!((answer.status.as_u16(), answer.reason()), (403, reason), "{}", answer.body);
        assert_held!(upstream.connections() == 0, "{:?}", upstream.seen());
        proxy.stop().await;
        let (proxy, _upstream) = start(ANY, &["h2"]).await;
        assert_eq!(ask(&proxy, true, headers, body.to_vec()).await.status.as_u16(), 200, "control");
        proxy.stop().await;
    }
    for (policy, refused) in [(NONE, true), (ANY, false)] {
        let (proxy, _upstream) = start(policy, &["http/1.1"]).await;
        let socket = Request::get("/headers").header("host", "a.example").header("connection", "upgrade");
        let socket = socket.header("upgrade", "websocket").body(empty()).unwrap();
        let answer = proxy.ask1(socket).await;
        assert_held!(!refused || !answer.reason().is_empty(), "{answer:?}");
        assert_eq!(answer.reason(), if refused { "vendor_tool" } else { "" });
        assert_eq!(proxy.ask2(get("https://a.example/echo/v1/models")).await.status.as_u16(), 200);
        proxy.stop().await;
    }
}

#[tokio::test]
async fn body_of_thirty_mebibytes_is_read_and_a_larger_one_refused() {
    let body = |tools: &str| format!(r#"{{"data":"{}","tools":[{tools}]}}"#, "x".repeat(30 << 20));
    let (with, without) = (body(r#"{"name":"f"},{"type":"mcp"}"#), body(r#"{"name":"f"}"#));
    let (proxy, _upstream) = start(NONE, &["h2"]).await;
    // More concurrent bodies than the buffer has room for: some wait.
    let asks = (0..4).map(|_| ask(&proxy, true, &[], with.clone()));
    for answer in futures_util::future::join_all(asks).await {
        assert_held!(answer.status != 200 || answer.body != with, "the tool arrived");
        assert_eq!((answer.status.as_u16(), answer.body == without), (200, true));
    }
    let large = ask(&proxy, true, &[], format!("{{\"a\":\"{}\"}}", "x".repeat(33 << 20))).await;
    assert_eq!(large.reason(), "body");
    proxy.stop().await;
}

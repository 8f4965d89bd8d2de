//! Requests that wait for the operator's answer to a question.

use std::collections::HashSet;
use std::time::Duration;

use allowlist::Allowlist;
use http::Request;
use http_body_util::BodyExt as _;
use sandbox_proxy_protocol::{Command, Event, OpenRequest, RequestOutcome, RequestRecord, Verdict};
use tokio::io::AsyncWriteExt as _;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::harness::{Answer, HTTP, Proxy, Setup, TIMEOUT, Upstream, body, empty, get, raw, streaming_body};

/// Longer than any test takes.
const LONG: u64 = 60_000;

async fn start(change: impl FnOnce(&mut Setup)) -> (Proxy, Upstream) {
    let (mut setup, upstream) =
        Setup::fresh(&["a.example", "b.example", "c.example"], &["h2", "http/1.1"]).await;
    setup.limits.question_timeout_ms = Some(LONG);
    change(&mut setup);
    (setup.start().await, upstream)
}

/// Sends a request in the background, over HTTP/2 to the host of its URL.
async fn send(proxy: &Proxy, request: Request<crate::harness::Body>) -> JoinHandle<Answer> {
    let mut client = proxy.http2(request.uri().host().unwrap()).await;
    tokio::spawn(async move { Answer::read(client.send_request(request).await.unwrap()).await })
}

/// Waits for the next question, and skips other events.
async fn question(proxy: &Proxy) -> (u64, OpenRequest) {
    proxy
        .record(|event| match event {
            Event::Asked { question, request } => Some((question, request)),
            _ => None,
        })
        .await
}

/// Waits until a question is closed; returns its verdict, if any, and who or what closed it.
async fn closed(proxy: &Proxy) -> (u64, Option<Verdict>, String) {
    proxy
        .record(|event| match event {
            Event::Answered { question, verdict, by } => Some((question, verdict, by)),
            _ => None,
        })
        .await
}

async fn answer(proxy: &Proxy, question: u64, verdict: Verdict) {
    proxy.command(&Command::Answer { question, verdict, by: "test".to_owned(), policy: None }).await;
}

fn policy(yaml: &str) -> Allowlist {
    Allowlist::from_yaml(yaml, "policy.yaml").unwrap()
}

#[tokio::test]
async fn allow_once_passes_one_request_and_the_next_asks_again() {
    let (proxy, upstream) = start(|_| {}).await;
    for round in 1..=2 {
        let waiting = send(&proxy, get("https://b.example/hello?q=1")).await;
        let (id, asked) = question(&proxy).await;
        assert_eq!(id, round);
        assert_eq!((asked.host.as_str(), asked.target.as_str()), ("b.example", "/hello?q=1"));
        assert!(!proxy.resolved("\u{1}b") && upstream.seen().is_empty() || round > 1, "nothing sent yet");
        answer(&proxy, id, Verdict::Once).await;
        assert_eq!(closed(&proxy).await, (id, Some(Verdict::Once), "test".to_owned()));
        assert_eq!(waiting.await.unwrap().status, 200);
        let record = proxy.request().await;
        assert_eq!((record.decision, record.question), (RequestOutcome::Allowed, Some(id)));
        assert!(record.rule.is_none() && !record.shield_down);
        assert!(proxy.resolved("\u{1}b"), "the control");
    }
    proxy.stop().await;
}

#[tokio::test]
async fn first_byte_follows_the_answer_without_another_event() {
    let (proxy, upstream) = start(|setup| setup.limits.questions_per_minute = 1000).await;
    let mut client = proxy.http2("b.example").await;
    for round in 1..=20 {
        let waiting = client.send_request(get("https://b.example/events"));
        let answered = async {
            let (id, _) = question(&proxy).await;
            assert_eq!(id, round);
            answer(&proxy, id, Verdict::Once).await;
        };
        let (response, ()) = tokio::join!(waiting, answered);
        let mut response = response.unwrap();
        let first = timeout(TIMEOUT, response.body_mut().frame()).await.expect("a frame").unwrap().unwrap();
        assert_eq!(first.into_data().unwrap(), "data: first\n\n");
        // The upstream withholds the rest until now.
        upstream.go_on();
        assert_eq!(Answer::read(response).await.body, "data: second\n\n");
    }
    proxy.stop().await;
}

#[tokio::test]
async fn denial_is_remembered_for_the_host_and_the_path() {
    let (proxy, upstream) = start(|_| {}).await;
    let waiting = send(&proxy, get("https://b.example/x")).await;
    let (id, _) = question(&proxy).await;
    answer(&proxy, id, Verdict::No).await;
    let refused = waiting.await.unwrap();
    assert_eq!((refused.status.as_u16(), refused.reason()), (403, "host"));
    assert!(refused.body.contains("the operator was asked"), "{}", refused.body);
    for again in [
        get("https://b.example/x"),
        get("https://b.example/x?other"),
        Request::post("https://b.example/x").body(body("y")).unwrap(),
    ] {
        let refused = proxy.ask2(again).await;
        assert_eq!(refused.reason(), "host");
        assert!(refused.body.contains("did not allow it"), "{}", refused.body);
    }
    let waiting = send(&proxy, get("https://b.example/y")).await;
    assert_eq!(question(&proxy).await.0, 2, "the control: another path");
    answer(&proxy, 2, Verdict::Once).await;
    assert_eq!(waiting.await.unwrap().status, 200);
    assert_eq!(upstream.seen().len(), 1);
    proxy.stop().await;
}

#[tokio::test]
async fn allow_for_the_run_or_always_permits_only_by_its_rule() {
    for verdict in [Verdict::Run, Verdict::Always] {
        let (proxy, _upstream) = start(|_| {}).await;
        let waiting = send(&proxy, get("https://b.example/x")).await;
        let (id, _) = question(&proxy).await;
        let rule = "url_prefixes: [{host: b.example, path: /x, methods: [GET]}]";
        let by = "test".to_owned();
        proxy.command(&Command::Answer { question: id, verdict, by, policy: Some(policy(rule)) }).await;
        assert_eq!(closed(&proxy).await, (id, Some(verdict), "test".to_owned()));
        assert_eq!(waiting.await.unwrap().status, 200);
        assert!(proxy.request().await.rule.is_some());
        assert_eq!(proxy.ask2(get("https://b.example/x")).await.status, 200);
        // Without a rule, the answer does not permit the request.
        let waiting = send(&proxy, get("https://b.example/z")).await;
        let (id, _) = question(&proxy).await;
        answer(&proxy, id, verdict).await;
        assert_eq!(waiting.await.unwrap().status, 403);
        proxy.stop().await;
    }
}

#[tokio::test]
async fn new_policy_or_lowered_shield_permits_waiting_requests() {
    let (proxy, _upstream) = start(|_| {}).await;
    for change in
        [Command::SetPolicy { policy: policy("domains: [b.example]") }, Command::Down { for_ms: LONG }]
    {
        let host = if matches!(change, Command::Down { .. }) { "c" } else { "b" };
        let waiting = send(&proxy, get(format!("https://{host}.example/x"))).await;
        let (id, _) = question(&proxy).await;
        proxy.command(&change).await;
        assert_eq!(waiting.await.unwrap().status, 200);
        assert_eq!(closed(&proxy).await, (id, None, "policy".to_owned()));
    }
    proxy.stop().await;
}

#[tokio::test]
async fn host_refused_five_times_is_not_asked_about_again() {
    let (proxy, upstream) = start(|setup| setup.limits.question_timeout_ms = Some(50)).await;
    for path in 1..=5 {
        assert_eq!(proxy.ask2(get(format!("https://b.example/{path}"))).await.reason(), "host");
        assert_eq!(closed(&proxy).await.0, path);
    }
    assert_eq!(proxy.ask2(get("https://b.example/6")).await.reason(), "host");
    assert_eq!(proxy.ask2(get("https://c.example/")).await.reason(), "host");
    let (id, asked) = question(&proxy).await;
    assert_eq!((id, asked.host.as_str()), (6, "c.example"), "the control: another host");
    assert!(upstream.seen().is_empty());
    proxy.stop().await;
}

#[tokio::test]
async fn request_without_an_answer_in_time_is_refused() {
    let (proxy, upstream) = start(|setup| setup.limits.question_timeout_ms = Some(50)).await;
    let refused = proxy.ask2(get("https://b.example/x")).await;
    assert_eq!(refused.reason(), "host");
    assert_eq!(closed(&proxy).await, (1, Some(Verdict::No), "time".to_owned()));
    // A late answer has no effect.
    answer(&proxy, 1, Verdict::Once).await;
    assert_eq!(proxy.ask2(get("https://b.example/x")).await.reason(), "host");
    assert!(upstream.seen().is_empty() && !proxy.resolved("\u{1}b"));
    proxy.stop().await;
}

#[tokio::test]
async fn client_that_disconnects_withdraws_its_question() {
    let (proxy, upstream) = start(|_| {}).await;
    // HTTP/2: the stream is reset. HTTP/1: the connection is closed.
    let waiting = send(&proxy, get("https://b.example/x")).await;
    assert_eq!(question(&proxy).await.0, 1);
    waiting.abort();
    assert_eq!(closed(&proxy).await, (1, None, "client".to_owned()));
    let mut plain = tokio::net::TcpStream::connect((proxy.address, HTTP)).await.unwrap();
    plain.write_all(b"GET /y HTTP/1.1\r\nhost: b.example\r\n\r\n").await.unwrap();
    assert_eq!(question(&proxy).await.0, 2);
    drop(plain);
    assert_eq!(closed(&proxy).await, (2, None, "client".to_owned()));
    answer(&proxy, 2, Verdict::Once).await;
    assert_eq!(proxy.ask2(get("https://a.example/hello")).await.status, 200, "the control");
    assert_eq!(upstream.seen().len(), 1);
    proxy.stop().await;
}

#[tokio::test]
async fn equal_requests_share_a_question_and_allow_once_passes_one() {
    let (proxy, upstream) = start(|_| {}).await;
    let first = send(&proxy, get("https://b.example/x?1")).await;
    assert_eq!(question(&proxy).await.0, 1);
    let others =
        [send(&proxy, get("https://b.example/x?2")).await, send(&proxy, get("https://b.example/x?3")).await];
    // Give the answer only after both have arrived: this request is sent after them.
    while proxy.ask2(get("https://a.example/")).await.status != 200 {}
    answer(&proxy, 1, Verdict::Once).await;
    assert_eq!(first.await.unwrap().status, 200);
    let (id, asked) = question(&proxy).await;
    assert!(asked.target == "/x?2" || asked.target == "/x?3", "{asked:?}");
    answer(&proxy, id, Verdict::No).await;
    for other in others {
        assert_eq!(other.await.unwrap().status, 403);
    }
    assert_eq!(upstream.seen().iter().filter(|seen| seen.contains("/x?")).count(), 1);
    proxy.stop().await;
}

#[tokio::test]
async fn flood_asks_questions_up_to_the_limit_and_is_refused() {
    let (proxy, _upstream) = start(|setup| setup.limits.questions_per_minute = 7).await;
    let mut clients = Vec::new();
    let client = proxy.http2("b.example").await;
    for at in 0..100 {
        let mut client = client.clone();
        clients.push(tokio::spawn(async move {
            let answer = client.send_request(get(format!("https://b.example/{at}"))).await.unwrap();
            Answer::read(answer).await
        }));
    }
    let (mut asked, mut refused) = (HashSet::new(), 0);
    while asked.len() < 7 || refused < 93 {
        let event = proxy
            .record(|event| match event {
                Event::Asked { question, .. } => Some(Some(question)),
                Event::Request(RequestRecord { decision: RequestOutcome::Blocked, .. }) => Some(None),
                _ => None,
            })
            .await;
        match event {
            Some(question) => assert!(asked.insert(question) && asked.len() <= 7, "{asked:?}"),
            None => refused += 1,
        }
    }
    for question in asked {
        answer(&proxy, question, Verdict::No).await;
    }
    let mut were_not_asked = 0;
    for client in clients {
        let answer = client.await.unwrap();
        assert_eq!(answer.status, 403);
        were_not_asked += usize::from(answer.body.contains("was not asked"));
    }
    assert_eq!(were_not_asked, 93);
    let limit = proxy
        .record(|event| match event {
            Event::Limit { limit, count } => Some((limit, count)),
            _ => None,
        })
        .await;
    assert_eq!(limit.0, "questions");
    proxy.stop().await;
}

#[tokio::test]
async fn waiting_requests_above_the_limit_are_refused() {
    let (proxy, _upstream) = start(|setup| setup.limits.questions = 2).await;
    let waiting =
        [send(&proxy, get("https://b.example/1")).await, send(&proxy, get("https://b.example/2")).await];
    let ids = [question(&proxy).await.0, question(&proxy).await.0];
    assert!(proxy.ask2(get("https://b.example/3")).await.body.contains("was not asked"));
    for id in ids {
        answer(&proxy, id, Verdict::Once).await;
    }
    for waiting in waiting {
        assert_eq!(waiting.await.unwrap().status, 200);
    }
    let again = send(&proxy, get("https://b.example/3")).await;
    let (id, _) = question(&proxy).await;
    answer(&proxy, id, Verdict::Once).await;
    assert_eq!(again.await.unwrap().status, 200, "the control");
    proxy.stop().await;
}

/// Requests that are refused for a reason other than the lack of a rule.
#[tokio::test]
async fn request_that_no_answer_could_permit_is_not_asked_about() {
    let (proxy, upstream) = start(|setup| {
        setup.policy = "url_prefixes: [{host: a.example, path: /r.git, git: {push: [refs/heads/x]}}]";
    })
    .await;
    let long = format!("GET /{} HTTP/1.1\r\nhost: b.example\r\nconnection: close\r\n\r\n", "x".repeat(3000));
    let long_method =
        format!("{} / HTTP/1.1\r\nhost: b.example\r\nconnection: close\r\n\r\n", "X".repeat(100));
    for (request, reason) in [
        ("GET / HTTP/1.1\r\nhost: 169.254.169.254\r\nconnection: close\r\n\r\n", "host"),
        ("GET / HTTP/1.1\r\nhost: 10.0.0.1\r\nconnection: close\r\n\r\n", "host"),
        ("GET / HTTP/1.1\r\nhost: 8.8.8.8\r\nconnection: close\r\n\r\n", "host"),
        ("GET / HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n", "host"),
        ("GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n", "address"),
        ("GET / HTTP/1.1\r\nhost: metadata.google.internal\r\nconnection: close\r\n\r\n", "host"),
        ("GET / HTTP/1.1\r\nhost: metadata\r\nconnection: close\r\n\r\n", "host"),
        ("GET / HTTP/1.1\r\nhost: b.example:8080\r\nconnection: close\r\n\r\n", "port"),
        ("GET /a/../b HTTP/1.1\r\nhost: b.example\r\nconnection: close\r\n\r\n", "path"),
        ("TRACE / HTTP/1.1\r\nhost: b.example\r\nconnection: close\r\n\r\n", "method_forbidden"),
        (
            "POST / HTTP/1.1\r\nhost: b.example\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
            "framing",
        ),
        (
            "GET http://c.example/ HTTP/1.1\r\nhost: b.example\r\nconnection: close\r\n\r\n",
            "identity_mismatch",
        ),
        (
            "GET /r/info/refs?service=git-receive-pack HTTP/1.1\r\nhost: b.example\r\nconnection: close\r\n\r\n",
            "host",
        ),
        (
            "GET /q.git/info/refs?service=git-receive-pack HTTP/1.1\r\nhost: a.example\r\nconnection: close\r\n\r\n",
            "path_not_allowed",
        ),
        (long.as_str(), "host"),
        (long_method.as_str(), "host"),
        (
            "GET /ws HTTP/1.1\r\nhost: b.example\r\nconnection: Upgrade, close\r\nupgrade: websocket\r\n\
             sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n\r\n",
            "host",
        ),
    ] {
        let answer = raw(&proxy, request.as_bytes()).await.0;
        assert!(answer.contains(&format!("x-sandbox-blocked: {reason}\r\n")), "{request}: {answer}");
    }
    // The control: this request asks the first question.
    let waiting = send(&proxy, get("https://b.example/x")).await;
    assert_eq!(question(&proxy).await.0, 1);
    // Quarantine closes open questions.
    proxy.command(&Command::Quarantine {}).await;
    assert_eq!(closed(&proxy).await.1, None);
    answer(&proxy, 1, Verdict::Once).await;
    // The connection may have been closed before the response.
    if let Ok(answer) = waiting.await {
        assert_eq!(answer.reason(), "quarantine");
    }
    assert!(upstream.seen().is_empty());
    proxy.stop().await;
}

#[tokio::test]
async fn permitted_request_to_a_private_address_is_refused() {
    let (proxy, upstream) = start(|setup| setup.allow_addresses.clear()).await;
    let waiting = send(&proxy, get("https://b.example/x")).await;
    let (id, _) = question(&proxy).await;
    answer(&proxy, id, Verdict::Once).await;
    assert_eq!(waiting.await.unwrap().reason(), "address");
    assert!(upstream.seen().is_empty());
    proxy.stop().await;
}

#[tokio::test]
async fn body_waits_with_its_request() {
    const LENGTH: usize = 3_000_000;
    let (proxy, upstream) = start(|_| {}).await;
    let request = Request::post("https://b.example/length").body(streaming_body(LENGTH)).unwrap();
    let waiting = send(&proxy, request).await;
    let (id, _) = question(&proxy).await;
    assert_eq!(upstream.connections(), 0);
    answer(&proxy, id, Verdict::Once).await;
    assert_eq!(waiting.await.unwrap().body, LENGTH.to_string());
    proxy.stop().await;
}

/// A header must not turn the permitted request into another one.
#[tokio::test]
async fn overriding_headers_are_removed_from_a_request_permitted_once() {
    let (proxy, _upstream) = start(|_| {}).await;
    let request = Request::get("https://b.example/headers")
        .header("x-http-method-override", "DELETE")
        .header("x-original-url", "/admin")
        .header("x-kept", "1");
    let waiting = send(&proxy, request.body(empty()).unwrap()).await;
    let (id, _) = question(&proxy).await;
    answer(&proxy, id, Verdict::Once).await;
    let answer = waiting.await.unwrap();
    assert!(answer.body.contains("x-kept") && !answer.body.contains("override"), "{}", answer.body);
    assert!(!answer.body.contains("/admin"), "{}", answer.body);
    proxy.stop().await;
}

#[tokio::test]
async fn request_without_a_rule_is_refused_at_once_when_questions_are_off() {
    let (proxy, _upstream) = start(|setup| setup.limits.question_timeout_ms = None).await;
    let refused = tokio::time::timeout(Duration::from_secs(20), proxy.ask2(get("https://b.example/x")));
    assert_eq!(refused.await.unwrap().reason(), "host");
    assert_eq!(proxy.request().await.question, None);
    proxy.stop().await;
}

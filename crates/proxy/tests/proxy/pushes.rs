//! Requests that are judged by their body: pushes to repositories.

#![expect(clippy::cast_possible_truncation, reason = "only the lowest bits are needed")]

use std::io::Write as _;

use allowlist::Allowlist;
use bytes::Bytes;
use futures_util::stream;
use http::Request;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use sandbox_proxy_protocol::{BlockReason, Command};
use tokio::sync::mpsc;

use crate::harness::{Answer, Body, Proxy, Setup, Upstream, get, raw};

const POLICY: &str = "url_prefixes: [{host: a.example, path: /echo, git: {push: ['refs/heads/agent/*']}}]";

async fn start(policy: &'static str, alpn: &[&str]) -> (Proxy, Upstream) {
    let (setup, upstream) = Setup::fresh(&["a.example"], alpn).await;
    (Setup { policy, ..setup }.start().await, upstream)
}

/// A push that creates the ref `name`, with a placeholder for its pack.
fn push_of(name: &str) -> Vec<u8> {
    let line = format!("{} {} {name}\0 report-status", "0".repeat(40), "2".repeat(40));
    format!("{:04x}{line}0000PACK and more", line.len() + 4).into_bytes()
}

/// The text of a commit and its id.
fn commit(parent: &str, message: &str) -> (String, String) {
    let text = format!("tree {}\nparent {parent}\nauthor a <a> 1 +0000\n\n{message}", "a".repeat(40));
    let object = format!("commit {}\0{text}", text.len());
    let id = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, object.as_bytes());
    (text, id.as_ref().iter().fold(String::new(), |digits, byte| digits + &format!("{byte:02x}")))
}

/// A push that updates a ref from `old` to two commits on top of `base`, with a file of `size`
/// bytes, stored uncompressed.
fn update(old: &str, base: &str, size: usize) -> Vec<u8> {
    let (first, first_id) = commit(base, "first");
    let (second, second_id) = commit(&first_id, "second");
    let noise: Vec<u8> =
        (0..size as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8).collect();
    let object = |kind: u8, data: &[u8]| {
        let mut head = vec![0x80 | kind << 4 | (data.len() & 15) as u8];
        let mut left = data.len() >> 4;
        while left >= 128 {
            head.push(0x80 | (left & 127) as u8);
            left >>= 7;
        }
        head.push(left as u8);
        let mut encoder = flate2::write::ZlibEncoder::new(head, flate2::Compression::none());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    };
    let line = format!("{old} {second_id} refs/heads/agent/x\0 report-status");
    let objects = [object(1, second.as_bytes()), object(3, &noise), object(1, first.as_bytes())].concat();
    let head = format!("{:04x}{line}0000PACK\0\0\0\x02\0\0\0\x03", line.len() + 4);
    [head.as_bytes(), &objects, &[b'#'; 20]].concat()
}

/// A body of these pieces.
fn pieces(pieces: Vec<Vec<u8>>) -> Body {
    let frames = pieces.into_iter().map(|piece| Ok(Frame::data(Bytes::from(piece))));
    StreamBody::new(stream::iter(frames.collect::<Vec<_>>())).boxed_unsync()
}

/// A body whose pieces the test sends one by one.
fn live() -> (mpsc::UnboundedSender<Vec<u8>>, Body) {
    let (sender, receiver) = mpsc::unbounded_channel::<Vec<u8>>();
    let frames = stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|piece| (Ok(Frame::data(Bytes::from(piece))), receiver))
    });
    (sender, StreamBody::new(frames).boxed_unsync())
}

async fn ask(proxy: &Proxy, http2: bool, body: Body) -> Answer {
    ask_for(proxy, http2, "echo", body).await
}

async fn ask_for(proxy: &Proxy, http2: bool, path: &str, body: Body) -> Answer {
    if http2 {
        let request = Request::post(format!("https://a.example/{path}.git/git-receive-pack"));
        proxy.ask2(request.body(body).unwrap()).await
    } else {
        let request = Request::post(format!("/{path}/git-receive-pack")).header("host", "a.example");
        proxy.ask1(request.body(body).unwrap()).await
    }
}

#[tokio::test]
async fn judged_push_arrives_unchanged() {
    for alpn in ["h2", "http/1.1"] {
        let (proxy, upstream) = start(POLICY, &[alpn]).await;
        let push = push_of("refs/heads/agent/x");
        for http2 in [true, false] {
            for parts in [vec![push.clone()], push.iter().map(|byte| vec![*byte]).collect()] {
                let answer = ask(&proxy, http2, pieces(parts)).await;
                assert_eq!((answer.status.as_u16(), answer.body.as_bytes()), (200, push.as_slice()));
                let record = proxy.request().await;
                assert_eq!(record.rule.unwrap().path.as_deref(), Some("/echo"));
                assert_eq!(record.bytes_up, push.len() as u64);
            }
            let probe = ask(&proxy, http2, pieces(vec![b"0000".to_vec()])).await;
            assert_eq!((probe.status.as_u16(), probe.body.as_str()), (200, "0000"));
            proxy.request().await;
        }
        assert_eq!(upstream.seen().len(), 6);
        proxy.stop().await;
    }
}

#[tokio::test]
async fn refused_push_does_not_reach_the_upstream() {
    let control = "domains: [a.example]";
    let both = "domains: [a.example]\nurl_prefixes: [{host: a.example, path: /echo, git: {push: ['refs/heads/agent/*']}}]";
    for (policy, name, expected) in [
        (POLICY, "refs/heads/main", "ref_not_allowed"),
        (POLICY, "main", "body"),
        (both, "refs/heads/main", "ref_not_allowed"),
        (both, "refs/heads/agent/x", ""),
        (control, "refs/heads/main", ""),
    ] {
        let (proxy, upstream) = start(policy, &["h2"]).await;
        for http2 in [true, false] {
            let answer = ask(&proxy, http2, pieces(vec![push_of(name)])).await;
            assert_held!(expected.is_empty() || upstream.connections() == 0, "{policy} {name}");
            assert_eq!(answer.reason(), expected, "{policy} {name}");
            let record = proxy.request().await;
            assert_eq!(record.reason.map_or("", BlockReason::as_str), expected);
            if !expected.is_empty() {
                let is_report = expected == "ref_not_allowed";
                assert_eq!(answer.status.as_u16(), if is_report { 200 } else { 403 });
                assert!(answer.body.contains(name), "{}", answer.body);
            }
        }
        let elsewhere = proxy.ask2(get("https://a.example/other/info/refs?service=git-receive-pack")).await;
        assert_held!(policy == control || !elsewhere.reason().is_empty(), "{policy}: {elsewhere:?}");
        assert!(policy != control || elsewhere.reason().is_empty(), "the control: {elsewhere:?}");
        proxy.stop().await;
    }
}

#[tokio::test]
async fn update_that_loses_commits_or_is_malformed_is_not_completed() {
    let (old, other) = ("1".repeat(40), "2".repeat(40));
    for alpn in ["h2", "http/1.1"] {
        let policy = "url_prefixes: [{host: a.example, git: {push: ['refs/heads/agent/*']}}]";
        let (proxy, _upstream) = start(policy, &[alpn]).await;
        for http2 in [true, false] {
            // `/echo` responds before it has the whole body, `/length` after it.
            for (path, size) in [("echo", 0), ("length", 3_000_000)] {
                let kept = update(&old, &old, size);
                let sent = |push: &[u8]| pieces(push.chunks(100_000).map(<[u8]>::to_vec).collect());
                let answer = ask_for(&proxy, http2, path, sent(&kept)).await;
                assert_eq!(answer.status.as_u16(), 200, "{}", answer.body);
                assert_eq!(proxy.request().await.bytes_up, kept.len() as u64);
                let lost = update(&old, &other, size);
                let longer = [kept.as_slice(), b"x"].concat();
                let shorter = kept[..kept.len() - 1].to_vec();
                for (push, status, reason) in
                    [(lost, 200, "ref_lost"), (longer, 403, "body"), (shorter, 403, "body")]
                {
                    let length = kept.len() as u64 - 20;
                    let answer = ask_for(&proxy, http2, path, sent(&push)).await;
                    assert_eq!(
                        (answer.status.as_u16(), answer.reason()),
                        (status, reason),
                        "{alpn} {http2} {size}"
                    );
                    let record = proxy.request().await;
                    assert_held!(record.bytes_up <= length, "{} of {length}", record.bytes_up);
                    assert_eq!(record.reason.map(BlockReason::as_str), Some(reason));
                }
            }
        }
        proxy.stop().await;
    }
    // The control: the same push under a policy that allows it.
    let forced =
        "url_prefixes: [{host: a.example, path: /*, git: {push: ['refs/heads/agent/*'], force: true}}]";
    let (proxy, _upstream) = start(forced, &["h2"]).await;
    let lost = update(&old, &other, 1000);
    assert_eq!(
        ask_for(&proxy, true, "length", pieces(vec![lost.clone()])).await.body,
        lost.len().to_string()
    );
    proxy.stop().await;
}

#[tokio::test]
async fn unreadable_push_is_refused() {
    let (proxy, upstream) = start(POLICY, &["h2"]).await;
    let request = Request::post("https://a.example/echo/git-receive-pack").header("content-encoding", "gzip");
    let answer = proxy.ask2(request.body(pieces(vec![push_of("refs/heads/agent/x")])).unwrap()).await;
    assert_eq!((answer.status.as_u16(), answer.reason()), (403, "body"));
    let cut = ask(&proxy, true, pieces(vec![push_of("refs/heads/agent/x")[..50].to_vec()])).await;
    assert_eq!((cut.status.as_u16(), cut.reason()), (403, "body"));
    let endless = vec![push_of("refs/heads/agent/x")[..4].to_vec(), vec![b'x'; 2 * 1024 * 1024]];
    assert_eq!(ask(&proxy, true, pieces(endless)).await.reason(), "body");
    assert_held!(upstream.connections() == 0, "{:?}", upstream.seen());
    proxy.stop().await;
}

#[tokio::test]
async fn policy_that_changes_before_the_last_command_applies() {
    let (proxy, upstream) = start(POLICY, &["h2"]).await;
    let other = POLICY.replace("agent", "robot");
    let policy = Allowlist::from_yaml(&other, "policy.yaml").unwrap();
    for (name, expected) in [("refs/heads/agent/x", "ref_not_allowed"), ("refs/heads/robot/x", "")] {
        let policy_before = Allowlist::from_yaml(POLICY, "policy.yaml").unwrap();
        change(&proxy, policy_before, "agent").await;
        let (sender, body) = live();
        let push = push_of(name);
        sender.send(push[..20].to_vec()).unwrap();
        let sending = tokio::spawn({
            let request = Request::post("https://a.example/echo.git/git-receive-pack").body(body).unwrap();
            let mut client = proxy.http2("a.example").await;
            async move { Answer::read(client.send_request(request).await.unwrap()).await }
        });
        change(&proxy, policy.clone(), "robot").await;
        sender.send(push[20..].to_vec()).unwrap();
        drop(sender);
        let answer = sending.await.unwrap();
        assert_held!(expected.is_empty() || !answer.reason().is_empty(), "{name}: {answer:?}");
        assert_eq!(answer.reason(), expected, "{name}");
    }
    drop(upstream);
    proxy.stop().await;
}

/// Sets the policy and waits until it allows pushes below `refs/heads/NAME`.
async fn change(proxy: &Proxy, policy: Allowlist, name: &str) {
    proxy.command(&Command::SetPolicy { policy }).await;
    while !ask(proxy, true, pieces(vec![push_of(&format!("refs/heads/{name}/x"))])).await.reason().is_empty()
    {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn push_with_expect_gets_100_continue() {
    let (proxy, _upstream) = start(POLICY, &["http/1.1"]).await;
    for (name, expected) in
        [("refs/heads/agent/x", "PACK and more"), ("refs/heads/main", "ng refs/heads/main")]
    {
        let push = String::from_utf8(push_of(name)).unwrap();
        let head = "POST /echo/git-receive-pack HTTP/1.1\r\nHost: a.example\r\nExpect: 100-continue\r\nConnection: close\r\n";
        let request = format!("{head}Content-Length: {}\r\n\r\n{push}", push.len());
        let answer = raw(&proxy, request.as_bytes()).await;
        let passed = answer.0.contains("PACK");
        assert_held!(!passed || name == "refs/heads/agent/x", "{answer:?}");
        assert!(answer.0.starts_with("HTTP/1.1 100") && answer.0.contains(expected), "{answer:?}");
    }
    proxy.stop().await;
}

//! Live commands: a new policy, and quarantine.

use allowlist::Allowlist;
use sandbox_proxy_protocol::Command;
use tokio::time::timeout;

use crate::harness::{Proxy, Setup, TIMEOUT, Upstream, get};

async fn start() -> (Proxy, Upstream) {
    let (setup, upstream) = Setup::fresh(&["a.example", "b.example"], &["h2"]).await;
    (setup.start().await, upstream)
}

async fn reason(proxy: &Proxy, host: &str) -> String {
    proxy.ask2(get(format!("https://{host}/"))).await.reason().to_owned()
}

#[tokio::test]
async fn new_policy_applies_to_the_next_request() {
    let (proxy, _upstream) = start().await;
    assert_eq!(
        (reason(&proxy, "a.example").await.as_str(), reason(&proxy, "b.example").await.as_str()),
        ("", "host")
    );
    let policy = Allowlist::from_yaml("domains: [b.example]", "policy.yaml").unwrap();
    proxy.command(&Command::SetPolicy { policy }).await;
    let follows = async {
        while reason(&proxy, "b.example").await == "host" {
            tokio::task::yield_now().await;
        }
    };
    timeout(TIMEOUT, follows).await.expect("the policy changes");
    let refused = reason(&proxy, "a.example").await;
    assert_held!(!refused.is_empty(), "a request that the new policy forbids passed");
    assert_eq!(refused, "host");
    proxy.stop().await;
}

#[tokio::test]
async fn quarantine_ends_open_requests_and_refuses_new_ones() {
    let (proxy, _upstream) = start().await;
    let mut client = proxy.http2("a.example").await;
    let mut waiting = client.clone();
    let pending = tokio::spawn(async move { waiting.send_request(get("https://a.example/wait")).await });
    // The response to a later request on the connection shows that the first one has reached the
    // upstream.
    client.send_request(get("https://a.example/")).await.unwrap();
    proxy.command(&Command::Quarantine {}).await;
    let ended = timeout(TIMEOUT, pending).await.expect("the request in progress ends").unwrap();
    assert_held!(ended.is_err(), "{ended:?}");
    let refused = async {
        loop {
            // Earlier connections are closed; a new one gets the reason.
            if let Ok(stream) = proxy.tls("a.example", &["h2"]).await {
                let io = hyper_util::rt::TokioIo::new(stream);
                let Ok((mut sender, connection)) =
                    hyper::client::conn::http2::handshake(hyper_util::rt::TokioExecutor::new(), io).await
                else {
                    continue;
                };
                tokio::spawn(connection);
                if let Ok(answer) = sender.send_request(get("https://a.example/")).await {
                    return answer;
                }
            }
        }
    };
    let answer = timeout(TIMEOUT, refused).await.expect("a refusal arrives");
    assert_held!(answer.status() != 200, "{answer:?}");
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["x-sandbox-blocked"]),
        (403, &"quarantine".parse().unwrap())
    );
    proxy.stop().await;
}

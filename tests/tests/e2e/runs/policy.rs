//! Changes of a run's policy while it runs.

use allowlist::Allowlist;
use e2e_tests::fixture::{self, Fixture};
use sandbox::SandboxError;
use sandbox::network::ProxyError;
use sandbox::runs::{LifecycleHooks, RunSpec};

use super::fixture::{LONG, name, spec, stop};

/// A run that continually requests two hosts and prints the results, with a network that permits
/// `policy`.
fn asking(fixture: &Fixture, run: &str, policy: &str) -> RunSpec {
    let script = "while :; do for host in open other; do \
                  curl -fsS --max-time 20 -o /dev/null https://$host.test/ 2>/dev/null && echo $host reached || echo $host lost; \
                  done; sleep 0.3; done";
    spec(fixture, run, script).network(fixture::network(policy))
}

fn policy(text: &str) -> Allowlist {
    Allowlist::from_yaml(text, "test.yaml").expect("a good allowlist")
}

/// Waits until the run, after the lines already `seen`, prints each of `expected` in turn.
async fn await_lines(fixture: &Fixture, run: &str, seen: &mut usize, expected: &[&str]) {
    let (runs, run) = (fixture.sandbox.runs(), name(run));
    let expected: Vec<String> = expected.iter().map(ToString::to_string).collect();
    let (mut lines, before) = (Vec::new(), *seen);
    let said = runs.stream_logs(&run, LONG, |line| {
        lines.push(line.to_owned());
        let new = lines.get(before..).unwrap_or_default();
        new.ends_with(&expected)
    });
    let said = said.await.expect("logs");
    assert!(said.is_ready(), "{expected:?} is not in {:?}", lines.get(before..));
    *seen = lines.len();
}

fn log(fixture: &Fixture, run: &str) -> String {
    let log = fixture.sandbox.runs().task_state_dir(&name(run)).join("network-sandbox.log");
    std::fs::read_to_string(log).expect("a log")
}

#[tokio::test(flavor = "multi_thread")]
async fn policy_applies_from_the_next_request() {
    let fixture = Fixture::new().await;
    let (runs, run) = (fixture.sandbox.runs(), name("policed"));
    let (open, other) = ("domains: [open.test]", "domains: [other.test]");
    runs.run(asking(&fixture, "policed", open), LifecycleHooks::default()).await.expect("a good run");
    let mut seen = 0;
    await_lines(&fixture, "policed", &mut seen, &["open reached", "other lost"]).await;
    for (next, expected) in [
        (other, ["open lost", "other reached"]),
        ("domains: []", ["open lost", "other lost"]),
        ("domains: [open.test, other.test]", ["open reached", "other reached"]),
        (open, ["open reached", "other lost"]),
    ] {
        runs.set_policy(&run, policy(next)).await.expect("its proxy is ours");
        await_lines(&fixture, "policed", &mut seen, &expected).await;
    }
    let log = log(&fixture, "policed");
    for host in ["open", "other"] {
        for decision in ["allowed", "BLOCKED"] {
            let line = format!("{decision} GET https://{host}.test/");
            assert!(log.contains(&line), "{line} is not in {log}");
        }
    }
    stop(&fixture, "policed").await;
    assert!(runs.set_policy(&run, policy(open)).await.is_err(), "it is gone");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn quarantine_cuts_a_run_off_and_no_policy_lifts_it() {
    let fixture = Fixture::new().await;
    let (runs, run) = (fixture.sandbox.runs(), name("cut-off"));
    let both = "domains: [open.test, other.test]";
    runs.run(asking(&fixture, "cut-off", both), LifecycleHooks::default()).await.expect("a good run");
    let mut seen = 0;
    await_lines(&fixture, "cut-off", &mut seen, &["open reached", "other reached"]).await;
    let blocked = "BLOCKED GET https://open.test/ -> 403 [reason: quarantine]";
    let before = log(&fixture, "cut-off");
    assert!(!before.contains("BLOCKED"), "{before}");
    runs.quarantine(&run).await.expect("its proxy is ours");
    let lost = ["open lost", "other lost", "open lost", "other lost"];
    await_lines(&fixture, "cut-off", &mut seen, &lost).await;
    let refused = runs.set_policy(&run, policy(both)).await;
    assert!(matches!(refused, Err(SandboxError::Proxy(ProxyError::Quarantined))), "{refused:?}");
    await_lines(&fixture, "cut-off", &mut seen, &lost).await;
    let after = log(&fixture, "cut-off");
    assert!(after.contains(blocked), "{after}");
    stop(&fixture, "cut-off").await;
    fixture.close().await;
}

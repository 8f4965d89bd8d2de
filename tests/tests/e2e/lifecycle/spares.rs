//! Proxies that are started before their task is known.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener};
use std::time::{Duration, Instant};

use allowlist::Allowlist;
use e2e_tests::engine;
use e2e_tests::fixture::{self, Fixture};
use e2e_tests::{DEADLINE, assert_held};
use futures_util::future::join_all;
use sandbox::runs::{LifecycleHooks, RunName, RunSpec};
use sandbox::{HostService, Mount, Network, NetworkSandboxConfig, Sandbox};
use serde_json::Value;
use tempfile::TempDir;

/// A sandbox with a prefix of its own, and its state folder.
async fn fixture(prefix: &str) -> (Fixture, TempDir) {
    let state = tempfile::tempdir().expect("a folder");
    let mut config = fixture::config(state.path());
    prefix.clone_into(&mut config.prefix);
    (Fixture::with(config).await, state)
}

/// A fixture with `count` waiting proxies, and their names.
async fn warm(prefix: &str, count: usize) -> (Fixture, TempDir, Vec<String>) {
    let (fixture, state) = fixture(prefix).await;
    fixture.sandbox.warm(count).await.expect("the engine works");
    let running = vec!["running".to_owned(); count];
    let names = until(prefix, |states| states == running).await;
    (fixture, state, names)
}

/// Waits until the states of all containers of `prefix` are `expected`; returns their names.
async fn until(prefix: &str, expected: impl Fn(&[String]) -> bool) -> Vec<String> {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let (mut names, mut states) = (Vec::new(), Vec::new());
        for name in engine::containers(prefix).await {
            let (code, facts) = engine::call("GET", &format!("/containers/{name}/json"), None).await;
            // It may have been removed meanwhile.
            if code != 404 {
                let facts: Value = serde_json::from_slice(&facts).expect("JSON");
                let state = facts.pointer("/State/Status").and_then(Value::as_str);
                states.push(state.expect("a state").to_owned());
                names.push(name);
            }
        }
        if expected(&states) {
            return names;
        }
        assert!(Instant::now() < deadline, "{names:?}: {states:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The address of a proxy on the network of its task.
async fn address(proxy: &str) -> Ipv4Addr {
    let facts = engine::json("GET", &format!("/containers/{proxy}/json"), None).await;
    let networks = facts.pointer("/NetworkSettings/Networks").and_then(Value::as_object).expect("networks");
    let of_task = networks.iter().find(|(name, _)| name.contains("-conv-")).expect("a network of a task");
    of_task.1.get("IPAddress").and_then(Value::as_str).expect("an address").parse().expect("an address")
}

/// Prints the address of the proxy, requests the three hosts, and prints those that answered.
const REQUESTS: &str = "grep -oE '[0-9.]+$' /etc/resolv.conf; \
     for host in one two three; do curl -sf -o /dev/null https://$host.spare.test/ && echo $host; done; true";

#[tokio::test(flavor = "multi_thread")]
async fn proxy_started_ahead_serves_one_task_with_its_policy() {
    let prefix = "e2e-spare";
    let (fixture, _state, ahead) = warm(prefix, 2).await;
    let addresses: BTreeSet<Ipv4Addr> =
        join_all(ahead.iter().map(|name| address(name))).await.into_iter().collect();
    let together = fixture.folder().join("together");
    std::fs::create_dir(&together).expect("a folder");
    // One more than there are proxies. None ends before all have begun, so no address is used twice.
    let run = async |host: &str, others: usize| {
        let wait = format!(
            "touch /together/{host}; until [ $(ls /together | wc -l) -ge {others} ]; do sleep 0.1; done"
        );
        let policy = format!("domains: [{host}.spare.test]");
        let task = fixture.command(&policy, &["bash", "-c", &format!("{wait}; {REQUESTS}")]);
        let ran = fixture.run_spec(task.mount(Mount::read_write(&together, "/together"))).await;
        let (proxy, answered) = ran.stdout.split_once('\n').expect("an address, and answers");
        assert_held!(answered.trim() == host, "only its own policy holds: {ran:?}");
        proxy.parse::<Ipv4Addr>().expect("an address")
    };
    let used = join_all(["one", "two", "three"].map(|host| run(host, 3))).await;
    let used: BTreeSet<Ipv4Addr> = used.into_iter().collect();
    assert_held!(used.len() == 3, "two tasks had one proxy: {used:?}");
    assert!(used.is_superset(&addresses), "those that were started ahead are used: {addresses:?} {used:?}");

    // They end with their task.
    until(prefix, <[String]>::is_empty).await;
    run("two", 1).await;
    fixture.close().await;
    assert_eq!(engine::containers(prefix).await, Vec::<String>::new());
    assert_eq!(engine::networks(prefix).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_proxy_started_ahead_is_replaced_when_its_task_starts() {
    let prefix = "e2e-spare-killed";
    let (fixture, _state, ahead) = warm(prefix, 1).await;
    let (status, _) = engine::call("POST", &format!("/containers/{}/kill", ahead[0]), None).await;
    assert_eq!(status, 204);
    until(prefix, |states| states == ["exited"]).await;
    let ran = fixture.run("domains: [one.spare.test]", REQUESTS).await;
    assert_eq!((ran.code, ran.stdout.lines().skip(1).collect::<Vec<_>>()), (0, vec!["one"]), "{ran:?}");
    fixture.close().await;
    assert_eq!(engine::containers(prefix).await, Vec::<String>::new());
    assert_eq!(engine::networks(prefix).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn proxies_started_ahead_end_with_their_sandbox() {
    let prefix = "e2e-spare-end";
    for wait in [true, false] {
        let (fixture, _state) = if wait {
            let (fixture, state, _) = warm(prefix, 2).await;
            (fixture, state)
        } else {
            let (fixture, state) = fixture(prefix).await;
            fixture.sandbox.warm(2).await.expect("the engine works");
            (fixture, state)
        };
        fixture.close().await;
        assert_eq!(engine::containers(prefix).await, Vec::<String>::new(), "waited: {wait}");
        assert_eq!(engine::networks(prefix).await, Vec::<String>::new(), "waited: {wait}");
    }

    // Without a shutdown, as when the process dies.
    let (fixture, state, _) = warm(prefix, 2).await;
    drop(fixture);
    until(prefix, |states| states == ["exited", "exited"]).await;
    let mut next = fixture::config(state.path());
    prefix.clone_into(&mut next.prefix);
    let next = Sandbox::start(next).await.expect("it starts");
    assert_eq!(engine::containers(prefix).await, Vec::<String>::new());
    assert_eq!(engine::networks(prefix).await, Vec::<String>::new());
    next.shutdown().await.expect("nothing is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn run_and_task_with_a_service_leave_a_proxy_that_was_started_ahead() {
    let prefix = "e2e-spare-service";
    let (fixture, _state, ahead) = warm(prefix, 1).await;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let service = HostService::tcp("greeter", listener.local_addr().expect("an address"));
    let service = service.and_then(|service| service.port(7000)).expect("a good service");
    std::thread::spawn(move || listener.accept().map(|(mut client, _)| client.write_all(b"hello")));
    let network = NetworkSandboxConfig::new(Allowlist::default()).services([service]).expect("good services");
    let task = fixture.command("domains: []", &["bash", "-c", "cat </dev/tcp/greeter/7000"]);
    let ran = fixture.run_spec(task.network(Network::Sandboxed(network))).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "hello"), "{ran:?}");

    let name: RunName = "spared".parse().expect("a good name");
    let run = RunSpec::new(name.clone(), fixture.image.clone(), ["true"]);
    let run = run.network(fixture::network("domains: []"));
    let runs = fixture.sandbox.runs();
    runs.run(run, LifecycleHooks::default()).await.expect("a good run");
    assert_eq!(runs.wait_for_exit(&name, Some(DEADLINE)).await.expect("an end").code, 0);
    for stopped in runs.stop(&[name]).await {
        assert!(stopped.removed && stopped.error.is_none(), "{stopped:?}");
    }
    assert_eq!(until(prefix, |states| states.len() == 1).await, ahead);

    // The control: a task without a service takes it.
    fixture.run("domains: []", "true").await;
    until(prefix, <[String]>::is_empty).await;
    fixture.close().await;
}

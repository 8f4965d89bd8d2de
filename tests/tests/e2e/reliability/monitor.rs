//! The engine's monitor of a task is killed: the exit code of the task is unknown, so the task
//! failed.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use e2e_tests::engine;
use rustix::process::{Pid, Signal, kill_process};

use crate::command_line::project::{Ended, Project, assert_nothing_left};
use crate::command_line::stand_in::{RESULT, StandIn};

fn kill(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(pid, Signal::KILL).expect("root");
}

/// Runs the command with `arguments`, whose script creates the file `ready`, kills the monitor of
/// its container, and waits for the end.
async fn without_monitor(prefix: &str, project: &Project, arguments: &[&str]) -> Ended {
    let marker = project.path().join("ready");
    let _ = fs::remove_file(&marker);
    let child = project
        .sandbox(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the sandbox command");
    let deadline = Instant::now() + Duration::from_mins(2);
    while !marker.exists() {
        assert!(Instant::now() < deadline, "the script does not start: {arguments:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    kill(engine::process(prefix, "task", "ConmonPid").await);
    let ended = tokio::task::spawn_blocking(move || child.wait_with_output());
    let ended = tokio::time::timeout(Duration::from_mins(3), ended).await;
    ended.expect("it ends by itself").expect("a thread").expect("our own child").into()
}

/// A script that creates the file `ready`, and runs for `seconds`.
fn script(seconds: u32) -> String {
    format!("echo first; touch /workspace/ready; sleep {seconds}; echo last")
}

#[tokio::test(flavor = "multi_thread")]
async fn command_with_a_killed_monitor_fails() {
    let prefix = "e2e-monitor";
    let project = Project::with_prefix(prefix);
    fs::set_permissions(project.path(), fs::Permissions::from_mode(0o777)).expect("our own folder");
    for command in ["run", "exec"] {
        let whole = project.output(&[command, "--", "bash", "-c", &script(0)]);
        assert_eq!((whole.code, whole.stdout.as_str()), (Some(0), "first\nlast\n"), "the control: {whole:?}");
        let cut = without_monitor(prefix, &project, &[command, "--", "bash", "-c", &script(600)]).await;
        assert_eq!(cut.code, Some(125), "{command}: {cut:?}");
        assert!(cut.stderr.contains("conmon") && !cut.stdout.contains("last"), "{command}: {cut:?}");
        assert_nothing_left(prefix).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_with_a_killed_monitor_fails() {
    let prefix = "e2e-monitor-agent";
    let project = Project::with_prefix(prefix);
    // Even after its response: what it would still have done is unknown.
    let stand_in = StandIn::new(&format!("echo '{RESULT}'\n{}", script(600)));
    let arguments = stand_in.arguments(&["--workspace", "direct", "--output", "json"]);
    let cut = without_monitor(prefix, &project, &arguments).await;
    cut.fails(125, "conmon");
    let context = fs::read_to_string(stand_in.session().join("context.json")).expect("a session");
    let context: serde_json::Value = serde_json::from_str(&context).expect("whole JSON");
    assert_eq!(context["replies"].as_array().map(Vec::len), Some(1), "{context}");
    assert_nothing_left(prefix).await;
}

//! The engine's monitor of a task is killed: nobody knows how the task ended, so it did not succeed.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use e2e_tests::engine;

use crate::command_line::project::{Ended, Project, assert_nothing_left};

/// The process that the engine has beside the container of the task under `prefix`.
async fn monitor(prefix: &str) -> u64 {
    let names = engine::containers(prefix).await;
    let task = names.iter().find(|name| name.contains("-task-")).expect("a task");
    let facts = engine::json("GET", &format!("/containers/{task}/json"), None).await;
    facts
        .pointer("/State/ConmonPid")
        .and_then(serde_json::Value::as_u64)
        .expect("a monitor")
}

fn kill(pid: u64) {
    let killed = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
    assert!(killed.expect("kill").success());
}

/// Starts `arguments`, whose script says `ready`, kills the monitor of its container, and waits for the end.
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
        assert!(Instant::now() < deadline, "it does not begin: {arguments:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    kill(monitor(prefix).await);
    let ended = tokio::task::spawn_blocking(move || child.wait_with_output());
    let ended = tokio::time::timeout(Duration::from_mins(3), ended).await;
    ended
        .expect("it ends by itself")
        .expect("a thread")
        .expect("our own child")
        .into()
}

/// A script that says when it runs, and goes on for `seconds`.
fn script(seconds: u32) -> String {
    format!("echo first; touch /workspace/ready; sleep {seconds}; echo last")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_whose_monitor_was_killed_is_an_error() {
    let prefix = "e2e-monitor";
    let project = Project::with_prefix(prefix);
    fs::set_permissions(project.path(), fs::Permissions::from_mode(0o777)).expect("our own folder");
    for command in ["run", "exec"] {
        let whole = project.output(&[command, "--", "bash", "-c", &script(0)]);
        assert_eq!(
            (whole.code, whole.stdout.as_str()),
            (Some(0), "first\nlast\n"),
            "the control: {whole:?}"
        );
        let cut = without_monitor(prefix, &project, &[command, "--", "bash", "-c", &script(600)]).await;
        assert_eq!(cut.code, Some(125), "{command}: {cut:?}");
        assert!(
            cut.stderr.contains("conmon") && !cut.stdout.contains("last"),
            "{command}: {cut:?}"
        );
        assert_nothing_left(prefix).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_whose_monitor_was_killed_is_an_error() {
    let prefix = "e2e-monitor-agent";
    let project = Project::with_prefix(prefix);
    let folder = tempfile::tempdir().expect("a folder");
    let (program, session) = (folder.path().join("claude"), folder.path().join("session"));
    let result = r#"echo '{"type":"result","subtype":"success","is_error":false,"result":"hi","session_id":"a-b-c","num_turns":1,"duration_ms":1,"duration_api_ms":1,"total_cost_usd":0}'"#;
    // Even with its answer given: what it would still have done is not known.
    fs::write(&program, format!("#!/bin/bash\n{result}\n{}\n", script(600))).expect("a script");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("our own file");
    let [program, place] = [&program, &session].map(|path| path.display().to_string());
    let arguments = [
        "agent",
        "--workspace",
        "direct",
        "--claude-bin",
        &program,
        "--session-dir",
        &place,
        "--output",
        "json",
        "hello",
    ];
    let cut = without_monitor(prefix, &project, &arguments).await;
    assert_eq!(cut.code, Some(125), "{cut:?}");
    assert!(cut.stderr.contains("conmon"), "{cut:?}");
    let mut context = String::new();
    let file = fs::File::open(session.join("context.json")).expect("a session");
    std::io::BufReader::new(file)
        .read_to_string(&mut context)
        .expect("text");
    let context: serde_json::Value = serde_json::from_str(&context).expect("whole JSON");
    assert_eq!(context["replies"].as_array().map(Vec::len), Some(1), "{context}");
    assert_nothing_left(prefix).await;
}

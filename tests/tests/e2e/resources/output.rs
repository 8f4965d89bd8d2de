//! Output that is endless, not text, or not lines.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;
use std::time::Duration;

use e2e_tests::fixture::Fixture;
use sandbox::{ExecutionResult, Outcome, Prompt, ResourceLimits};
use serde_json::Value;

use super::hostile::{hostile, limits, still_usable};
use crate::command_line::project::Project;

/// The size limit of each stream, including the line that counts the rest.
const KEPT: usize = (16 << 20) + 64;

fn short() -> ResourceLimits {
    limits().timeout(Duration::from_secs(3))
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_output_ends_at_the_time_limit_and_is_kept_in_part() {
    let fixture = Fixture::new().await;
    let mut cut = 0;
    for script in ["yes", "tr '\\0' x < /dev/zero", "cat /dev/urandom", "cat /dev/zero >&2"] {
        let ran = fixture.run_spec(hostile(&fixture, &["bash", "-c", script]).limits(short())).await;
        assert!(ran.result.timed_out, "{script}");
        let (stdout, stderr) = (&ran.result.stdout, &ran.result.stderr);
        assert!(stdout.len() <= KEPT && stderr.len() <= KEPT, "{script}");
        let kept = if script.ends_with(">&2") { stderr } else { stdout };
        let is_cut = kept.windows(11).any(|window| window == b" bytes cut]");
        // A busy machine may not print that much in the time.
        assert!(is_cut || kept.len() < 16 << 20, "{script}: {} bytes", kept.len());
        cut += u32::from(is_cut);
    }
    assert!(cut > 0, "the control: the output was too long");
    let whole = fixture.run_spec(hostile(&fixture, &["head", "-c", "1000000", "/dev/zero"])).await;
    assert_eq!(whole.result.stdout, vec![0; 1_000_000], "the control: output below the limit is complete");
    still_usable(&fixture).await;
    fixture.close().await;
}

/// A gigabyte, in the memory that the command needs for the kept ends. The executor, where the
/// container keeps the ends, is tested with ten.
#[tokio::test(flavor = "multi_thread")]
async fn gigabyte_of_output_takes_little_memory() {
    const BYTES: u64 = 1_000_000_000;
    let project = Project::new();
    let run = |kibibytes, bytes: u64| {
        let count = bytes.to_string();
        let arguments = ["run", "--", "head", "-c", &count, "/dev/zero"];
        let mut child = project
            .within_memory(kibibytes, &arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the sandbox command");
        let mut stdout = child.stdout.take().expect("a pipe");
        let copied = std::io::copy(&mut stdout, &mut std::io::sink()).expect("output");
        (copied, child.wait().expect("our own child").success())
    };
    assert_eq!(run(160 * 1024, BYTES), (BYTES, true));
    assert!(!run(24 * 1024, BYTES).1, "the control: the memory was bounded");
}

/// Runs a task with the bash script `script` as Claude Code; returns its result, and its session as
/// read by another program.
async fn session(fixture: &Fixture, script: &str) -> (ExecutionResult, Value) {
    let program = fixture.folder().join("claude");
    fs::write(&program, format!("#!/bin/bash\n{script}\n")).expect("a script");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("our own file");
    let spec = fixture.agent().claude_binary(&program).limits(short());
    let task = fixture.sandbox.create_task(spec).expect("a good task");
    let result = task.execute(Prompt::new("hello")).await.expect("the sandbox works");
    task.session_store().load().expect("a session that can be read");
    let text = fs::read_to_string(fixture.folder().join("session/context.json")).expect("a session");
    (result, serde_json::from_str(&text).expect("whole JSON"))
}

#[tokio::test(flavor = "multi_thread")]
async fn session_stays_valid_for_any_output_of_the_agent() {
    let init = r#"{"type":"system","subtype":"init","session_id":"a-b-c"}"#;
    for script in [
        "yes",
        "tr '\\0' x < /dev/zero",
        "cat /dev/urandom",
        "while true; do echo '{\"type\":\"assistant\"}'; done",
        "printf '\\xff\\xfe\\xc3\\x28{\\n\"type\":\\n'; head -c 1M /dev/urandom; exit 3",
    ] {
        let fixture = Fixture::new().await;
        let (result, context) = session(&fixture, &format!("echo '{init}'; {script}")).await;
        assert_ne!(result.outcome, Outcome::Success, "{script}");
        let events = context["replies"][0]["events"].as_array().expect("events");
        assert_eq!(events.len(), result.events.len(), "{script}");
        assert_eq!(events[0]["session_id"], "a-b-c", "{script}");
        let good = script.contains("assistant");
        assert_eq!(events.len() > 10, good, "{script}: {} events", events.len());
        assert!(
            !good || events[1..].iter().all(|event| *event == serde_json::json!({"type": "assistant"})),
            "{script}"
        );
        fixture.close().await;
    }
    let fixture = Fixture::new().await;
    let answer = r#"{"type":"result","subtype":"success","is_error":false,"result":"hi","session_id":"a-b-c","num_turns":1,"duration_ms":1,"duration_api_ms":1,"total_cost_usd":0}"#;
    let (result, context) = session(&fixture, &format!("echo '{init}'; echo '{answer}'")).await;
    assert_eq!(result.outcome, Outcome::Success, "the control: {result:?}");
    assert!(context.to_string().contains("a-b-c"), "{context}");
    fixture.close().await;
}

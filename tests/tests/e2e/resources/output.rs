//! Output that does not end, is no text, or is no line.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use e2e_tests::bed::Bed;
use sandbox::{ExecutionResult, Outcome, Prompt, ResourceLimits};
use serde_json::Value;

use super::hostile::{hostile, limits, still_usable};

/// What is kept of each stream, and the line that tells of the rest.
const KEPT: usize = (16 << 20) + 64;

fn short() -> ResourceLimits {
    ResourceLimits {
        timeout: Some(Duration::from_secs(3)),
        ..limits()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn output_without_end_ends_with_the_time_and_is_kept_in_part() {
    let bed = Bed::new().await;
    for script in [
        "yes",
        "tr '\\0' x < /dev/zero",
        "cat /dev/urandom",
        "cat /dev/zero >&2",
    ] {
        let ran = bed
            .run_spec(hostile(&bed, &["bash", "-c", script]).limits(short()))
            .await;
        assert!(ran.result.timed_out, "{script}");
        let (stdout, stderr) = (&ran.result.stdout, &ran.result.stderr);
        assert!(stdout.len() <= KEPT && stderr.len() <= KEPT, "{script}");
        let kept = if script.ends_with(">&2") { stderr } else { stdout };
        let told = kept.windows(11).any(|window| window == b" bytes cut]");
        assert!(told, "{script}: {} bytes", kept.len());
    }
    let whole = bed
        .run_spec(hostile(&bed, &["head", "-c", "1000000", "/dev/zero"]))
        .await;
    assert_eq!(
        whole.result.stdout,
        vec![0; 1_000_000],
        "the control: what fits is whole"
    );
    still_usable(&bed).await;
    bed.close().await;
}

/// Runs a task whose Claude Code is the bash script `script`; gives its result and its session as another program reads it.
async fn session(bed: &Bed, script: &str) -> (ExecutionResult, Value) {
    let program = bed.folder().join("claude");
    fs::write(&program, format!("#!/bin/bash\n{script}\n")).expect("a script");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("our own file");
    let spec = bed.agent().claude_binary(&program).limits(short());
    let task = bed.sandbox.create_task(spec).expect("a good task");
    let result = task
        .execute(Prompt::new("hello"), |_| {})
        .await
        .expect("the sandbox works");
    task.session_store().load().expect("a session that can be read");
    let text = fs::read_to_string(bed.folder().join("session/context.json")).expect("a session");
    (result, serde_json::from_str(&text).expect("whole JSON"))
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_an_agent_prints_its_session_stays_whole() {
    let init = r#"{"type":"system","subtype":"init","session_id":"a-b-c"}"#;
    for script in [
        "yes",
        "tr '\\0' x < /dev/zero",
        "cat /dev/urandom",
        "while true; do echo '{\"type\":\"assistant\"}'; done",
        "printf '\\xff\\xfe\\xc3\\x28{\\n\"type\":\\n'; head -c 1M /dev/urandom; exit 3",
    ] {
        let bed = Bed::new().await;
        let (result, context) = session(&bed, &format!("echo '{init}'; {script}")).await;
        assert_ne!(result.outcome, Outcome::Success, "{script}");
        assert!(context.is_object(), "{script}: {context}");
        bed.close().await;
    }
    let bed = Bed::new().await;
    let answer = r#"{"type":"result","subtype":"success","is_error":false,"result":"hi","session_id":"a-b-c","num_turns":1,"duration_ms":1,"duration_api_ms":1,"total_cost_usd":0}"#;
    let (result, context) = session(&bed, &format!("echo '{init}'; echo '{answer}'")).await;
    assert_eq!(result.outcome, Outcome::Success, "the control: {result:?}");
    assert!(context.to_string().contains("a-b-c"), "{context}");
    bed.close().await;
}

//! An agent that ends with exit code 0 and without a result has not answered.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::command_line::project::{Ended, Project};

fn agent(script: &str) -> Ended {
    let project = Project::new();
    let folder = tempfile::tempdir().expect("a folder");
    let (program, session) = (folder.path().join("claude"), folder.path().join("session"));
    fs::write(&program, format!("#!/bin/bash\n{script}\n")).expect("a script");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("our own file");
    let [program, place] = [&program, &session].map(|path| path.display().to_string());
    let arguments = [
        "agent",
        "--claude-bin",
        &program,
        "--session-dir",
        &place,
        "--output",
        "json",
        "hello",
    ];
    project.output(&arguments)
}

const BEGUN: &str = r#"echo '{"type":"system","subtype":"init","session_id":"a-b-c"}'"#;
const RESULT: &str = r#"echo '{"type":"result","subtype":"success","is_error":false,"result":"hi","session_id":"a-b-c","num_turns":1,"duration_ms":1,"duration_api_ms":1,"total_cost_usd":0}'"#;

#[tokio::test(flavor = "multi_thread")]
async fn exit_0_without_a_result_is_no_success() {
    let control = agent(&format!("{BEGUN}\n{RESULT}"));
    assert_eq!(control.code, Some(0), "the control: {control:?}");
    assert_eq!(control.json()["outcome"], "success", "the control: {control:?}");
    for script in ["exit 0", BEGUN, "echo Hello"] {
        let ended = agent(script);
        assert_eq!(ended.code, Some(1), "{script}: {ended:?}");
        let report = ended.json();
        assert_eq!(report["outcome"], "container_failed", "{script}: {report}");
        assert_eq!(
            report["error_summary"], "it ended with exit code 0 and without a result",
            "{script}: {report}"
        );
    }
}

//! An agent that exits with code 0 without a result has failed.

use crate::command_line::project::{Ended, Project};
use crate::command_line::stand_in::{RESULT, StandIn};

/// Reads its prompt first: podman 4 reports an unread prompt on the agent's stderr.
fn agent(script: &str) -> Ended {
    let project = Project::new();
    let stand_in = StandIn::new(&format!("cat > /dev/null\n{script}"));
    project.output(&stand_in.arguments(&["--output", "json"]))
}

const BEGUN: &str = r#"echo '{"type":"system","subtype":"init","session_id":"a-b-c"}'"#;

#[tokio::test(flavor = "multi_thread")]
async fn agent_that_exits_with_0_and_no_result_fails() {
    let control = agent(&format!("{BEGUN}\necho '{RESULT}'"));
    assert_eq!(control.code, Some(0), "the control: {control:?}");
    assert_eq!(control.json()["outcome"], "success", "the control: {control:?}");
    let without = "it ended with exit code 0 and without a result";
    for (script, summary) in
        [("exit 0", without), (BEGUN, without), ("echo Hello", &format!("{without}: Hello"))]
    {
        let ended = agent(script);
        assert_eq!(ended.code, Some(1), "{script}: {ended:?}");
        let report = ended.json();
        assert_eq!(report["outcome"], "container_failed", "{script}: {report}");
        assert_eq!(report["error_summary"], summary, "{script}: {report}");
    }
}

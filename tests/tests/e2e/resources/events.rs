//! Endless valid events: the session keeps a limited number and counts the rest, and the host's
//! memory is bounded.

use std::fs;
use std::process::Output;

use serde_json::Value;

use crate::command_line::project::{Ended, Project};
use crate::command_line::stand_in::{RESULT, StandIn};

/// More events than are kept: each small one takes more than a kibibyte of memory.
const SMALL: usize = 150_000;
/// Four million values each, which would take 100 MiB of memory and more.
const LARGE: usize = 6;

/// Runs `sandbox agent` with `script` as Claude Code and a memory limit in KiB; returns its result
/// and session.
fn agent(kibibytes: u64, script: &str) -> (Ended, Value) {
    let project = Project::new();
    let stand_in = StandIn::new(script);
    let arguments = stand_in.arguments(&["--timeout", "300", "--output", "json"]);
    let output: Output = project.within_memory(kibibytes, &arguments).output().expect("the sandbox command");
    let text = fs::read_to_string(stand_in.session().join("context.json")).expect("a session");
    (output.into(), serde_json::from_str(&text).expect("whole JSON"))
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_events_are_kept_in_part_and_the_rest_is_counted() {
    let script = format!(
        "echo '{{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"a-b-c\"}}'
for i in {{1..{LARGE}}}; do printf '{{\"type\":\"x\",\"a\":[0'; yes ,0 | head -n 4000000 | tr -d '\\n'; echo ']}}'; done
yes '{{\"type\":\"x\"}}' | head -n {SMALL}
echo '{RESULT}'"
    );
    let (ended, context) = agent(500 * 1024, &script);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let report = ended.json();
    assert_eq!(report["response_text"], "hi", "the end is kept: {report}");
    let reply = &context["replies"][0];
    let events = reply["events"].as_array().expect("events");
    let marked = events.iter().filter(|event| event["type"] == "truncated_line");
    assert_eq!(marked.count(), LARGE);
    let missing = reply["missing"]["events"].as_u64().expect("a number");
    assert_eq!(report["missing_events"], missing);
    let all = 1 + LARGE + SMALL + 1;
    assert_eq!(events.len() as u64 + missing, all as u64, "none is forgotten");
    assert!((1..SMALL as u64).contains(&missing), "{missing}");
    assert_eq!(reply["missing"]["bytes"], missing * 12);
    assert_eq!(events.last().expect("events")["result"], "hi");

    let (little, context) =
        agent(500 * 1024, &format!("yes '{{\"type\":\"x\"}}' | head -n 1000; echo '{RESULT}'"));
    assert_eq!(little.json()["missing_events"], 0, "the control");
    assert_eq!(context["replies"][0]["events"].as_array().map(Vec::len), Some(1001));
    assert_eq!(context["replies"][0]["missing"], Value::Null);

    let (starved, context) = agent(64 * 1024, &script);
    assert_ne!(starved.code, Some(0), "the control: the memory was bounded");
    assert!(context["replies"].is_array(), "the session is valid nevertheless");
}

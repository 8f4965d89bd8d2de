//! `agent`, with the real Claude Code.

use e2e_tests::setting::Setting;
use serde_json::Value;

use super::project::{Ended, Project};

/// A project whose agent talks to the stand-in for the API.
pub(super) fn project() -> Project {
    let project = Project::new();
    project.append(
        ".sandbox/sandbox.yaml",
        "env: {ANTHROPIC_API_KEY: sk-ant-api03-e2e, CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: \"1\", CLAUDE_CODE_MAX_RETRIES: \"1\"}\n",
    );
    project
}

pub(super) fn agent(project: &Project, arguments: &[&str]) -> Ended {
    let claude = Setting::of_this_run().claude.display().to_string();
    let common = ["agent", "--claude-bin", &claude, "--timeout", "120"];
    project.output(&[&common, arguments].concat())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_agent_answers_programs_and_resumes_its_session() {
    let project = project();
    let none = agent(&project, &["--resume", "and now?"]);
    none.fails(125, "there is no session to resume");

    let first = agent(&project, &["--output", "json", "remember the word heliotrope"]);
    assert_eq!(first.code, Some(0), "{first:?}");
    let report = first.json();
    let keys: Vec<&str> = report.as_object().expect("an object").keys().map(String::as_str).collect();
    let expected = [
        "cost",
        "duration_ms",
        "error_summary",
        "exit_code",
        "missing_events",
        "outcome",
        "planted",
        "response_text",
        "session_id",
        "turns",
        "usage",
        "version",
        "workspace",
    ];
    assert_eq!(keys, expected);
    assert_eq!(
        (&report["version"], &report["outcome"], &report["exit_code"]),
        (&1.into(), &"success".into(), &0.into())
    );
    assert!(report["response_text"].as_str().is_some_and(|text| text.contains("heliotrope")), "{report}");

    let second = agent(&project, &["--resume", "which word?"]);
    assert_eq!((second.code, second.stderr.as_str()), (Some(0), ""), "{second:?}");
    assert!(
        second.stdout.contains("heliotrope") && second.stdout.contains("which word?"),
        "the first turn is part of it: {second:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_agents_events_can_be_read_and_its_failures_have_a_code() {
    let project = project();
    let stream = agent(&project, &["--output", "stream-json", "scenario:tool-use"]);
    let events: Vec<Value> =
        stream.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(events.first().map(|event| &event["subtype"]), Some(&"init".into()), "{stream:?}");
    assert_eq!(events.last().map(|event| &event["type"]), Some(&"result".into()), "{stream:?}");

    let failed = agent(&project, &["--output", "json", "scenario:rate-limit"]);
    assert_eq!((failed.code, &failed.json()["outcome"]), (Some(1), &"rate_limited".into()), "{failed:?}");
    let words = agent(&project, &["scenario:unauthorized"]);
    assert_eq!(words.code, Some(1));
    assert!(
        words.stderr.contains("authentication_failed")
            && words.stderr.contains("hint: Claude Code gets no credentials"),
        "{words:?}"
    );
    assert_eq!(project.output(&["agent"]).code, Some(2), "stdin is empty, and so there is no prompt");
}

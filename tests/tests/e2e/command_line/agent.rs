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
async fn the_agent_knows_its_limits_and_gets_the_callers_arguments() {
    let project = project();
    project.write(
        ".sandbox/network-allowlist.yaml",
        "domains: [api.anthropic.com]\nurl_prefixes: [{host: briefed.test, path: '/a`b*', methods: [GET]}]\n",
    );
    let briefed = agent(&project, &["scenario:system-seen"]);
    assert_eq!(briefed.code, Some(0), "{briefed:?}");
    for part in [
        "You run in a sandbox",
        "a proxy that allows `api.anthropic.com`, GET `briefed.test/a\\x60b*` when you begin",
        "Files that stay: `/workspace` (read and write)",
        "You are stopped 120 s after you began.",
    ] {
        assert!(briefed.stdout.contains(part), "{part}: {briefed:?}");
    }
    let both =
        agent(&project, &["scenario:system-seen", "--", "--append-system-prompt", "Words of the caller."]);
    assert!(
        both.stdout.contains("You run in a sandbox") && both.stdout.contains("Words of the caller."),
        "{both:?}"
    );
    // The control: without it, nothing is said of a sandbox.
    let silent = agent(
        &project,
        &["--no-briefing", "scenario:system-seen", "--", "--append-system-prompt", "Theirs."],
    );
    assert!(
        !silent.stdout.contains("You run in a sandbox") && silent.stdout.contains("Theirs."),
        "{silent:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_reach_claude_code_unless_they_change_what_is_read() {
    let project = project();
    let stream = agent(&project, &["--output", "stream-json", "hello", "--", "--tools", "Read,Grep"]);
    let init: Value = serde_json::from_str(stream.stdout.lines().next().expect("an event")).expect("JSON");
    let mut tools: Vec<&str> =
        init["tools"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    tools.sort_unstable();
    assert_eq!(tools, ["Grep", "Read"], "{stream:?}");
    let plain = agent(&project, &["--output", "stream-json", "hello"]);
    assert!(plain.stdout.contains("\"Bash\""), "the control: {plain:?}");
    let refused = agent(&project, &["hello", "--", "--output-format", "text"]);
    refused.fails(125, "`--output-format` is the sandbox's to set");
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

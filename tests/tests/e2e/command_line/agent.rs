//! `agent`, with the real Claude Code.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::Stdio;

use e2e_tests::setting::Setting;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::project::{Ended, Project};

/// A project whose agent talks to a fake API.
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
async fn agent_prints_a_json_report_and_resumes_its_session() {
    let project = project();
    let none = agent(&project, &["--resume", "and now?"]);
    none.fails(125, "no session to resume");

    let first = agent(&project, &["--output", "json", "remember the word heliotrope"]);
    assert_eq!(first.code, Some(0), "{first:?}");
    let report = first.json();
    let keys: Vec<&str> = report.as_object().expect("an object").keys().map(String::as_str).collect();
    let expected = [
        "cost",
        "duration_ms",
        "error_summary",
        "exit_code",
        "last_api_error",
        "missing_events",
        "outcome",
        "response_text",
        "session_id",
        "tampered",
        "traffic",
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
        "it has the first turn: {second:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_gets_a_briefing_and_the_callers_arguments() {
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
    // The control: without the briefing, the agent learns nothing about the sandbox.
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
async fn arguments_reach_claude_code_unless_the_sandbox_sets_them() {
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
    refused.fails(125, "`--output-format` is set by the sandbox");
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_events_are_json_lines_and_failures_have_exit_codes() {
    let project = project();
    let stream = agent(&project, &["--output", "stream-json", "scenario:tool-use"]);
    let events: Vec<Value> =
        stream.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(events.first().map(|event| &event["subtype"]), Some(&"init".into()), "{stream:?}");
    assert_eq!(events.last().map(|event| &event["type"]), Some(&"result".into()), "{stream:?}");

    let failed = agent(&project, &["--output", "json", "scenario:rate-limit"]);
    assert_eq!((failed.code, &failed.json()["outcome"]), (Some(75), &"rate_limited".into()), "{failed:?}");
    let plain = agent(&project, &["scenario:unauthorized"]);
    assert_eq!(plain.code, Some(1));
    assert!(
        plain.stderr.contains("authentication_failed")
            && plain.stderr.contains("hint: export a valid key as ANTHROPIC_API_KEY"),
        "{plain:?}"
    );
    assert_eq!(project.output(&["agent"]).code, Some(2), "an empty stdin is not a prompt");
}

#[tokio::test(flavor = "multi_thread")]
async fn second_agent_in_a_project_has_its_own_session() {
    let project = project();
    let claude = Setting::of_this_run().claude.display().to_string();
    let direct = ["--workspace", "direct"];
    let begins = [
        "agent",
        "--claude-bin",
        &claude,
        "--workspace",
        "direct",
        "--output",
        "stream-json",
        "scenario:hang",
    ];
    let mut first = project.sandbox(&begins).stdout(Stdio::piped()).spawn().expect("the sandbox command");
    let mut event = String::new();
    let mut stdout = BufReader::new(first.stdout.take().expect("a pipe"));
    stdout.read_line(&mut event).expect("an event");
    let own: Value = serde_json::from_str(&event).expect("JSON");

    let second =
        agent(&project, &[&direct[..], &["--output", "json", "remember the word heliotrope"]].concat());
    assert_eq!(second.code, Some(0), "{second:?}");
    let id = second.json()["session_id"].clone();
    assert!(id.is_string() && id != own["session_id"], "{second:?}");
    assert!(first.try_wait().expect("a child").is_none(), "the control: the first agent still runs");
    kill_process(Pid::from_child(&first), Signal::TERM).expect("our own child");
    drop(stdout);
    first.wait().expect("a child");

    let resumed = agent(&project, &[&direct[..], &["--resume", "which word?"]].concat());
    assert!(resumed.stdout.contains("heliotrope"), "the second session is the most recent: {resumed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_on_stdin_reach_the_running_agent() {
    let project = project();
    let claude = Setting::of_this_run().claude.display().to_string();
    let arguments = [
        "agent",
        "--claude-bin",
        &claude,
        "--timeout",
        "120",
        "--input",
        "stream-json",
        "--output",
        "stream-json",
    ];
    let mut command = project.sandbox(&arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the sandbox command");
    let mut stdin = child.stdin.take().expect("a pipe");
    let message = |text: &str| {
        let line = serde_json::json!({"type": "user", "message": {"role": "user", "content": text}});
        format!("{line}\n")
    };
    stdin.write_all(message("remember the word heliotrope").as_bytes()).expect("a reader");
    let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut result = || {
        loop {
            let mut line = String::new();
            assert!(stdout.read_line(&mut line).expect("an event") > 0, "the agent ended");
            let event: Value = serde_json::from_str(&line).expect("JSON");
            if event["type"] == "result" {
                return event;
            }
        }
    };
    let first = result();
    assert!(first["result"].as_str().is_some_and(|text| text.contains("heliotrope")), "{first}");
    // The sandbox waits for more messages, and reports a line that is not one.
    stdin.write_all(b"no message\n").expect("a reader");
    stdin.write_all(message("and the word mauve").as_bytes()).expect("a reader");
    let second = result();
    let both = |text: &str| text.contains("heliotrope") && text.contains("mauve");
    assert!(second["result"].as_str().is_some_and(both), "{second}");
    assert_eq!(second["session_id"], first["session_id"]);
    drop(stdin);
    let mut stderr = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut stderr).expect("output");
    assert_eq!(child.wait().expect("a child").code(), Some(0), "{stderr}");
    assert!(stderr.contains("stdin:1: not a message; write {\"type\":\"user\""), "{stderr}");
}

#[tokio::test(flavor = "multi_thread")]
async fn looping_agent_ends_at_the_budget_of_the_policy() {
    let project = project();
    let count_requests = |project: &Project| {
        let log = project.output(&["logs", "--output", "json"]).stdout;
        let records = log.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        records.filter(|record| record["event"] == "request" && record["decision"] == "allowed").count()
    };
    // Each reply of the fake API reports 10500 tokens in and 42 out; some requests of Claude Code
    // have replies without tokens.
    for (budget, exceeded, replies) in
        [("requests: 5", "5 requests", 1..=5), ("output_tokens: 100", "100 output tokens", 3..=3)]
    {
        let policy = format!("domains: [api.anthropic.com]\nbudget: {{{budget}}}\n");
        project.write(".sandbox/network-allowlist.yaml", &policy);
        let ended = agent(&project, &["--output", "json", "scenario:tool-loop"]);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        let report = ended.json();
        assert_eq!(report["outcome"], "budget_exhausted", "{report}");
        let summary = report["error_summary"].as_str().expect("a reason");
        assert!(summary.contains(exceeded) && summary.contains("network-allowlist.yaml"), "{report}");
        let (traffic, asked) = (&report["traffic"], count_requests(&project));
        assert!(
            traffic["requests"] == asked && (exceeded != "5 requests" || asked == 5),
            "{asked}: {report}"
        );
        let written = traffic["tokens"]["output"].as_u64().expect("a number");
        assert!(replies.contains(&(written / 42)) && written % 42 == 0, "{report}");
        assert_eq!(traffic["tokens"]["input"], written / 42 * 10500, "{report}");
        let log = project.output(&["logs"]).stdout;
        assert!(
            log.contains(" [tokens: 10500 in, 42 out]\n") && log.contains(" [reason: budget]\n"),
            "{log}"
        );
        let line = format!("\nTRAFFIC {asked} requests -> ");
        assert!(log.contains(&line) && log.contains(&format!(", {written} tokens out\n")), "{log}");
    }
    project.write(".sandbox/network-allowlist.yaml", "domains: [api.anthropic.com]\n");
    let control = agent(&project, &["--max-turns", "8", "scenario:tool-loop"]);
    control.fails(1, "turn_limit_reached");
    assert!(count_requests(&project) > 5, "the control: without a budget it continues");
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_agent_is_stopped_and_looping_agent_reaches_its_limits() {
    let project = project();
    let silent = ["--stall", "2s", "--stop-on-stall", "scenario:hang"];
    let ended = agent(&project, &silent);
    ended.fails(1, "stalled: it was stopped: it had reported nothing for 2 s");
    assert!(ended.stderr.contains("Claude Code has reported nothing for 2 s"), "{ended:?}");
    let turns = agent(&project, &["--max-turns", "2", "scenario:tool-loop"]);
    turns.fails(1, "turn_limit_reached: Reached maximum number of turns (2)");
    assert!(turns.stderr.contains("continue with --resume"), "{turns:?}");
    let budget = agent(&project, &["--max-budget", "0.001", "scenario:tool-loop"]);
    budget.fails(1, "budget_exhausted");
}

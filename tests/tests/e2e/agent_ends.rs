//! Ends of agents: failures of the API, the machine or Claude Code itself, and what the caller
//! sees.

use std::fs;
use std::num::NonZeroU32;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use e2e_tests::fixture::Fixture;
use futures_util::StreamExt as _;
use futures_util::future::join_all;
use sandbox::{ContainerEnv, ExecutionResult, OnStall, Outcome, Prompt, ResourceLimits, TaskSpec};

use crate::command_line::stand_in::RESULT;

/// In seconds. All are shorter than the time for which Claude Code retries with [`RETRIES`]; a slow
/// machine needs a longer one for the second attempt.
const LIMITS: [u64; 3] = [15, 45, 90];
/// The maximum that Claude Code accepts, about five minutes of retries.
const RETRIES: &str = "15";
/// Replaces defaults of minutes.
const SHORT: Duration = Duration::from_secs(2);
/// Longer than the start of Claude Code on a busy machine.
const SILENCE: Duration = Duration::from_secs(30);

/// Executes one prompt in a new fixture.
async fn ended(set: impl AsyncFn(&Fixture, TaskSpec) -> TaskSpec, prompt: Prompt) -> ExecutionResult {
    let fixture = Fixture::new().await;
    let spec = set(&fixture, fixture.agent()).await;
    let task = fixture.sandbox.create_task(spec).expect("a good task");
    let result = task.execute(prompt).await.expect("the sandbox works");
    drop(task);
    fixture.close().await;
    result
}

/// The result of an agent that sent at least two requests within its time limit.
async fn tried_twice(scenario: &str) -> ExecutionResult {
    for limit in LIMITS.map(Duration::from_secs) {
        let limited =
            async |_: &Fixture, spec| patient(spec).limits(ResourceLimits::default().timeout(limit));
        let result = ended(limited, Prompt::new(format!("scenario:{scenario}"))).await;
        if result.last_api_error.as_ref().is_some_and(|error| error.in_a_row > 1) {
            return result;
        }
    }
    panic!("{scenario}: it does not send a second request");
}

/// An agent that keeps retrying beyond its time limit.
fn patient(spec: TaskSpec) -> TaskSpec {
    let env = ContainerEnv::default()
        .with("ANTHROPIC_API_KEY", "sk-ant-api03-e2e")
        .with("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
        .with("CLAUDE_CODE_MAX_RETRIES", RETRIES);
    spec.env(env)
}

/// An agent that is a script.
fn scripted(fixture: &Fixture, spec: TaskSpec, script: &str) -> TaskSpec {
    let program = fixture.folder().join("claude");
    fs::write(&program, format!("#!/bin/bash\ncat > /dev/null\n{script}\n")).expect("a script");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("our own file");
    spec.claude_binary(program)
}

#[tokio::test(flavor = "multi_thread")]
async fn api_refusals_until_the_time_limit_determine_the_outcome() {
    let row = async |(scenario, outcome, status): (&str, Outcome, u16)| {
        let result = tried_twice(scenario).await;
        assert_eq!((result.outcome, result.timed_out), (outcome, true), "{scenario}: {result:?}");
        let error = result.last_api_error.as_ref().expect("an error");
        assert_eq!((error.status, error.is_unresolved), (Some(status), true), "{scenario}: {error:?}");
        let summary = result.error_summary.unwrap_or_default();
        assert!(
            summary.starts_with("it was stopped at its time limit") && summary.contains(&status.to_string()),
            "{scenario}: {summary}"
        );
    };
    let rows = [
        ("rate-limit", Outcome::RateLimited, 429),
        ("unauthorized", Outcome::AuthenticationFailed, 401),
        ("server-error", Outcome::ApiUnavailable, 500),
        ("overloaded", Outcome::ApiUnavailable, 529),
    ];
    join_all(rows.map(row)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_response_is_named_in_the_summary() {
    for (scenario, outcome, words) in [
        ("drop", Outcome::ApiUnavailable, "the connection broke"),
        ("error-mid-stream", Outcome::ApiUnavailable, "529"),
        ("not-json", Outcome::ApiUnavailable, "malformed response"),
        ("not-found", Outcome::InvalidRequest, "issue with the selected model"),
        ("prompt-too-long", Outcome::PromptTooLong, "Prompt is too long"),
        ("refusal", Outcome::InvalidRequest, "API Error"),
    ] {
        let result = ended(async |_, spec| spec, Prompt::new(format!("scenario:{scenario}"))).await;
        let summary = result.error_summary.as_deref().unwrap_or_default();
        assert!(result.outcome == outcome && summary.contains(words), "{scenario}: {result:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_server_is_an_event_and_stops_the_task_on_request() {
    let fixture = Fixture::new().await;
    let task =
        fixture.sandbox.create_task(fixture.agent().stall(SHORT, OnStall::Report)).expect("a good task");
    let mut execution = task.execute(Prompt::new("scenario:hang"));
    while let Some(event) = execution.next().await {
        if event.event_type() == "stalled" {
            break;
        }
    }
    let (result, stopped) = tokio::join!(execution, task.stop());
    assert!(stopped, "the control: it was still running");
    assert_eq!(result.expect("a stop is an outcome").outcome, Outcome::Stopped);
    fixture.close().await;

    let stops = async |_: &Fixture, spec: TaskSpec| spec.stall(SILENCE, OnStall::Stop);
    let result = ended(stops, Prompt::new("scenario:hang")).await;
    assert_eq!((result.outcome, result.timed_out), (Outcome::Stalled, false), "{result:?}");
    assert!(result.session_id.is_some(), "it can be resumed: {result:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_running_after_its_result_is_stopped_and_keeps_its_outcome() {
    for script in ["sleep 3600", "trap '' TERM; while :; do sleep 1; done", "exec >&- 2>&-; sleep 3600"] {
        let set = async |fixture: &Fixture, spec: TaskSpec| {
            scripted(fixture, spec, &format!("echo '{RESULT}'\n{script}")).result_grace(Some(SHORT))
        };
        let result = ended(set, Prompt::new("x")).await;
        assert_eq!(
            (result.outcome, result.response_text.as_str()),
            (Outcome::Success, "hi"),
            "{script}: {result:?}"
        );
        assert!(result.exit_code > 128 && !result.timed_out, "{script}: {result:?}");
    }
    let unlimited = async |fixture: &Fixture, spec: TaskSpec| {
        let limits = ResourceLimits::default().timeout(2 * SHORT);
        scripted(fixture, spec, &format!("echo '{RESULT}'\nsleep 3600")).result_grace(None).limits(limits)
    };
    let control = ended(unlimited, Prompt::new("x")).await;
    assert_eq!(control.outcome, Outcome::Timeout, "the control: {control:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_of_claude_code_have_their_own_outcomes() {
    let loops = Prompt::new("scenario:tool-loop");
    let turns = loops.clone().max_turns(NonZeroU32::new(2).expect("two"));
    for (prompt, outcome, words) in [
        (turns, Outcome::TurnLimitReached, "maximum number of turns (2)"),
        (loops.max_budget_usd(0.001), Outcome::BudgetExhausted, "maximum budget ($0.001)"),
    ] {
        let result = ended(async |_, spec| spec, prompt).await;
        let summary = result.error_summary.as_deref().unwrap_or_default();
        assert!(result.outcome == outcome && summary.contains(words), "{result:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_text_error_determines_outcome_and_summary() {
    for (script, outcome, words) in [
        ("echo 'Invalid API key · Please run /login'; exit 1", Outcome::AuthenticationFailed, "/login"),
        ("echo 'Error: Prompt is too long' >&2; exit 1", Outcome::PromptTooLong, "too long"),
        ("echo 'API Error: 401 no'; exit 1", Outcome::AuthenticationFailed, "401 no"),
        (
            "echo 'fatal: out of luck'; exit 3",
            Outcome::ContainerFailed,
            "exit code 3 and without a result: fatal",
        ),
        ("kill -SEGV $$", Outcome::Killed, "it was killed by SIGSEGV"),
    ] {
        let set = async |fixture: &Fixture, spec: TaskSpec| scripted(fixture, spec, script);
        let result = ended(set, Prompt::new("x")).await;
        let summary = result.error_summary.as_deref().unwrap_or_default();
        assert!(result.outcome == outcome && summary.contains(words), "{script}: {result:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn state_is_in_the_session_and_background_work_is_disabled() {
    let fixture = Fixture::new().await;
    let task = fixture.sandbox.create_task(fixture.agent()).expect("a good task");
    for prompt in ["scenario:background", "hello"] {
        let resume = task.session_store().session_id_for_resume().expect("a session");
        let result = task.execute(Prompt::new(prompt).resume(resume)).await.expect("the sandbox works");
        assert_eq!(result.outcome, Outcome::Success, "{result:?}");
        assert_eq!(String::from_utf8_lossy(&result.stderr), "", "{prompt}");
        let results = result.events.iter().filter(|event| event.as_result().is_some()).count();
        assert_eq!(results, 1, "one turn: {result:?}");
    }
    assert!(fixture.folder().join("session/claude/.claude.json").is_file());
    drop(task);
    fixture.close().await;
}

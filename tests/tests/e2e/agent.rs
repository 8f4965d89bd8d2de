//! The real Claude Code program against a streaming fake of its API.

use std::time::Duration;

use e2e_tests::engine;
use e2e_tests::fixture::Fixture;
use futures_util::StreamExt as _;
use sandbox::diagnostics::Role;
use sandbox::{Mount, Outcome, Prompt, ResourceLimits, Task};
use serde_json::Value;

/// `context.json` as another program reads it.
fn context(fixture: &Fixture) -> Value {
    let text = std::fs::read_to_string(fixture.folder().join("session/context.json")).expect("context.json");
    serde_json::from_str(&text).expect("whole JSON")
}

async fn outcome_of(prompt: &str) -> (Outcome, String) {
    let fixture = Fixture::new().await;
    let task = fixture.sandbox.create_task(fixture.agent()).expect("a good task");
    let result = task.execute(Prompt::new(prompt)).await.expect("the sandbox works");
    let log = std::fs::read_to_string(fixture.folder().join("network-sandbox.log")).unwrap_or_default();
    let facts = format!(
        "exit {} summary {:?}\nstdout {}\nstderr {}\nlog {log}",
        result.exit_code,
        result.error_summary,
        String::from_utf8_lossy(&result.stdout),
        String::from_utf8_lossy(&result.stderr)
    );
    fixture.close().await;
    (result.outcome, facts)
}

#[tokio::test(flavor = "multi_thread")]
async fn second_turn_resumes_the_first() {
    let fixture = Fixture::new().await;
    let task = fixture.sandbox.create_task(fixture.agent()).expect("a good task");
    let mut execution = task.execute(Prompt::new("remember the word heliotrope"));
    let live = (&mut execution).count().await;
    let first = execution.await.expect("the sandbox works");
    assert_eq!(
        first.outcome,
        Outcome::Success,
        "{:?} {}",
        first.error_summary,
        String::from_utf8_lossy(&first.stderr)
    );
    assert!(live > 1 && live == first.events.len(), "{live} events");
    let resume = task.session_store().session_id_for_resume().expect("a session");
    assert_eq!(resume, first.session_id);
    let second = task.execute(Prompt::new("which word?").resume(resume)).await.expect("the sandbox works");
    assert_eq!(second.outcome, Outcome::Success, "{:?}", second.error_summary);
    assert!(
        second.response_text.contains("heliotrope"),
        "the first turn is part of the second: {}",
        second.response_text
    );
    let context = context(&fixture);
    assert_eq!(context["execution_context_id"], "agent");
    let replies = context["replies"].as_array().expect("replies");
    assert_eq!(replies.len(), 2);
    assert_eq!(replies[0]["request_text"], "remember the word heliotrope");
    assert_eq!(replies[0]["response_text"], first.response_text.as_str());
    assert_eq!(replies[1]["response_text"], second.response_text.as_str());
    assert!(replies.iter().all(|reply| {
        reply["is_error"] == false && reply["events"].as_array().is_some_and(|events| !events.is_empty())
    }));
    let log = std::fs::read_to_string(fixture.folder().join("network-sandbox.log")).expect("a log");
    assert!(log.contains("allowed POST https://api.anthropic.com/v1/messages"), "{log}");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_call_runs_in_the_container_on_the_mounted_workspace() {
    let fixture = Fixture::new().await;
    let workspace = fixture.folder().join("workspace");
    std::fs::create_dir(&workspace).expect("a folder");
    let spec = fixture.agent().mount(Mount::read_write(&workspace, "/workspace")).working_dir("/workspace");
    let task = fixture.sandbox.create_task(spec).expect("a good task");
    let result = task
        .execute(Prompt::new("scenario:tool-use\ncommand: echo made by a tool > made.txt && cat made.txt"))
        .await
        .expect("the sandbox works");
    assert_eq!(result.outcome, Outcome::Success, "{:?}", result.error_summary);
    assert_eq!(
        std::fs::read_to_string(workspace.join("made.txt")).expect("the tool's file"),
        "made by a tool\n"
    );
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_arrive_live_and_survive_a_killed_container() {
    let fixture = Fixture::new().await;
    let task = fixture.sandbox.create_task(fixture.agent()).expect("a good task");
    let mut execution = task.execute(Prompt::new("scenario:slow"));
    while let Some(event) = execution.next().await {
        if event.session_id().is_some() {
            break;
        }
    }
    let name = fixture.container(Role::Task).await;
    engine::call("POST", &format!("/containers/{name}/kill?signal=KILL"), None).await;
    let result = execution.await.expect("a killed container is an outcome");
    assert_eq!(result.outcome, Outcome::Killed);
    assert_eq!(result.exit_code, 137);
    let summary = result.error_summary.as_deref().unwrap_or_default();
    assert!(summary.starts_with("it was killed by SIGKILL"), "{summary}");
    let id = result.session_id.expect("the session id of the init event");
    assert!(!result.events.is_empty());
    let context = context(&fixture);
    assert_eq!(context["replies"][0]["session_id"], id.as_str());
    assert_eq!(context["replies"][0]["is_error"], true);
    assert_eq!(context["replies"][0]["events"].as_array().map(Vec::len), Some(result.events.len()));
    assert_eq!(task.session_store().session_id_for_resume().expect("a session"), Some(id));
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_task_has_an_outcome_and_a_concurrent_execution_is_refused() {
    let fixture = Fixture::new().await;
    let task = fixture.sandbox.create_task(fixture.agent()).expect("a good task");
    let mut execution = task.execute(Prompt::new("scenario:hang"));
    while execution.next().await.expect("the agent begins").session_id().is_none() {}
    let second = task.execute(Prompt::new("me too")).await;
    assert!(matches!(second, Err(sandbox::SandboxError::Busy)), "{second:?}");
    let (result, stopped) = tokio::join!(execution, task.stop());
    assert!(stopped && !task.stop().await);
    let result = result.expect("a stop is an outcome");
    assert_eq!(result.outcome, Outcome::Stopped);
    assert!(result.session_id.is_some());
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn exceeded_time_limit_is_an_outcome() {
    let fixture = Fixture::new().await;
    let limits = ResourceLimits::default().timeout(Duration::from_secs(4));
    let task: Task = fixture.sandbox.create_task(fixture.agent().limits(limits)).expect("a good task");
    let result = task.execute(Prompt::new("scenario:hang")).await.expect("a timeout is an outcome");
    assert_eq!(result.outcome, Outcome::Timeout);
    fixture.close().await;
}

/// Every outcome that API responses can cause in the real program.
#[tokio::test(flavor = "multi_thread")]
async fn api_response_determines_the_outcome() {
    for (scenario, expected) in [
        ("prompt-too-long", Outcome::PromptTooLong),
        ("request-too-large", Outcome::PromptTooLong),
        ("unauthorized", Outcome::AuthenticationFailed),
        ("forbidden", Outcome::AuthenticationFailed),
        ("rate-limit", Outcome::RateLimited),
        ("server-error", Outcome::ApiUnavailable),
        ("overloaded", Outcome::ApiUnavailable),
        ("drop-at-once", Outcome::ApiUnavailable),
        ("session-corrupted", Outcome::SessionCorrupted),
        ("no-credit", Outcome::AuthenticationFailed),
        ("unprocessable", Outcome::InvalidRequest),
        ("not-found", Outcome::InvalidRequest),
        ("quoted-error", Outcome::Success),
    ] {
        let (outcome, facts) = outcome_of(&format!("scenario:{scenario}")).await;
        assert_eq!(outcome, expected, "{scenario}: {facts}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn blocked_api_is_reported_as_blocked_and_not_as_a_bad_key() {
    let fixture = Fixture::new().await;
    let spec = fixture.agent().network(e2e_tests::fixture::network("domains: []"));
    let task = fixture.sandbox.create_task(spec).expect("a good task");
    let result = task.execute(Prompt::new("hello")).await.expect("the sandbox works");
    assert_eq!(
        result.outcome,
        Outcome::BlockedByPolicy,
        "the summary must not blame the key: {:?}",
        result.error_summary
    );
    let log = std::fs::read_to_string(fixture.folder().join("network-sandbox.log")).expect("a log");
    assert!(log.contains("BLOCKED POST https://api.anthropic.com/v1/messages"), "{log}");
    fixture.close().await;
}

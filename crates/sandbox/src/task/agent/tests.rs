//! Outcomes of agents, on a scripted engine.

use std::time::Duration;

use claude_output::EventKind;
use futures_util::StreamExt as _;
use tempfile::TempDir;

use crate::launcher::{Script, ScriptedEngine};
use crate::spec::{ContainerEnv, ImageSource, OnStall, ResourceLimits};
use crate::{EngineAddress, Outcome, Sandbox, SandboxConfig};

use super::*;

const SHORT: Duration = Duration::from_millis(20);
const RESULT: &str = "{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"hi\",\"session_id\":\"s\"}\n";
const RETRY: &str =
    "{\"type\":\"system\",\"subtype\":\"api_retry\",\"error_status\":429,\"error\":\"rate_limit\"}\n";

struct Fixture {
    folder: TempDir,
    engine: ScriptedEngine,
    sandbox: Sandbox,
    spec: TaskSpec,
}

impl Fixture {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let engine = ScriptedEngine::new();
        let config = SandboxConfig::new(EngineAddress::unix("/none"), folder.path().join("state"));
        let sandbox = Sandbox::with_launcher(config, engine.clone()).unwrap();
        let image = sandbox.ensure_image(&ImageSource::existing("localhost/x")).await.unwrap();
        let spec = TaskSpec::new("t", image, folder.path().join("session"));
        Self { folder, engine, sandbox, spec }
    }

    async fn run(&self, script: Script, spec: TaskSpec) -> ExecutionResult {
        self.engine.then(script);
        self.sandbox.create_task(spec).unwrap().execute(Prompt::new("x")).await.unwrap()
    }
}

#[tokio::test]
async fn agent_running_after_its_result_is_stopped_and_keeps_its_outcome() {
    let fixture = Fixture::new().await;
    let spec = fixture.spec.clone().result_grace(Some(SHORT));
    let result = fixture.run(Script::new().stdout(RESULT).runs_on(), spec.clone()).await;
    assert_eq!((result.outcome, result.exit_code, result.error_summary), (Outcome::Success, 143, None));
    assert_eq!(result.response_text, "hi");
    // The control: without a grace period only the time limit ends it.
    let limits = ResourceLimits::default().timeout(SHORT * 10);
    let endless = spec.limits(limits).result_grace(None);
    let result = fixture.run(Script::new().stdout(RESULT).runs_on(), endless).await;
    assert_eq!((result.outcome, result.timed_out), (Outcome::Timeout, true));
}

#[tokio::test]
async fn silence_is_reported_and_ends_the_agent_on_request() {
    let fixture = Fixture::new().await;
    fixture.engine.then(Script::new().runs_on());
    let task = fixture.sandbox.create_task(fixture.spec.clone().stall(SHORT, OnStall::Report)).unwrap();
    let mut execution = task.execute(Prompt::new("x"));
    let event = execution.next().await.unwrap();
    assert!(matches!(event.kind(), EventKind::Stalled(stall) if stall.silent_ms == 20), "{event:?}");
    let (result, _) = tokio::join!(execution, task.stop());
    let result = result.unwrap();
    assert_eq!((result.outcome, result.events.len()), (Outcome::Stopped, 1));

    let result = fixture.run(Script::new().runs_on(), fixture.spec.clone().stall(SHORT, OnStall::Stop)).await;
    assert_eq!((result.outcome, result.timed_out), (Outcome::Stalled, false));
    assert_eq!(result.error_summary.as_deref(), Some("it was stopped: it had reported nothing for 0.02 s"));
    let kept = crate::session::SessionStore::open(fixture.folder.path().join("session"), "t").unwrap();
    let kept = kept.load().unwrap().unwrap();
    assert_eq!(kept.replies.last().unwrap().events, result.events);
    assert!(fixture.sandbox.create_task(fixture.spec.clone().stall(Duration::ZERO, OnStall::Stop)).is_err());
}

#[tokio::test]
async fn timeout_during_api_refusals_is_their_outcome() {
    let fixture = Fixture::new().await;
    let spec = fixture.spec.clone().limits(ResourceLimits::default().timeout(SHORT));
    let result = fixture.run(Script::new().stdout(RETRY.repeat(3)).runs_on(), spec).await;
    assert_eq!((result.outcome, result.timed_out), (Outcome::RateLimited, true));
    let error = result.last_api_error.unwrap();
    assert_eq!((error.status, error.in_a_row), (Some(429), 3));
    let result = fixture.run(Script::new().stdout(RESULT).runs_out_of_memory(), fixture.spec.clone()).await;
    assert_eq!((result.outcome, result.oom_killed), (Outcome::Killed, true));
    assert_eq!(result.error_summary.as_deref(), Some("it was killed for want of memory"));
}

#[tokio::test]
async fn other_agents_have_command_lines_and_outcomes_of_their_own() {
    let fixture = Fixture::new().await;
    let spec = fixture.spec.clone().agent("codex".parse().unwrap());
    let tool = include_str!("../../../../agents/src/recorded/codex-tool.jsonl");
    let killed = include_str!("../../../../agents/src/recorded/codex-killed.jsonl");
    for (output, exit_code, outcome) in [
        (tool, 0, Outcome::Success),
        (tool, 1, Outcome::ContainerFailed),
        (killed, 0, Outcome::ContainerFailed),
        (
            include_str!("../../../../agents/src/recorded/codex-unauthorized.jsonl"),
            1,
            Outcome::AuthenticationFailed,
        ),
        (include_str!("../../../../agents/src/recorded/codex-rate-limit.jsonl"), 1, Outcome::RateLimited),
        (
            include_str!("../../../../agents/src/recorded/codex-bad-request.jsonl"),
            1,
            Outcome::ContainerFailed,
        ),
    ] {
        let result = fixture.run(Script::new().stdout(output).exit(exit_code), spec.clone()).await;
        assert_eq!(result.outcome, outcome, "{output}: {result:?}");
        assert!(result.session_id.is_some(), "{output}");
    }
    let task = fixture.sandbox.create_task(spec).unwrap();
    fixture.engine.then(Script::new().stdout(killed).runs_on());
    let mut execution = task.execute(Prompt::new("x").resume(Some("a-b".to_owned())));
    execution.next().await.unwrap();
    let (result, stopped) = tokio::join!(execution, task.stop());
    assert_eq!((result.unwrap().outcome, stopped), (Outcome::Stopped, true));

    let program = fixture.engine.programs().pop().unwrap();
    assert_eq!(program.command[..2], ["codex", "exec"]);
    assert!(program.command.ends_with(&["resume", "a-b", "-"].map(str::to_owned)), "{:?}", program.command);
    assert_eq!(program.env.variables()["CODEX_HOME"], "/root/.codex");
    assert!(!program.env.variables().contains_key("CLAUDE_CONFIG_DIR"));
    for prompt in [
        Prompt::new("x").max_turns(NonZeroU32::MIN),
        Prompt::new("x").max_budget_usd(1.0),
        Prompt::new("x").resume(Some("--last".to_owned())),
        Prompt::new("x").arguments(["--json"]),
    ] {
        let refused = task.execute(prompt).await;
        assert!(matches!(refused, Err(SandboxError::Spec(_))), "{refused:?}");
    }
    drop(task);
    let other = fixture.sandbox.create_task(fixture.spec.clone());
    assert!(other.is_err(), "a session of Codex is refused for Claude Code");
}

#[tokio::test]
async fn limits_and_variables_are_passed_to_the_program() {
    let fixture = Fixture::new().await;
    fixture.engine.then(Script::new().stdout(RESULT)).then(Script::new().stdout(RESULT));
    let task = fixture.sandbox.create_task(fixture.spec.clone().briefing(false)).unwrap();
    let prompt = Prompt::new("x").max_turns(NonZeroU32::new(3).unwrap()).max_budget_usd(2.5);
    task.execute(prompt).await.unwrap();
    let own = ContainerEnv::default().with("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "0");
    let other = fixture.sandbox.create_task(fixture.spec.clone().env(own)).unwrap();
    other.execute(Prompt::new("x")).await.unwrap();

    let programs = fixture.engine.programs();
    assert!(
        programs[0].command.ends_with(&["--max-turns", "3", "--max-budget-usd", "2.5"].map(str::to_owned))
    );
    for (program, expected) in programs.iter().zip(["1", "0"]) {
        let variables = program.env.variables();
        assert_eq!(variables["CLAUDE_CODE_DISABLE_BACKGROUND_TASKS"], expected);
        assert_eq!(variables["CLAUDE_CONFIG_DIR"], "/root/.claude");
    }
    for dollars in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let refused = task.execute(Prompt::new("x").max_budget_usd(dollars)).await;
        assert!(matches!(refused, Err(SandboxError::Spec(_))), "{refused:?}");
    }
}

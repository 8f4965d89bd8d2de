//! The report at the end of `agent`, as text and as JSON.

use std::borrow::Cow;

use claude_output::{ApiError, Usage};
use sandbox::network::Traffic;
use sandbox::{Agent, ExecutionResult, Outcome};
use serde::Serialize;

use crate::args::AgentOutput;
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::login_of;
use crate::workspace_copy::WorkspaceReport;

/// The document of `--output json`; `version` rises when a field changes its meaning or is removed.
#[derive(Debug, Serialize)]
struct AgentReport<'a> {
    version: u32,
    outcome: Outcome,
    session_id: Option<&'a str>,
    response_text: &'a str,
    error_summary: Option<&'a str>,
    /// The last API error that the agent reported, even if a later attempt succeeded.
    last_api_error: Option<&'a ApiError>,
    usage: &'a Usage,
    /// US dollars.
    cost: f64,
    turns: u64,
    /// The network traffic.
    traffic: Option<Traffic>,
    duration_ms: u64,
    exit_code: i64,
    /// The former paths of files that programs of the host would execute, which were moved away.
    tampered: Vec<String>,
    /// The number of events that the session lacks.
    missing_events: u64,
    /// The result of the changes in the copy of the work tree; `None` for the run of a bundle.
    workspace: Option<&'a WorkspaceReport>,
}

/// `is_bundle`: its session cannot be resumed here, and its files are not a project's.
pub(super) fn report(
    result: &ExecutionResult,
    agent: &Agent,
    output: AgentOutput,
    is_bundle: bool,
    printer: Printer,
) -> ExitStatus {
    match output {
        AgentOutput::Text if !printer.is_live() && !result.response_text.is_empty() => {
            printer.line(&result.response_text);
        }
        // The object is printed once the result of the changes is known.
        AgentOutput::Text | AgentOutput::Json | AgentOutput::StreamJson => {}
    }
    if !result.missing.is_none() && output != AgentOutput::Json {
        printer.warning(format_args!(
            "the session lacks {} events ({} bytes): there were too many",
            result.missing.events, result.missing.bytes
        ));
    }
    if result.outcome != Outcome::Success && output != AgentOutput::Json {
        let summary = result.error_summary.as_deref().unwrap_or("unknown reason");
        if is_missing(result, summary, agent) {
            printer.failure(&no_program(agent));
            return ExitStatus::NotFound;
        }
        let failure = Failure::new(format!("{}: {summary}", result.outcome.as_str()));
        printer.failure(&match hint(result.outcome, summary, agent, is_bundle) {
            Some(hint) => failure.with_hint(hint),
            None => failure,
        });
    }
    if output == AgentOutput::Text {
        // The streamed text already ended with the rest.
        let (turns, cost) =
            if printer.is_live() { (0, 0.0) } else { (result.num_turns, result.total_cost_usd) };
        printer.progress(&summary(result.session_id.as_deref(), turns, cost));
    }
    status(result.outcome, result.timed_out)
}

/// Whether the shell that starts the container did not find the agent.
fn is_missing(result: &ExecutionResult, summary: &str, agent: &Agent) -> bool {
    result.exit_code == 127
        && result.session_id.is_none()
        && summary.contains(&format!("{}: not found", agent.name()))
}

/// The image has no agent, and no program of the host was given.
pub(super) fn no_program(agent: &Agent) -> Failure {
    let (name, package) = (agent.name(), agent.npm_package());
    Failure::new(format!("the image has no `{name}`")).with_hint(format!(
        "mount the host's with --agent-bin \"$(which {name})\", or add `RUN npm install --global \
         {package}` to the image's Dockerfile"
    ))
}

/// A short summary of the execution: session, turns and cost.
fn summary(session: Option<&str>, turns: u64, cost: f64) -> String {
    let session = session.map(|id| format!("session {id}"));
    let turns = (turns > 0).then(|| format!("{turns} turn{}", if turns == 1 { "" } else { "s" }));
    let cost = (cost > 0.0).then(|| format!("${cost:.2} at list prices"));
    let parts: Vec<String> = [session, turns, cost].into_iter().flatten().collect();
    if parts.is_empty() { "no session".to_owned() } else { parts.join(", ") }
}

pub(in crate::commands) fn json(result: &ExecutionResult, workspace: Option<&WorkspaceReport>) -> String {
    let report = AgentReport {
        version: 1,
        outcome: result.outcome,
        session_id: result.session_id.as_deref(),
        response_text: &result.response_text,
        error_summary: result.error_summary.as_deref(),
        last_api_error: result.last_api_error.as_ref(),
        usage: &result.usage,
        cost: result.total_cost_usd,
        turns: result.num_turns,
        traffic: result.traffic,
        duration_ms: result.duration_ms,
        exit_code: result.exit_code,
        tampered: result
            .tampered
            .iter()
            .filter(|thing| !thing.is_left_in_place())
            .map(|thing| thing.path.display().to_string())
            .collect(),
        missing_events: result.missing.events,
        workspace,
    };
    // Serializing texts and numbers cannot fail.
    serde_json::to_string(&report).unwrap_or_default()
}

fn status(outcome: Outcome, timed_out: bool) -> ExitStatus {
    match outcome {
        // Even if the outcome states what it was waiting for.
        _ if timed_out => ExitStatus::Timeout,
        Outcome::Success => ExitStatus::Success,
        Outcome::RateLimited | Outcome::ApiUnavailable => ExitStatus::TryLater,
        _ => ExitStatus::Negative,
    }
}

fn hint(outcome: Outcome, summary: &str, agent: &Agent, is_bundle: bool) -> Option<Cow<'static, str>> {
    let hint = match outcome {
        Outcome::AuthenticationFailed if is_bundle => {
            Some("set the variables that `sandbox bundle show` lists to valid keys")
        }
        Outcome::RateLimited | Outcome::ApiUnavailable if is_bundle => {
            Some("run the bundle again later, with another --result")
        }
        _ if is_bundle => None,
        // The summary already names the fix.
        Outcome::BlockedByPolicy | Outcome::BudgetExhausted if summary.contains("network-allowlist.yaml") => {
            None
        }
        Outcome::BlockedByPolicy => {
            Some("`sandbox logs --blocked` shows the refused requests and the reasons")
        }
        Outcome::AuthenticationFailed => return Some(credentials(agent).into()),
        _ if summary.contains("/login") || summary.contains("API key") => {
            return Some(credentials(agent).into());
        }
        Outcome::PromptTooLong | Outcome::SessionCorrupted => Some("start a new session: omit --resume"),
        Outcome::RateLimited | Outcome::ApiUnavailable => {
            Some("try again later; `sandbox logs` shows the API's responses")
        }
        Outcome::Timeout => Some("raise the time limit with --timeout"),
        Outcome::TurnLimitReached | Outcome::BudgetExhausted => Some("continue with --resume"),
        Outcome::InvalidRequest => Some("the same call would fail again; check --model and the prompt"),
        Outcome::Killed if summary.contains("for want of memory") => {
            Some("raise `resource_limits.memory` in .sandbox/sandbox.yaml")
        }
        _ => None,
    };
    hint.map(Cow::Borrowed)
}

/// How to provide the agent's key.
pub(crate) fn credentials(agent: &Agent) -> String {
    let keys: Vec<&str> = agent.credentials().map(|(variable, _)| variable).collect();
    let login = login_of(agent).map(|login| {
        let hosts = login.injection().scopes;
        let hosts: Vec<_> = hosts.iter().map(ToString::to_string).collect();
        format!(
            "; with a subscription, write `logins: {{{}: {{}}}}` into .sandbox/sandbox.yaml, and allow {}",
            login.name(),
            hosts.join(" or ")
        )
    });
    format!(
        "export a valid key as {}: {agent} gets a surrogate of it; and allow {}{}",
        keys.join(" or "),
        agent.hosts().collect::<Vec<_>>().join(" or "),
        login.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_by_the_sandbox_is_not_attributed_to_credentials() {
        let refused = "API Error: 403 api.anthropic.com is not allowed: to allow it, add it in .sandbox/network-allowlist.yaml";
        let claude = Agent::default();
        let hint = |outcome, summary| hint(outcome, summary, &claude, false);
        assert_eq!(hint(Outcome::BlockedByPolicy, refused), None);
        assert!(hint(Outcome::BlockedByPolicy, "x").is_some_and(|hint| hint.contains("--blocked")));
        let keys = "export a valid key as ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN: Claude Code gets a surrogate of it; \
                    and allow api.anthropic.com; with a subscription, write `logins: {claude: {}}` into .sandbox/sandbox.yaml, \
                    and allow api.anthropic.com";
        assert_eq!(hint(Outcome::AuthenticationFailed, "API Error: 401").as_deref(), Some(keys));
        assert_eq!(
            hint(Outcome::ContainerFailed, "Not logged in · Please run /login").as_deref(),
            Some(keys)
        );
        assert_eq!(hint(Outcome::ContainerFailed, "crashed"), None);
    }

    #[test]
    fn outcomes_map_to_exit_codes() {
        for (outcome, timed_out, code) in [
            (Outcome::Success, false, 0),
            (Outcome::Timeout, true, 124),
            (Outcome::PromptTooLong, false, 1),
            (Outcome::RateLimited, false, 75),
            (Outcome::ApiUnavailable, false, 75),
            (Outcome::RateLimited, true, 124),
            (Outcome::Stalled, false, 1),
            (Outcome::Stopped, false, 1),
            (Outcome::ContainerFailed, false, 1),
        ] {
            assert_eq!(status(outcome, timed_out).code(), code, "{outcome:?}");
        }
    }
}

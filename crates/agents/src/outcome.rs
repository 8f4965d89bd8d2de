//! The outcome of an execution, derived from what Claude Code itself reports.
//!
//! Its own reports are: the error of a result event; a message that it wrote in place of the model;
//! a retry; a line of stderr; a line of stdout that is not JSON, the form of versions before
//! structured errors. Messages of the model, tool results and results that are not an error are
//! never considered. A result outranks lines of text: if it states how the run ended, noise on
//! stderr does not change that.

use std::time::Duration;

use claude_output::{ApiError, StreamEvent, extract_api_error, extract_result_summary};
use serde::{Deserialize, Serialize};

mod error_report;
mod summary;

use error_report::ErrorReport;

/// The outcome of an execution: the one value that a caller matches on.
///
#[doc = include_str!("../outcomes.md")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// Claude Code answered: its last result is not an error, and it ended with exit code 0, or was
    /// stopped after that result.
    Success,
    /// The time limit ended it. Its changes to the mounts remain.
    Timeout,
    /// The caller, or the end of the sandbox, stopped it.
    Stopped,
    /// It was stopped because it had reported nothing for the time in `TaskSpec::stall`.
    Stalled,
    /// The conversation no longer fits the model. Begin a fresh session.
    PromptTooLong,
    /// The API refused the credentials, or the account cannot pay. The same call fails again.
    AuthenticationFailed,
    /// The API asked to slow down. Try again later.
    RateLimited,
    /// The API failed or was unreachable. Try again later.
    ApiUnavailable,
    /// The API refused the conversation as it is. Begin a fresh session.
    SessionCorrupted,
    /// The API refused the request regardless of the session: an unknown model, for example. The
    /// same call fails again.
    InvalidRequest,
    /// The sandbox's own policy refused the request to the API. Allow it; the credentials are not
    /// the problem.
    BlockedByPolicy,
    /// It reached `Prompt::max_turns`. Resume the session to continue.
    TurnLimitReached,
    /// It reached `Prompt::max_budget_usd`. Resume the session to continue.
    BudgetExhausted,
    /// A signal that the sandbox did not send ended it: the kernel's for want of memory, or one
    /// from a process in the container.
    Killed,
    /// Everything else; the error summary has the reason.
    ContainerFailed,
}

/// Who ended the execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It ended, or a process in the container ended it.
    Itself,
    /// The sandbox did, at its time limit.
    Timeout,
    /// The sandbox did, on request.
    Stopped,
    /// The sandbox did, because it wrote more than is kept.
    OutputLimit,
    /// The sandbox did, because it had reported nothing for this time.
    Stalled(Duration),
    /// The sandbox did, because it continued for too long after its result.
    Answered,
}

/// The facts about an execution that has ended.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// Who ended it.
    pub ended: Ended,
    /// The exit code of the program; 128 plus the number of the signal that ended it.
    pub exit_code: i64,
    /// Whether the kernel killed it for want of memory.
    pub oom_killed: bool,
    /// Whether it resumed a session.
    pub resumes: bool,
    /// The events, in Claude Code's form.
    pub events: &'a [StreamEvent],
    /// The lines of stdout that are not JSON.
    pub text_lines: &'a [String],
    /// The complete stderr.
    pub stderr: &'a str,
}

impl Outcome {
    /// The name in JSON, such as `prompt_too_long`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Timeout => "timeout",
            Self::Stopped => "stopped",
            Self::Stalled => "stalled",
            Self::PromptTooLong => "prompt_too_long",
            Self::AuthenticationFailed => "authentication_failed",
            Self::RateLimited => "rate_limited",
            Self::ApiUnavailable => "api_unavailable",
            Self::SessionCorrupted => "session_corrupted",
            Self::InvalidRequest => "invalid_request",
            Self::BlockedByPolicy => "blocked_by_policy",
            Self::TurnLimitReached => "turn_limit_reached",
            Self::BudgetExhausted => "budget_exhausted",
            Self::Killed => "killed",
            Self::ContainerFailed => "container_failed",
        }
    }
}

impl Evidence<'_> {
    /// Classifies an execution: the first outcome that fits.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self.ended {
            Ended::Timeout => return self.waited_for_api().unwrap_or(Outcome::Timeout),
            Ended::Stalled(_) => return self.waited_for_api().unwrap_or(Outcome::Stalled),
            Ended::Stopped => return Outcome::Stopped,
            Ended::Itself | Ended::OutputLimit | Ended::Answered => {}
        }
        let ended_well = match self.ended {
            Ended::Answered => true,
            Ended::Itself => self.exit_code == 0,
            _ => false,
        };
        let report = match extract_result_summary(self.events) {
            Some(summary) if summary.error.is_none() && ended_well => return Outcome::Success,
            Some(summary) => ErrorReport::of_result(summary.error, self),
            // Without a result it was cut off, or is not Claude Code: regardless of its exit code,
            // it did not answer.
            None => ErrorReport::of_cut_off(self.api_error(), self),
        };
        report.outcome().unwrap_or(match self.signal() {
            Some(_) => Outcome::Killed,
            None => Outcome::ContainerFailed,
        })
    }

    /// The API error that no output of the model followed.
    fn api_error(&self) -> Option<ApiError> {
        extract_api_error(self.events).filter(|error| error.is_unresolved)
    }

    /// The outcome of the API errors because of which an execution was retrying when the sandbox
    /// ended it. A single error may be a hiccup that is unrelated to its end.
    fn waited_for_api(&self) -> Option<Outcome> {
        let error = self.api_error().filter(|error| error.in_a_row > 1)?;
        ErrorReport::of_cut_off(Some(error), self).outcome()
    }

    /// The signal that ended it, if the sandbox did not send it.
    fn signal(&self) -> Option<i64> {
        let signal = self.exit_code - 128;
        (self.ended == Ended::Itself && (1..=64).contains(&signal)).then_some(signal)
    }
}

#[cfg(test)]
mod tests;

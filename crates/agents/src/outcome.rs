//! What an execution came to, read from what Claude Code itself reports.
//!
//! Its own words are: the error of a result event; a message that it wrote in the place of the
//! model's; a retry; a line of stderr; a line of stdout that is not JSON, which is how versions
//! before the structured errors spoke. Messages of the model, tool results and results that are not
//! an error are never looked at. A result outranks lines of text: where one says how the run ended,
//! noise on stderr does not change it.

use std::time::Duration;

use claude_output::{ApiError, StreamEvent, extract_api_error, extract_result_summary};
use serde::Serialize;

mod complaint;
mod summary;

use complaint::Complaint;

/// What an execution came to: the one value that a caller matches on.
///
#[doc = include_str!("../outcomes.md")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// Claude Code answered: its last result is no error, and it ended with exit code 0, or was
    /// stopped after that result.
    Success,
    /// The time limit ended it. What it did to the mounts stays.
    Timeout,
    /// The caller, or the end of the sandbox, stopped it.
    Stopped,
    /// It was stopped since it had reported nothing for as long as `TaskSpec::stall` says.
    Stalled,
    /// The conversation no longer fits the model. Begin a fresh session.
    PromptTooLong,
    /// The API refused the credentials, or the account cannot pay. The same call fails again.
    AuthenticationFailed,
    /// The API asked to slow down. Try again later.
    RateLimited,
    /// The API failed or was out of reach. Try again later.
    ApiUnavailable,
    /// The API refused the conversation as it is. Begin a fresh session.
    SessionCorrupted,
    /// The API refused the request whatever the session: an unknown model, for example. The same
    /// call fails again.
    InvalidRequest,
    /// The sandbox's own policy refused the request to the API. Allow it; the credentials are not
    /// at fault.
    BlockedByPolicy,
    /// It reached `Prompt::max_turns`. Resume the session to go on.
    TurnLimitReached,
    /// It reached `Prompt::max_budget_usd`. Resume the session to go on.
    BudgetExhausted,
    /// A signal that was not ours ended it: the kernel's for want of memory, or one of something in
    /// the container.
    Killed,
    /// Everything else; the error summary has the words.
    ContainerFailed,
}

/// Who ended the execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It ended, or something in the container ended it.
    Itself,
    /// We did, at its time limit.
    Timeout,
    /// We did, because someone asked.
    Stopped,
    /// We did, because it wrote more than we keep.
    OutputLimit,
    /// We did, because it had reported nothing for so long.
    Stalled(Duration),
    /// We did, because it went on for too long after its result.
    Answered,
}

/// What is known of an execution that has ended.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// Who ended it.
    pub ended: Ended,
    /// The exit code of the program; 128 and the number of the signal that ended it.
    pub exit_code: i64,
    /// Whether the kernel killed it for want of memory.
    pub oom_killed: bool,
    /// Whether it went on with a session.
    pub resumes: bool,
    /// In Claude Code's form.
    pub events: &'a [StreamEvent],
    /// The lines of stdout that are no JSON.
    pub text_lines: &'a [String],
    /// All of it.
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
        let complaint = match extract_result_summary(self.events) {
            Some(summary) if summary.error.is_none() && ended_well => return Outcome::Success,
            Some(summary) => Complaint::of_result(summary.error, self),
            // Without a result it was cut off, or is not Claude Code: whatever its exit code, it
            // did not answer.
            None => Complaint::of_cut_off(self.api_error(), self),
        };
        complaint.outcome().unwrap_or(match self.signal() {
            Some(_) => Outcome::Killed,
            None => Outcome::ContainerFailed,
        })
    }

    /// The API error after which nothing of the model came.
    fn api_error(&self) -> Option<ApiError> {
        extract_api_error(self.events).filter(|error| error.is_unresolved)
    }

    /// What the API did to an execution that was waiting for it when we ended it. One error may be
    /// a hiccup that its end has nothing to do with.
    fn waited_for_api(&self) -> Option<Outcome> {
        let error = self.api_error().filter(|error| error.in_a_row > 1)?;
        Complaint::of_cut_off(Some(error), self).outcome()
    }

    /// The signal that ended it, where that was not ours.
    fn signal(&self) -> Option<i64> {
        let signal = self.exit_code - 128;
        (self.ended == Ended::Itself && (1..=64).contains(&signal)).then_some(signal)
    }
}

#[cfg(test)]
mod tests;

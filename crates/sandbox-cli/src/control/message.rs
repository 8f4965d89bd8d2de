//! The messages on the socket.

use std::time::{SystemTime, UNIX_EPOCH};

use allowlist::{Allowlist, RuleChange};
use sandbox::network;
use sandbox::network_event::{PolicyState, Verdict};
use serde::{Deserialize, Serialize};

use super::activity::ToolCall;
use crate::config::PolicySource;

/// The longest line, including its end.
pub(super) const LINE_BYTES: u64 = 16 * 1024 * 1024;

/// A request to a run.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Request {
    /// Report its state.
    Show {},
    /// Replace the policy.
    SetPolicy { policy: Allowlist },
    /// Change a rule of the policy in force.
    ChangeRule { change: Box<RuleChange> },
    /// Lower the shield for this time.
    Down { for_ms: u64 },
    /// Raise the shield.
    Up {},
    /// Refuse all requests from now on.
    Quarantine {},
    /// Answer a pending request. Fails if it is no longer pending, so that an answer never applies
    /// to another question.
    Decide {
        /// [`Question::id`].
        question: u64,
        verdict: Verdict,
    },
    /// Stop the run. The answer follows its end.
    Stop {},
    /// Attach to its output and input: after the answer, both sides send frames.
    Attach {},
    /// Run a command next to its program: after the answer, both sides send frames.
    Exec { program: Vec<String>, terminal: Option<ExecTerminal> },
}

/// The terminal that a command in a run gets.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExecTerminal {
    /// The value of `TERM`.
    pub(crate) kind: String,
    pub(crate) columns: u16,
    pub(crate) rows: u16,
}

/// The answer to a request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    /// Done; the run's new state.
    Done(Box<Report>),
    /// Failed, and why.
    Failed(String),
}

/// The state of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Report {
    /// The id of its instance, as `sandbox status` shows it.
    pub(crate) run: String,
    /// The process that holds it.
    pub(crate) pid: u32,
    /// The folder of its project.
    pub(crate) project: String,
    /// The program that runs.
    pub(crate) program: String,
    /// The state of its shield; `None` without a network sandbox, and while its program does not
    /// run.
    pub(crate) shield: Option<PolicyState>,
    /// When a lowered shield rises by itself, in milliseconds since the Unix epoch.
    pub(crate) until_ms: Option<u64>,
    /// Its policy; `None` without a network sandbox.
    pub(crate) policy: Option<Allowlist>,
    /// `None` if a change of its policy cannot be kept.
    #[serde(default)]
    pub(crate) policy_source: Option<PolicySource>,
    /// When it started, in milliseconds since the Unix epoch.
    #[serde(default)]
    pub(crate) started_ms: u64,
    /// How others attach to it; `None` if it uses the streams of the process that started it.
    #[serde(default)]
    pub(crate) screen: Option<ScreenReport>,
    /// The pending questions, oldest first; at most 16.
    #[serde(default)]
    pub(crate) questions: Vec<Question>,
    /// The last calls of tools by its agent, oldest first; at most 16.
    #[serde(default)]
    pub(crate) tools: Vec<ToolCall>,
    /// US dollars, at list prices, as its agent last reported them.
    #[serde(default)]
    pub(crate) cost: Option<f64>,
}

/// A pending request of the task that no rule permits. Its text comes from the task: show it
/// sanitised.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Question {
    /// Unique in this run.
    pub(crate) id: u64,
    pub(crate) method: String,
    /// The full URL with its query; host names in ASCII, as they are resolved.
    pub(crate) url: String,
    /// The rule that [`Verdict::Run`] and [`Verdict::Always`] add, in YAML: an entry of
    /// `url_prefixes`.
    pub(crate) rule: String,
    /// When it arrived, in milliseconds since the Unix epoch.
    pub(crate) asked_ms: u64,
    /// When it counts as answered with no, in milliseconds since the Unix epoch.
    pub(crate) until_ms: u64,
}

impl Question {
    pub(super) fn of(question: network::Question) -> Self {
        let since_epoch = |time: SystemTime| {
            let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        };
        Self {
            id: question.id,
            rule: question.rule.to_yaml(),
            asked_ms: since_epoch(question.asked),
            until_ms: since_epoch(question.until),
            method: question.method,
            url: question.url,
        }
    }
}

/// The screen to which clients can attach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ScreenReport {
    /// Whether its program has a terminal.
    pub(crate) terminal: bool,
    /// Whether a client is attached.
    pub(crate) attached: bool,
}

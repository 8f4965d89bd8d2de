//! What is said over the socket.

use std::time::{SystemTime, UNIX_EPOCH};

use allowlist::Allowlist;
use sandbox::network;
use sandbox::network_event::{PolicyState, Verdict};
use serde::{Deserialize, Serialize};

/// The longest line, its end included.
pub(super) const LINE_BYTES: u64 = 16 * 1024 * 1024;

/// What is asked of a run.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Request {
    /// How it is.
    Show {},
    /// A new policy.
    SetPolicy { policy: Allowlist },
    /// The own rules of one policy are to be added to the one in force, those of the other removed
    /// from it.
    ChangeRules { added: Allowlist, removed: Allowlist },
    /// The shield is to be down for so long.
    Down { for_ms: u64 },
    /// The shield is to be up.
    Up {},
    /// Nothing may be asked any more.
    Quarantine {},
    /// A request that waits is answered. Fails where it no longer waits, so that an answer is never
    /// taken for another question.
    Decide {
        /// [`Question::id`].
        question: u64,
        verdict: Verdict,
    },
    /// It is to end. The answer comes when it has.
    Stop {},
    /// What it writes is wanted, and it is to get what is typed: after the answer, both sides send
    /// frames.
    Attach {},
    /// A command is to run beside its program: after the answer, both sides send frames.
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

/// What became of it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    /// It was done, and this is how the run is now.
    Done(Report),
    /// It was not done.
    Failed(String),
}

/// How a run is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Report {
    /// The id of its instance, as `sandbox status` shows it.
    pub(crate) run: String,
    /// The process that holds it.
    pub(crate) pid: u32,
    /// The folder of its project.
    pub(crate) project: String,
    /// What runs.
    pub(crate) program: String,
    /// What decides about its requests; `None` where it has no network sandbox, or does not run yet
    /// or any more.
    pub(crate) shield: Option<PolicyState>,
    /// When a shield that is down goes up by itself, in milliseconds since the Unix epoch.
    pub(crate) until_ms: Option<u64>,
    /// Its policy; `None` where it has no network sandbox.
    pub(crate) policy: Option<Allowlist>,
    /// When it began, in milliseconds since the Unix epoch.
    #[serde(default)]
    pub(crate) started_ms: u64,
    /// How others attach to it; `None` where it has the streams of the process that started it.
    #[serde(default)]
    pub(crate) screen: Option<ScreenReport>,
    /// What waits for an answer, oldest first; at most 16.
    #[serde(default)]
    pub(crate) questions: Vec<Question>,
}

/// A request of the task that no rule permits, and that waits for an answer. What is asked for is
/// the task's text: show it sanitised.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Question {
    /// Of this run only.
    pub(crate) id: u64,
    pub(crate) method: String,
    /// In full, with its query; names in ASCII, as they are resolved.
    pub(crate) url: String,
    /// The rule that [`Verdict::Always`] adds, in YAML: an entry of `url_prefixes`.
    pub(crate) rule: String,
    /// When it came, in milliseconds since the Unix epoch.
    pub(crate) asked_ms: u64,
    /// When it counts as answered with no, likewise.
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

/// What a run has for those who attach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ScreenReport {
    /// Whether its program has a terminal.
    pub(crate) terminal: bool,
    /// Whether someone is attached.
    pub(crate) attached: bool,
}

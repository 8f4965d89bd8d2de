//! What is said over the socket.

use allowlist::Allowlist;
use sandbox::network_event::PolicyState;
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
    /// The shield is to be down for so long.
    Down { for_ms: u64 },
    /// The shield is to be up.
    Up {},
    /// Nothing may be asked any more.
    Quarantine {},
    /// It is to end. The answer comes when it has.
    Stop {},
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
    /// What decides about its requests; `None` where it has no network sandbox, or does not run yet or any more.
    pub(crate) shield: Option<PolicyState>,
    /// When a shield that is down goes up by itself, in milliseconds since the Unix epoch.
    pub(crate) until_ms: Option<u64>,
    /// Its policy; `None` where it has no network sandbox.
    pub(crate) policy: Option<Allowlist>,
}

//! The reaction to a silent agent.

use std::time::Duration;

/// The reaction when Claude Code has reported nothing for the time of
/// [`TaskSpec::stall`](crate::TaskSpec::stall).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnStall {
    /// Sends an event, `EventKind::Stalled`, once for each silence.
    Report,
    /// Sends that event and stops Claude Code: [`Outcome::Stalled`](crate::Outcome::Stalled).
    Stop,
}

/// The longest permitted silence, and the reaction to a longer one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stall {
    pub(crate) after: Duration,
    pub(crate) then: OnStall,
}

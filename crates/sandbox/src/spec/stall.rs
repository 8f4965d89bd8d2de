//! What happens when Claude Code reports nothing for long.

use std::time::Duration;

/// What is done when Claude Code has reported nothing for the time of
/// [`TaskSpec::stall`](crate::TaskSpec::stall).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnStall {
    /// There is an event, `EventKind::Stalled`, once for each silence.
    Report,
    /// There is that event, and Claude Code is stopped:
    /// [`Outcome::Stalled`](crate::Outcome::Stalled).
    Stop,
}

/// How long is too long, and what is done then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stall {
    pub(crate) after: Duration,
    pub(crate) then: OnStall,
}

//! What decides about the requests of a running execution.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sandbox_proxy_protocol::{Event, PolicyChange, PolicyState};

/// What decides about the requests of a running execution, as its proxy reported last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShieldState {
    /// The policy.
    #[default]
    Up,
    /// Any public host may be asked.
    Down {
        /// When that ends by itself, by the clock of the wall; the proxy goes by one that no one
        /// sets.
        until: SystemTime,
    },
    /// Nothing: every request is refused, until the execution ends.
    Quarantined,
}

impl ShieldState {
    /// What a record says of it, and what was done; `None` for a record of something else.
    pub(super) fn of(event: &Event) -> Option<(PolicyChange, Self)> {
        let Event::Policy { change, state, until_ms } = event else {
            return None;
        };
        let until = UNIX_EPOCH.checked_add(Duration::from_millis(until_ms.unwrap_or_default()));
        let state = match state {
            PolicyState::Up => Self::Up,
            PolicyState::Down => Self::Down { until: until.unwrap_or(UNIX_EPOCH) },
            PolicyState::Quarantine => Self::Quarantined,
        };
        Some((*change, state))
    }
}

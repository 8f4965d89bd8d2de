//! The state of a running execution's shield.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sandbox_proxy_protocol::{Event, PolicyChange, PolicyState};

/// The state of a running execution's shield, as its proxy reported it last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShieldState {
    /// The policy decides about requests.
    #[default]
    Up,
    /// Any public host can be reached.
    Down {
        /// When the proxy raises it by itself, in wall-clock time; the proxy uses a monotonic
        /// clock.
        until: SystemTime,
    },
    /// Every request is refused, until the execution ends.
    Quarantined,
}

impl ShieldState {
    /// The state and the change in a record; `None` for a record of another kind.
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

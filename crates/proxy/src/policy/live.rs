//! The policy and the credentials in force: the control channel changes them, and every request
//! reads them.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use allowlist::Allowlist;
use sandbox_proxy_protocol::{
    BlockReason, Event, LONGEST_DOWN_MS, PolicyChange, PolicyState, ReplacementMap,
};
use tokio::time::Instant;

use super::blocked::Blocked;
use crate::credential::Vault;

/// The policy that the gate applies now. It is shared through a [`tokio::sync::watch`] channel, so
/// that a change is in force for the next request and a connection can wait until it is to be cut.
#[derive(Debug, Clone)]
pub(crate) struct LivePolicy {
    /// The rules of the policy.
    pub(crate) allowlist: Arc<Allowlist>,
    /// The task's credentials.
    pub(crate) vault: Arc<Vault>,
    /// Every request is refused, regardless of the allowlist. Never cleared.
    pub(crate) quarantined: bool,
    /// The owner is silent, so the records may not be read: every request is refused until it sends
    /// another line.
    pub(crate) unattended: bool,
    /// How many times connections had to be cut.
    pub(crate) cuts: u64,
    /// Requests to any public host are permitted until then.
    down: Option<Down>,
}

/// The end of the time that the shield is down.
#[derive(Debug, Clone, Copy)]
struct Down {
    /// The end that counts, on a clock that nobody can set.
    end: Instant,
    /// The end that is displayed, in milliseconds since the Unix epoch.
    until_ms: u64,
}

impl LivePolicy {
    /// The policy that a proxy starts with; there are no credentials yet.
    pub(crate) fn new(allowlist: Allowlist) -> Self {
        Self {
            allowlist: Arc::new(allowlist),
            vault: Arc::new(Vault::new(&ReplacementMap::default())),
            quarantined: false,
            unattended: false,
            cuts: 0,
            down: None,
        }
    }

    /// Replaces the real values of the credentials.
    pub(crate) fn renew(&mut self, replacements: &ReplacementMap) {
        self.vault = Arc::new(self.vault.renewed(replacements));
    }

    /// The reason why nothing is permitted, regardless of the allowlist; `None` if the allowlist
    /// decides.
    pub(crate) fn closed(&self) -> Option<Blocked> {
        if self.quarantined {
            return Some(Blocked::new(
                BlockReason::Quarantine,
                "the operator has cut this task off from the network: stop and report this",
            ));
        }
        self.unattended.then(|| {
            Blocked::new(
                BlockReason::Limit,
                "the sandbox does not read the records of this task: try again later",
            )
        })
    }

    /// Refuses everything from now on, and cuts connections in progress.
    pub(crate) fn quarantine(&mut self) {
        self.quarantined = true;
        self.down = None;
        self.cuts += 1;
    }

    /// The owner has been silent for too long.
    pub(crate) fn neglect(&mut self) {
        self.unattended = true;
        self.cuts += 1;
    }

    /// Opens every public host for `for_ms`, regardless of the time that was left; does nothing in
    /// a quarantine.
    pub(crate) fn lower(&mut self, for_ms: u64) {
        if self.quarantined {
            return;
        }
        let time = Duration::from_millis(for_ms.min(LONGEST_DOWN_MS));
        let until =
            SystemTime::now().checked_add(time).and_then(|until| until.duration_since(UNIX_EPOCH).ok());
        let until_ms = until.and_then(|until| u64::try_from(until.as_millis()).ok()).unwrap_or_default();
        self.down = Instant::now().checked_add(time).map(|end| Down { end, until_ms });
    }

    /// Closes public hosts again, so that the policy alone decides.
    pub(crate) fn raise(&mut self) {
        self.down = None;
    }

    /// Whether requests to any public host are permitted now. The time ends by the clock, whether
    /// or not anything was woken at its end.
    pub(crate) fn is_down(&self) -> bool {
        self.down.is_some_and(|down| Instant::now() < down.end)
    }

    /// When the shield goes up by itself.
    pub(crate) fn down_end(&self) -> Option<Instant> {
        self.down.map(|down| down.end)
    }

    /// The record of `change`, which has already been made.
    pub(crate) fn event(&self, change: PolicyChange) -> Event {
        let state = match self.down {
            _ if self.quarantined => PolicyState::Quarantine,
            Some(_) => PolicyState::Down,
            None => PolicyState::Up,
        };
        Event::Policy { change, state, until_ms: self.down.map(|down| down.until_ms) }
    }
}

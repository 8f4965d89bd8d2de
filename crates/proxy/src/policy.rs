//! The policy in force: what the control channel changes and every request reads.

use std::sync::Arc;

use allowlist::Allowlist;
use sandbox_proxy_protocol::BlockReason;

use crate::blocked::Blocked;

/// The policy that the gate applies now. It travels in a [`tokio::sync::watch`] channel, so that a change is in force for the next
/// request and a connection can wait until it is to be cut.
#[derive(Debug, Clone)]
pub(crate) struct LivePolicy {
    /// What the task may reach.
    pub(crate) allowlist: Arc<Allowlist>,
    /// Every request is refused, whatever the allowlist says. Nothing ever clears it.
    pub(crate) quarantined: bool,
    /// The owner says nothing, so the records may not be read: every request is refused until it speaks again.
    pub(crate) unattended: bool,
    /// How often connections were to be cut.
    pub(crate) cuts: u64,
}

impl LivePolicy {
    /// The policy that a proxy starts with.
    pub(crate) fn new(allowlist: Allowlist) -> Self {
        Self { allowlist: Arc::new(allowlist), quarantined: false, unattended: false, cuts: 0 }
    }

    /// Why nothing passes, whatever the allowlist says, if nothing does.
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

    /// Refuses everything from now on, and cuts what is in progress.
    pub(crate) fn quarantine(&mut self) {
        self.quarantined = true;
        self.cuts += 1;
    }

    /// The owner has said nothing for too long.
    pub(crate) fn neglect(&mut self) {
        self.unattended = true;
        self.cuts += 1;
    }
}

//! The policy in force: what the control channel changes and every request reads.

use std::sync::Arc;

use allowlist::Allowlist;

/// What the gate goes by at this moment. It travels in a [`tokio::sync::watch`] channel, so that a change is in force for the next
/// request and a connection can wait for a quarantine.
#[derive(Debug, Clone)]
pub(crate) struct LivePolicy {
    /// What the task may reach.
    pub(crate) allowlist: Arc<Allowlist>,
    /// Every request is refused, whatever the allowlist says. Nothing ever clears it.
    pub(crate) quarantined: bool,
}

impl LivePolicy {
    /// The policy that a proxy starts with.
    pub(crate) fn new(allowlist: Allowlist) -> Self {
        Self {
            allowlist: Arc::new(allowlist),
            quarantined: false,
        }
    }
}

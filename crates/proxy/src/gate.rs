//! The gate: the only place that asks the policy, and the only maker of permits.
//!
//! Invariant: whoever holds a [`Permit`] holds the very request that was permitted, so nothing else can be forwarded with it.

use allowlist::{Decision, HostName, Match, Request, RuleKind};
use tokio::sync::watch;

use crate::blocked::Blocked;
use crate::policy::LivePolicy;

/// Judges requests by the policy of the moment.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    policy: watch::Receiver<LivePolicy>,
}

/// Proof that the policy permitted this request.
#[derive(Debug)]
pub(crate) struct Permit {
    request: Request,
    rule: Match,
    method_counts: bool,
    path_counts: bool,
}

impl Gate {
    /// A gate that follows `policy`.
    pub(crate) fn new(policy: watch::Receiver<LivePolicy>) -> Self {
        Self { policy }
    }

    /// Permits `request`, or says why not.
    ///
    /// # Errors
    ///
    /// The policy's denial; during a quarantine, or while the records are not read, a denial that says so.
    pub(crate) fn admit(&self, request: Request) -> Result<Permit, Blocked> {
        let policy = self.policy.borrow().clone();
        if let Some(denial) = policy.closed() {
            return Err(denial);
        }
        let allowlist = policy.allowlist;
        match allowlist.decide(&request) {
            Decision::Allow(rule) => {
                let method_counts = allowlist.has_method_rules_for(request.host());
                // Rules for whole hosts are looked at first.
                let path_counts = rule.kind == RuleKind::Url && allowlist.has_path_rules_for(request.host());
                Ok(Permit { request, rule, method_counts, path_counts })
            }
            Decision::Deny(denial) => Err(denial.into()),
        }
    }

    /// Why nothing passes at all, if nothing does.
    pub(crate) fn closed(&self) -> Option<Blocked> {
        self.policy.borrow().closed()
    }

    /// A watch for a quarantine, or an owner that falls silent, from now on: later requests are refused by [`Gate::admit`].
    pub(crate) fn watch(&self) -> QuarantineWatch {
        let policy = self.policy.clone();
        let seen = policy.borrow().cuts;
        QuarantineWatch { policy, seen }
    }
}

/// Sees a quarantine begin, or an owner fall silent. One watch covers the whole life of a connection, so that none begins unseen
/// between two phases of it.
#[derive(Debug)]
pub(crate) struct QuarantineWatch {
    policy: watch::Receiver<LivePolicy>,
    /// Cuts when the watch was made.
    seen: u64,
}

impl QuarantineWatch {
    /// Ends when the connection is to be cut, at once if that was since the watch was made and before the call.
    pub(crate) async fn begun(&mut self) {
        let seen = self.seen;
        // An error means that the policy can no longer change.
        if self.policy.wait_for(|policy| policy.cuts > seen).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Permit {
    /// What may be asked.
    pub(crate) fn request(&self) -> &Request {
        &self.request
    }

    /// Who may be asked.
    pub(crate) fn host(&self) -> &HostName {
        self.request.host()
    }

    /// The rule that permits it.
    pub(crate) fn rule(&self) -> &Match {
        &self.rule
    }

    /// Whether rules of this host distinguish methods, so that none may hide in a header.
    pub(crate) fn method_counts(&self) -> bool {
        self.method_counts
    }

    /// Whether rules of this host distinguish paths, so that none may hide in a header.
    pub(crate) fn path_counts(&self) -> bool {
        self.path_counts
    }
}

#[cfg(test)]
mod tests {
    use allowlist::{Allowlist, Reason, Scheme};
    use futures_util::FutureExt;
    use sandbox_proxy_protocol::BlockReason;

    use super::*;

    fn ask(gate: &Gate) -> Result<(), BlockReason> {
        let request = Request::from_wire(Scheme::Https, b"a.example", b"GET", b"/").unwrap();
        gate.admit(request).map(|_| ()).map_err(|denial| denial.reason())
    }

    #[tokio::test]
    async fn the_gate_follows_the_policy_until_quarantine() {
        let policy = |yaml: &str| Allowlist::from_yaml(yaml, "policy.yaml").unwrap();
        let (live, receiver) = watch::channel(LivePolicy::new(Allowlist::default()));
        let gate = Gate::new(receiver);
        assert_eq!(ask(&gate), Err(Reason::Host.into()));
        live.send_replace(LivePolicy::new(policy("domains: [a.example]")));
        assert_eq!(ask(&gate), Ok(()));
        let mut watch = gate.watch();
        assert!(watch.begun().now_or_never().is_none());
        live.send_modify(LivePolicy::neglect);
        assert_eq!(ask(&gate), Err(BlockReason::Limit));
        watch.begun().await;
        let mut watch = gate.watch();
        assert!(watch.begun().now_or_never().is_none());
        live.send_modify(|policy| policy.unattended = false);
        assert_eq!(ask(&gate), Ok(()));
        assert!(watch.begun().now_or_never().is_none());
        live.send_modify(LivePolicy::quarantine);
        assert_eq!(ask(&gate), Err(BlockReason::Quarantine));
        watch.begun().await;
        watch.begun().await;
        assert!(gate.watch().begun().now_or_never().is_none());
    }
}

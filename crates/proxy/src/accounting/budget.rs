//! How much of its policy's budget a task has used.

use std::sync::atomic::{AtomicU64, Ordering};

use allowlist::Budget;
use sandbox_proxy_protocol::{BlockReason, Tokens, Traffic};
use tokio::sync::watch;

use crate::policy::{Blocked, LivePolicy};

/// How much a task has used so far, and the policy that bounds it.
#[derive(Debug)]
pub(crate) struct Spending {
    policy: watch::Receiver<LivePolicy>,
    requests: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
    input_tokens: AtomicU64,
    output_tokens: AtomicU64,
}

impl Spending {
    /// Nothing is used yet; the budget is always that of the `policy` in force.
    pub(crate) fn new(policy: watch::Receiver<LivePolicy>) -> Self {
        Self {
            policy,
            requests: AtomicU64::default(),
            sent: AtomicU64::default(),
            received: AtomicU64::default(),
            input_tokens: AtomicU64::default(),
            output_tokens: AtomicU64::default(),
        }
    }

    /// Takes one request.
    ///
    /// # Errors
    ///
    /// If any part of the budget is used up.
    pub(crate) fn take_request(&self) -> Result<(), Blocked> {
        let budget = self.budget();
        for (used, limit, name, unit) in [
            (&self.sent, budget.sent, "sent", "bytes sent"),
            (&self.received, budget.received, "received", "bytes received"),
            (&self.input_tokens, budget.input_tokens, "input_tokens", "input tokens"),
            (&self.output_tokens, budget.output_tokens, "output_tokens", "output tokens"),
        ] {
            if let Some(limit) = limit.filter(|limit| used.load(Ordering::Relaxed) >= *limit) {
                return Err(used_up(limit, name, unit));
            }
        }
        let limit = budget.requests.unwrap_or(u64::MAX);
        let take = |used: u64| (used < limit).then(|| used + 1);
        match self.requests.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(_) => Ok(()),
            Err(_) => Err(used_up(limit, "requests", "requests")),
        }
    }

    /// Counts bytes of the body of a request that are about to be sent.
    ///
    /// # Errors
    ///
    /// If they exceed the budget: they must not be sent.
    pub(crate) fn send(&self, bytes: u64) -> Result<(), Blocked> {
        let limit = self.budget().sent;
        exceed(add(&self.sent, bytes), limit, "sent", "bytes sent")
    }

    /// Counts bytes of the body of a response that are about to be forwarded.
    ///
    /// # Errors
    ///
    /// If they exceed the budget: they must not be forwarded.
    pub(crate) fn receive(&self, bytes: u64) -> Result<(), Blocked> {
        let limit = self.budget().received;
        exceed(add(&self.received, bytes), limit, "received", "bytes received")
    }

    /// Counts tokens that a response reports.
    pub(crate) fn report(&self, tokens: Tokens) {
        add(&self.input_tokens, tokens.input);
        add(&self.output_tokens, tokens.output);
    }

    /// The current numbers.
    pub(crate) fn traffic(&self) -> Traffic {
        let load = |used: &AtomicU64| used.load(Ordering::Relaxed);
        Traffic {
            requests: load(&self.requests),
            bytes_up: load(&self.sent),
            bytes_down: load(&self.received),
            tokens: Tokens { input: load(&self.input_tokens), output: load(&self.output_tokens) },
        }
    }

    /// Whether the policy has a budget.
    pub(crate) fn is_bounded(&self) -> bool {
        self.budget() != Budget::default()
    }

    /// Whether responses must be read for reported tokens.
    pub(crate) fn bounds_tokens(&self) -> bool {
        self.budget().bounds_tokens()
    }

    fn budget(&self) -> Budget {
        self.policy.borrow().allowlist.budget()
    }
}

/// The sum, which saturates: an upstream may report any number.
fn add(used: &AtomicU64, more: u64) -> u64 {
    let sum = |used: u64| Some(used.saturating_add(more));
    let before = used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum);
    before.unwrap_or_else(|before| before).saturating_add(more)
}

fn exceed(used: u64, limit: Option<u64>, name: &str, unit: &str) -> Result<(), Blocked> {
    match limit {
        Some(limit) if used > limit => Err(used_up(limit, name, unit)),
        _ => Ok(()),
    }
}

fn used_up(limit: u64, name: &str, unit: &str) -> Blocked {
    Blocked::new(
        BlockReason::Budget,
        format!(
            "this task has used up its budget of {limit} {unit}: to allow more, raise `budget.{name}` in \
             .sandbox/network-allowlist.yaml"
        ),
    )
}

#[cfg(test)]
mod tests {
    use allowlist::Allowlist;

    use super::*;

    fn spending(budget: &str) -> (watch::Sender<LivePolicy>, Spending) {
        let (live, policy) = watch::channel(policy(budget));
        (live, Spending::new(policy))
    }

    fn policy(budget: &str) -> LivePolicy {
        LivePolicy::new(Allowlist::from_yaml(&format!("budget: {budget}"), "policy.yaml").unwrap())
    }

    #[test]
    fn request_budget_is_exact_and_a_new_policy_may_raise_it() {
        let (live, spending) = spending("{requests: 2}");
        assert!(spending.take_request().is_ok() && spending.take_request().is_ok());
        let refused = spending.take_request().unwrap_err();
        assert_eq!(refused.reason(), BlockReason::Budget);
        assert!(refused.message().contains("2 requests") && refused.message().contains("`budget.requests`"));
        let set = |budget| live.send_modify(|live| live.allowlist = policy(budget).allowlist);
        set("{requests: 3}");
        assert!(spending.take_request().is_ok() && spending.take_request().is_err());
        set("{}");
        assert!(spending.take_request().is_ok());
    }

    #[test]
    fn bytes_over_budget_are_refused_and_then_every_request() {
        let (_live, spending) = spending("{sent: 10b, received: 1k}");
        assert!(spending.send(10).is_ok());
        assert!(spending.take_request().unwrap_err().message().contains("10 bytes sent"));
        assert!(spending.send(1).is_err());
        assert!(spending.receive(1024).is_ok() && spending.receive(1).is_err());
    }

    #[test]
    fn requests_are_refused_once_reported_tokens_reach_the_budget() {
        let (_live, spending) = spending("{output_tokens: 100}");
        spending.report(Tokens { input: u64::MAX, output: 99 });
        assert!(spending.bounds_tokens() && spending.take_request().is_ok());
        spending.report(Tokens { input: 1, output: u64::MAX });
        assert!(spending.take_request().unwrap_err().message().contains("100 output tokens"));
    }

    #[test]
    fn nothing_is_refused_without_a_budget() {
        let (_live, spending) = spending("{}");
        spending.report(Tokens { input: u64::MAX, output: u64::MAX });
        assert!(spending.send(u64::MAX).is_ok() && spending.receive(u64::MAX).is_ok());
        assert!(spending.take_request().is_ok() && !spending.bounds_tokens());
    }
}

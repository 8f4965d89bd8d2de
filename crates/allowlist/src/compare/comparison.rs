//! The difference of two policies, as a value.

use serde::Serialize;

use crate::budget::Budget;
use crate::matched::Match;
use crate::vendor_tools::VendorTools;

/// The difference between two policies, as [`Allowlist::compare`](crate::Allowlist::compare) finds it.
///
/// Rules of `deny`, settings for vendor tools and budgets are compared as values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Comparison {
    /// The rules of the second policy by which it allows requests that the first blocks, or bodies of
    /// pushes that the first blocks.
    pub newly_allowed: Vec<Difference>,
    /// The rules of the first policy by which it allows what the second blocks.
    pub newly_blocked: Vec<Difference>,
    /// The rules of `deny` that only the second policy has.
    pub newly_denied: Vec<Difference>,
    /// The rules of `deny` that only the first policy has.
    pub no_longer_denied: Vec<Difference>,
    /// Rules of which it is not known whether they belong to `newly_allowed` or `newly_blocked`.
    pub undecided: Vec<Undecided>,
    /// The settings for vendor tools, if they differ.
    pub vendor_tools: Option<Change<VendorTools>>,
    /// The budget, if it differs.
    pub budget: Option<Change<Budget>>,
    /// Whether bodies of requests to models' vendors may be judged differently, since vendor tools may
    /// reach what the policies allow. This is not compared.
    pub bodies_may_differ: bool,
}

/// A rule that makes a difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Difference {
    /// The rule.
    pub rule: Match,
    /// A request that it allows or blocks and that the other policy does not; `None` for a rule of
    /// `deny` if none was found.
    pub example: Option<Example>,
}

/// A request that two policies judge differently.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Example {
    /// Its method.
    pub method: String,
    /// Its URL.
    pub url: String,
    /// Its body, if only that makes the difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<ExampleBody>,
}

/// The body of a push.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ExampleBody {
    /// The ref of this full name is created, or gets more commits.
    Update(String),
    /// It loses commits.
    Force(String),
    /// It is deleted.
    Delete(String),
    /// Anything but a push.
    Unreadable,
}

/// A rule whose effect is not decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Undecided {
    /// The rule.
    pub rule: Match,
    /// Whether it is a rule of the second policy, which may newly allow requests; otherwise
    /// requests may be newly blocked that it allows.
    pub allows: bool,
    /// The reason.
    pub reason: Doubtful,
}

/// The reason why the effect of a rule is not decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Doubtful {
    /// Requests with encoded characters could get another decision than all others.
    Encoding,
    /// Rules of `deny` or the check of vendor tools refuse the requests that were tried.
    Refused,
    /// The patterns can be combined in too many ways.
    TooLarge,
    /// Rules for repositories differ at hosts of models' vendors, which is not compared.
    VendorPush,
}

/// A setting of two policies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Change<T> {
    /// In the first policy.
    pub from: T,
    /// In the second policy.
    pub to: T,
}

impl Comparison {
    /// Whether both policies are known to be the same.
    #[must_use]
    pub fn is_same(&self) -> bool {
        !self.differs() && self.undecided.is_empty() && !self.bodies_may_differ
    }

    /// Whether some difference is known.
    #[must_use]
    pub fn differs(&self) -> bool {
        let rules = [&self.newly_allowed, &self.newly_blocked, &self.newly_denied, &self.no_longer_denied];
        rules.iter().any(|rules| !rules.is_empty()) || self.vendor_tools.is_some() || self.budget.is_some()
    }
}

impl<T: Clone + PartialEq> Change<T> {
    pub(super) fn between(from: &T, to: &T) -> Option<Self> {
        (from != to).then(|| Self { from: from.clone(), to: to.clone() })
    }
}

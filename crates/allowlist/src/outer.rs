//! Policies outside of another, which can only narrow what it allows.

use crate::budget::Budget;
use crate::decision::Decision;
use crate::denial::Denial;
use crate::host::HostName;
use crate::policy::Allowlist;
use crate::policy::OuterPolicy;
use crate::request::Request;

impl Allowlist {
    /// The same policy within `outer`, which `document` names in messages: what either refuses is
    /// refused, whatever else allows it, also an answer to a question, an audit or an open shield.
    /// An outer policy that it already has is ignored.
    ///
    /// ```
    /// use allowlist::Allowlist;
    ///
    /// let outer = Allowlist::from_yaml("domains: ['*.example']", "company.yaml")?;
    /// let policy = Allowlist::from_yaml("domains: [a.example, b.test]", "policy.yaml")?;
    /// let policy = policy.within("company.yaml", outer);
    /// assert!(policy.judge("GET", "https://a.example/").is_allowed());
    /// assert!(!policy.judge("GET", "https://b.test/").is_allowed());
    /// # Ok::<(), allowlist::InvalidFile>(())
    /// ```
    #[must_use]
    pub fn within(self, document: impl Into<String>, outer: Self) -> Self {
        self.within_all([OuterPolicy::new(document, outer)])
    }

    /// The same policy, also within these. See [`within`](Self::within).
    #[must_use]
    pub fn within_all(mut self, outer: impl IntoIterator<Item = OuterPolicy>) -> Self {
        let known = self.outer_mut();
        for outer in outer {
            if !known.contains(&outer) {
                known.push(outer);
            }
        }
        self
    }

    /// The same policy without outer ones.
    #[must_use]
    pub fn alone(mut self) -> Self {
        self.outer_mut().clear();
        self
    }

    /// The denial by the first outer policy that refuses `request`, regardless of its body.
    #[must_use]
    pub fn refused_outside(&self, request: &Request) -> Option<Denial> {
        self.outer().iter().find_map(|outer| match outer.policy.decide(request) {
            Decision::Deny(denial) => Some(denial.outside(&outer.document)),
            Decision::Allow(_) | Decision::NeedsBody(_) => None,
        })
    }

    /// The limits on one execution's use of allowed hosts: of each, the lowest of its own and those
    /// of outer policies.
    #[must_use]
    pub fn budget(&self) -> Budget {
        self.outer().iter().fold(*self.own_budget(), |budget, outer| budget.lowest(outer.policy.budget()))
    }

    /// Whether a model's vendor answers at `host`, by its own settings or those of an outer policy.
    pub(crate) fn concerns_vendor(&self, host: &HostName) -> bool {
        self.vendor_tools().concerns(host)
            || self.outer().iter().any(|outer| outer.policy.concerns_vendor(host))
    }
}

#[cfg(test)]
mod tests;

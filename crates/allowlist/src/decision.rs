//! What the policy says of a request.

use serde::Deserialize;
use serde::Serialize;

use crate::denial::Denial;
use crate::rule::RuleKind;

/// The answer to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Decision {
    /// A rule matches.
    Allow(Match),
    /// No rule matches.
    Deny(Denial),
}

impl Decision {
    /// Whether a rule matches.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allow(_))
    }
}

/// The rule that allows a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Match {
    /// The list it is in.
    pub kind: RuleKind,
    /// Its index in that list, from 0.
    pub index: usize,
    /// Its host pattern in canonical form.
    pub host: String,
    /// Its path pattern, empty for any path; none for a rule of `domains`.
    pub path: Option<String>,
}

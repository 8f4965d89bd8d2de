//! What the policy says of a request.

use crate::body_check::BodyCheck;
use crate::denial::Denial;
use crate::matched::Match;

/// The answer to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Decision {
    /// A rule matches.
    Allow(Match),
    /// Rules match, and what they allow depends on the request's body: nothing may be sent before
    /// the check says so.
    NeedsBody(BodyCheck),
    /// No rule matches.
    Deny(Denial),
}

impl Decision {
    /// Whether a rule matches, whatever the body holds.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allow(_))
    }
}

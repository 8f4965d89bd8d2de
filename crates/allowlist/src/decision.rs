//! The policy's answer to a request.

use crate::body_check::BodyCheck;
use crate::denial::Denial;
use crate::matched::Match;

/// The answer to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Decision {
    /// A rule matches.
    Allow(Match),
    /// Rules match, but the decision depends on the request body: nothing may be sent before the
    /// check allows it.
    NeedsBody(BodyCheck),
    /// No rule matches.
    Deny(Denial),
}

impl Decision {
    /// Whether a rule matches, regardless of the body.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allow(_))
    }
}

//! Which rule allows a request.

use serde::Deserialize;
use serde::Serialize;

use crate::rule::RuleKind;

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

//! Which rule allows or denies a request.

use std::fmt;

use serde::Deserialize;
use serde::Serialize;

use crate::rule::RuleKind;

/// The rule that allows a request, or denies it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Match {
    /// The list that contains it.
    pub kind: RuleKind,
    /// Its index in that list, from 0: of the policy, or of its preset.
    pub index: usize,
    /// Its preset; `None` for a rule of the policy itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// Its host pattern in canonical form.
    pub host: String,
    /// Its path pattern, empty for any path; `None` for a rule for all of its hosts.
    pub path: Option<String>,
}

/// For people: `domains[0]: a.example`, `preset github, url_prefixes[5]: api.github.com`.
impl fmt::Display for Match {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(preset) = &self.preset {
            write!(formatter, "preset {preset}, ")?;
        }
        let path = self.path.as_deref().unwrap_or_default();
        write!(formatter, "{}[{}]: {}{path}", self.kind.list(), self.index, self.host)
    }
}

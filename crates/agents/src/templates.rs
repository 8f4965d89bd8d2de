//! The arguments of a profile, with placeholders.

use serde::Deserialize;

/// The arguments of a profile. Their placeholders are `{session}`, `{model}`, `{folder}`, the
/// working directory, and `{json}`, a quoted text.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Templates {
    pub(super) first: Vec<String>,
    /// After these, if a variable contains the agent's key, and if none does.
    pub(super) with_key: Vec<String>,
    pub(super) without_key: Vec<String>,
    /// After everything else, in a fresh session.
    pub(super) last: Vec<String>,
    /// The same for a resumed session.
    pub(super) resumed: Vec<String>,
    pub(super) model: Vec<String>,
    /// Empty if the agent has no option for it: then the prompt begins with the briefing.
    pub(super) briefing: Vec<String>,
    /// Options that a caller must not pass.
    pub(super) ours: Vec<String>,
}

//! The arguments of a profile, with placeholders.

use serde::Deserialize;

/// The arguments of a profile. Their placeholders are `{session}`, `{model}`, `{folder}`, in which
/// it begins, and `{json}`, a text in quotes.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Templates {
    pub(super) first: Vec<String>,
    /// After these, where a variable has its key, and where none has.
    pub(super) with_key: Vec<String>,
    pub(super) without_key: Vec<String>,
    /// After everything else, in a fresh session.
    pub(super) last: Vec<String>,
    /// The same where a session goes on.
    pub(super) resumed: Vec<String>,
    pub(super) model: Vec<String>,
    /// Empty where it has no option for it: then the prompt begins with the briefing.
    pub(super) briefing: Vec<String>,
    /// What a caller must not give.
    pub(super) ours: Vec<String>,
}

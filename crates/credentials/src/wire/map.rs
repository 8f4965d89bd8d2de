//! A replacement map with its real values.

use crate::SecretReplacements;
use crate::replacement::Replacement;

/// What a [`SecretReplacements`] holds, for the proxy. Its JSON holds the real values and goes over the proxy's control channel only.
///
/// The JSON is keyed by surrogate. For a masked secret there are `value`, `scopes` and `headers`, and of
/// [`Injection`](crate::Injection)'s other fields those that are not the default; for a signing credential `type` is `aws-sigv4`, the key
/// is the surrogate of the access key id, and both session tokens are there or neither. `surrogate_secret_access_key` may be missing,
/// and so may `allow_foreign_credentials`, which is false then. Unknown keys are errors, and no error quotes anything of the document.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReplacementMap(pub SecretReplacements);

impl ReplacementMap {
    /// Each surrogate (of a signing credential: the surrogate of the access key id) and what takes its place.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Replacement)> {
        self.0.iter()
    }
}

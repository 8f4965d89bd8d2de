//! A key that requests are signed with.

use allowlist::HostName;
use http::HeaderName;
use sandbox_credentials::SecretValue;
use sandbox_credentials::wire::SigningReplacement;

use super::entry::FORMER;

/// The headers that carry the token of a temporary key.
pub(super) const TOKENS: [HeaderName; 2] =
    [HeaderName::from_static("x-amz-security-token"), HeaderName::from_static("x-amz-s3session-token")];

/// A key's surrogate id, and the key.
pub(super) struct Key {
    index: usize,
    surrogate: String,
    replacement: SigningReplacement,
    /// The former keys, the latest first.
    former: Vec<SigningReplacement>,
}

impl Key {
    /// `None` for an empty surrogate, which a request without a key would have.
    pub(super) fn new(index: usize, surrogate: &str, replacement: &SigningReplacement) -> Option<Self> {
        (!surrogate.is_empty()).then(|| Self {
            index,
            surrogate: surrogate.to_owned(),
            replacement: replacement.clone(),
            former: Vec::new(),
        })
    }

    /// Remembers the keys of `before`, if that is the same entry with another key.
    pub(super) fn follow(&mut self, before: &Self) {
        if before.surrogate == self.surrogate {
            let keys = std::iter::once(&before.replacement).chain(&before.former);
            self.former = keys.filter(|key| **key != self.replacement).take(FORMER).cloned().collect();
        }
    }

    /// Its place among all replacements.
    pub(super) fn index(&self) -> usize {
        self.index
    }

    /// Its name in records.
    pub(super) fn name(&self) -> &str {
        &self.replacement.name
    }

    /// Whether requests to `host` are signed with it.
    pub(super) fn is_for(&self, host: &HostName) -> bool {
        self.replacement.scopes.iter().any(|scope| scope.matches(host))
    }

    /// Whether requests to its hosts may carry another party's credential.
    pub(super) fn allows_foreign(&self) -> bool {
        self.replacement.allow_foreign_credentials
    }

    /// The id that the container has.
    pub(super) fn surrogate(&self) -> &str {
        &self.surrogate
    }

    /// The key itself.
    pub(super) fn replacement(&self) -> &SigningReplacement {
        &self.replacement
    }

    /// All parts of the key and of the former ones, each with the container's surrogate for it.
    pub(super) fn secrets(&self) -> impl Iterator<Item = (SecretValue, String)> {
        let keys = std::iter::once(&self.replacement).chain(&self.former);
        keys.flat_map(|key| {
            let id = (key.access_key_id.clone(), self.surrogate.clone());
            let secret = (key.secret_access_key.clone(), key.surrogate_secret_access_key.clone());
            [id, secret].into_iter().chain(key.session_token.clone())
        })
    }
}

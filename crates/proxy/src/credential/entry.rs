//! A masked secret, and where it may be sent.

use allowlist::HostName;
use http::HeaderName;
use sandbox_credentials::wire::MaskedReplacement;
use sandbox_credentials::{Injection, SecretValue};
use sandbox_proxy_protocol::Scheme;

/// How many former values responses are still searched for: values older than these are no longer
/// valid.
pub(super) const FORMER: usize = 4;

/// A surrogate, the real value, and where the real value may be sent.
pub(super) struct Entry {
    index: usize,
    name: String,
    surrogate: String,
    value: SecretValue,
    /// The former real values, the latest first.
    former: Vec<SecretValue>,
    injection: Injection,
}

impl Entry {
    /// `None` for an empty surrogate, which would be found everywhere, or an empty value.
    pub(super) fn new(index: usize, surrogate: &str, replacement: &MaskedReplacement) -> Option<Self> {
        (!surrogate.is_empty() && !replacement.value.is_empty()).then(|| Self {
            index,
            name: replacement.name.clone(),
            surrogate: surrogate.to_owned(),
            value: replacement.value.clone(),
            former: Vec::new(),
            injection: replacement.injection.clone(),
        })
    }

    /// Remembers the values of `before`, if that is the same entry with another value.
    pub(super) fn follow(&mut self, before: &Self) {
        if before.surrogate == self.surrogate {
            let values = std::iter::once(&before.value).chain(&before.former);
            self.former = values.filter(|value| **value != self.value).take(FORMER).cloned().collect();
        }
    }

    /// Its place among all replacements.
    pub(super) fn index(&self) -> usize {
        self.index
    }

    /// Its name in records.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whether requests to `host` may carry it.
    pub(super) fn is_for(&self, host: &HostName) -> bool {
        self.injection.scopes.iter().any(|scope| scope.matches(host))
    }

    /// Whether it may be sent over `scheme`.
    pub(super) fn travels_by(&self, scheme: Scheme) -> bool {
        scheme == Scheme::Https || self.injection.allow_plaintext
    }

    /// Whether the header `name`, in lower case, may carry it.
    pub(super) fn covers(&self, name: &str) -> bool {
        self.injection.headers.iter().any(|header| header.matches(name))
    }

    /// Whether it covers `name` by a pattern with wildcards.
    pub(super) fn covers_by_wildcard(&self, name: &str) -> bool {
        let mut wildcards = self.injection.headers.iter().filter(|header| !header.is_exact());
        wildcards.any(|header| header.matches(name))
    }

    /// Whether it names exactly this header.
    pub(super) fn names(&self, name: &str) -> bool {
        let mut exact = self.injection.headers.iter().filter(|header| header.is_exact());
        exact.any(|header| header.matches(name))
    }

    /// The headers that it names exactly.
    pub(super) fn named(&self) -> impl Iterator<Item = HeaderName> {
        let exact = self.injection.headers.iter().filter(|header| header.is_exact());
        exact.filter_map(|header| HeaderName::from_bytes(header.as_str().as_bytes()).ok())
    }

    /// Whether headers that it names may carry another party's credentials.
    pub(super) fn allows_foreign(&self) -> bool {
        self.injection.allow_foreign_credentials
    }

    /// Whether responses may contain the real value.
    pub(super) fn allows_echo(&self) -> bool {
        self.injection.allow_echo
    }

    /// Whether `credential`, as a request carries it, is the surrogate.
    pub(super) fn is_held_as(&self, credential: &[u8]) -> bool {
        credential == self.surrogate.as_bytes()
    }

    /// Whether it may be sent next to `half`, the other half of a `Basic` pair.
    pub(super) fn fits_next_to(&self, half: &[u8]) -> bool {
        let Some(wanted) = &self.injection.basic_user else {
            return true;
        };
        std::str::from_utf8(half).is_ok_and(|half| wanted.matches(half))
    }

    /// The real value and the former ones, each with the container's surrogate for it.
    pub(super) fn secrets(&self) -> impl Iterator<Item = (SecretValue, String)> {
        let values = std::iter::once(&self.value).chain(&self.former);
        values.map(|value| (value.clone(), self.surrogate.clone()))
    }

    /// The real value.
    pub(super) fn value(&self) -> &SecretValue {
        &self.value
    }
}

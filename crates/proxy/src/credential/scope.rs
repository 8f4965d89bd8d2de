//! The entries that concern one request: those whose scopes contain its host.

use http::HeaderName;
use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, HOST, TE, TRANSFER_ENCODING, UPGRADE,
};
use sandbox_credentials::SecretValue;
use sandbox_proxy_protocol::Scheme;

use super::entry::Entry;
use super::find::Division;
use super::key::{Key, TOKENS};
use crate::headers::is_same;

/// Headers that determine the recipient of a message or its framing: they never carry a credential,
/// even if a pattern covers them.
const NEVER: [HeaderName; 7] = [HOST, CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION, UPGRADE, TE, EXPECT];

/// Whether the header must never carry a credential.
fn is_never(name: &HeaderName) -> bool {
    NEVER.iter().any(|never| is_same(name.as_str(), never.as_str()))
}

/// The entries in scope of one request.
pub(super) struct Scope<'a> {
    pub(super) masked: Vec<&'a Entry>,
    pub(super) keys: Vec<&'a Key>,
    pub(super) scheme: Scheme,
}

impl<'a> Scope<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.masked.is_empty() && self.keys.is_empty()
    }

    /// The entries whose real values the header may carry over this scheme.
    pub(super) fn carried_by(&self, name: &HeaderName) -> Vec<&'a Entry> {
        if is_never(name) {
            return Vec::new();
        }
        let entries = self.masked.iter().copied();
        entries.filter(|entry| entry.covers(name.as_str()) && entry.travels_by(self.scheme)).collect()
    }

    /// How the header is divided into credentials, if `entries` may be in it.
    pub(super) fn division(&self, name: &HeaderName, entries: &[&'a Entry]) -> Division<'a> {
        if *name == COOKIE {
            return Division::Cookies;
        }
        // In a header from which foreign credentials are stripped, no credential may be next to
        // another.
        if self.strips(name) {
            return Division::One;
        }
        let mut loose = entries.to_vec();
        loose.retain(|entry| entry.covers_by_wildcard(name.as_str()));
        Division::List(loose)
    }

    /// Whether the header is removed unless something in it was replaced: one entry that names it,
    /// or one key, that allows nothing foreign is enough.
    pub(super) fn strips(&self, name: &HeaderName) -> bool {
        let mut strict = self.masked.iter().filter(|entry| !entry.allows_foreign());
        let named = !is_never(name) && strict.any(|entry| entry.names(name.as_str()));
        named || (is_of_keys(name) && self.strips_signatures())
    }

    /// Whether signatures that were not created with one of the keys are removed.
    pub(super) fn strips_signatures(&self) -> bool {
        self.keys.iter().any(|key| !key.allows_foreign())
    }

    /// The headers that entries name, and those that belong to keys: no trailer may have these
    /// names.
    pub(super) fn named(&self) -> Vec<HeaderName> {
        let of_keys = (!self.keys.is_empty()).then(|| [AUTHORIZATION].into_iter().chain(TOKENS));
        let named = self.masked.iter().flat_map(|entry| entry.named());
        named.chain(of_keys.into_iter().flatten()).collect()
    }

    /// Whether responses have to be searched.
    pub(super) fn scrubs(&self) -> bool {
        self.secrets().next().is_some()
    }

    /// The values that responses must not contain, each with the container's surrogate for it.
    pub(super) fn secrets(&self) -> impl Iterator<Item = (SecretValue, String)> {
        let masked = self.masked.iter().filter(|entry| !entry.allows_echo());
        masked.flat_map(|entry| entry.secrets()).chain(self.keys.iter().flat_map(|key| key.secrets()))
    }

    /// The places of these entries among all replacements.
    pub(super) fn indices(&self) -> Vec<usize> {
        let masked = self.masked.iter().map(|entry| entry.index());
        masked.chain(self.keys.iter().map(|key| key.index())).collect()
    }
}

/// Whether it is one of the headers that a key authorises requests with.
fn is_of_keys(name: &HeaderName) -> bool {
    *name == AUTHORIZATION || TOKENS.iter().any(|token| is_same(name.as_str(), token.as_str()))
}

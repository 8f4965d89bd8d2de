//! All credentials of a task, ready to be put into requests.

use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use allowlist::HostName;
use http::{HeaderMap, HeaderName};
use lru::LruCache;
use sandbox_credentials::SecretValue;
use sandbox_credentials::wire::{Replacement, ReplacementMap};
use sandbox_proxy_protocol::Scheme;

use super::claimed::{Claimed, claim, sign};
use super::clock_skew::ClockSkew;
use super::entry::Entry;
use super::error::CredentialError;
use super::key::Key;
use super::plan::{Plan, Wire};
use super::replace::replace;
use super::scope::Scope;
use crate::fields::only;
use crate::scrub::{self, Needles};
use crate::signing::{Carrier, Request, without_signature};

/// The number of sets of entries whose needles are cached.
const NEEDLE_SETS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(63);

/// The real values of a task's credentials, and where they may be sent.
pub(crate) struct Vault {
    masked: Vec<Entry>,
    keys: Vec<Key>,
    /// The needles that responses are searched for, by the entries in scope. The lock is held for a
    /// lookup, or while one set is built, but not while a request's own needles are built, whose
    /// size the task chooses.
    needles: Mutex<LruCache<Vec<usize>, Arc<Needles>>>,
    clock_skew: ClockSkew,
}

impl Vault {
    /// A vault of `replacements`.
    pub(crate) fn new(replacements: &ReplacementMap) -> Self {
        Self::of(replacements.iter())
    }

    /// The vault of `replacements`, which replace its own. It still searches for the former real
    /// values, which may be valid for a while.
    pub(crate) fn renewed(&self, replacements: &ReplacementMap) -> Self {
        let mut vault = Self::new(replacements);
        for entry in &mut vault.masked {
            self.masked.iter().for_each(|before| entry.follow(before));
        }
        for key in &mut vault.keys {
            self.keys.iter().for_each(|before| key.follow(before));
        }
        vault
    }

    pub(super) fn of<'a>(replacements: impl IntoIterator<Item = (&'a str, &'a Replacement)>) -> Self {
        let mut vault = Self {
            masked: Vec::new(),
            keys: Vec::new(),
            needles: Mutex::new(LruCache::new(NEEDLE_SETS)),
            clock_skew: ClockSkew::new(),
        };
        for (index, (surrogate, replacement)) in replacements.into_iter().enumerate() {
            match replacement {
                Replacement::Masked(masked) => vault.masked.extend(Entry::new(index, surrogate, masked)),
                Replacement::Signing(key) => vault.keys.extend(Key::new(index, surrogate, key)),
            }
        }
        vault
    }

    /// The plan for the request `wire`. The request stays unchanged if no credential has its host
    /// in scope.
    ///
    /// # Errors
    ///
    /// If not everything that the request carries can be replaced: then it must not be sent.
    pub(crate) fn plan(&self, wire: Wire<'_>) -> Result<Plan, CredentialError> {
        if self.masked.is_empty() && self.keys.is_empty() {
            return Ok(Plan::untouched(wire.headers));
        }
        let scope = self.scope(wire.host, wire.scheme);
        if scope.is_empty() {
            return Ok(Plan::untouched(wire.headers));
        }
        self.plan_in(&scope, wire)
    }

    fn scope(&self, host: &HostName, scheme: Scheme) -> Scope<'_> {
        Scope {
            masked: self.masked.iter().filter(|entry| entry.is_for(host)).collect(),
            keys: self.keys.iter().filter(|key| key.is_for(host)).collect(),
            scheme,
        }
    }

    fn plan_in(&self, scope: &Scope<'_>, wire: Wire<'_>) -> Result<Plan, CredentialError> {
        let replaced = replace(wire.headers, scope)?;
        let mut plan = Plan {
            dropped: replaced.dropped,
            no_trailers: scope.named(),
            ..Plan::untouched(HeaderMap::new())
        };
        let (mut headers, mut used) = (replaced.headers, replaced.used);
        let claimed = claim(&headers, wire.target, scope)?;
        if let Claimed::Foreign(claim) = &claimed {
            let (left, target) = without_signature(claim.as_ref(), &headers, wire.target);
            headers = left;
            plan.target = (target != wire.target).then_some(target);
            plan.dropped += 1;
        }
        // Before the request is signed again, so that the signature covers the headers that are
        // sent.
        let ours = [replaced.names, claimed.headers()].concat();
        let (mut headers, stripped) = strip(headers, scope, &ours);
        plan.dropped += stripped;
        if scope.scrubs() {
            scrub::limit_encodings(&mut headers);
            plan.scrub = Some(self.needles(scope, replaced.sent.into_iter()));
        }
        plan.headers = headers;
        if let Claimed::Ours(claim, key) = &claimed {
            plan.warnings.extend(claim.time().and_then(|signed| {
                let lasting = claim.carrier() == Carrier::Query;
                self.clock_skew.look(wire.host, signed, wire.now, lasting)
            }));
            plan.region = claim.region().map(ToOwned::to_owned);
            used.push(key.name());
            let request = Request {
                method: wire.method,
                host: wire.host.as_str(),
                target: wire.target,
                headers: std::mem::take(&mut plan.headers),
            };
            (plan.headers, plan.target, plan.body) = sign(claim, key, request)?;
        }
        plan.masked = u32::try_from(used.len()).unwrap_or(u32::MAX);
        let used: BTreeSet<&str> = used.into_iter().filter(|name| !name.is_empty()).collect();
        plan.credentials = used.into_iter().map(str::to_owned).collect();
        Ok(plan)
    }

    /// The needles that the response is searched for: the values in scope, and `sent`, which
    /// contains them in encoded form.
    fn needles(
        &self,
        scope: &Scope<'_>,
        sent: impl ExactSizeIterator<Item = (SecretValue, String)>,
    ) -> Arc<Needles> {
        let needles = self.known_needles(scope);
        if sent.len() == 0 { needles } else { Arc::new(needles.with_sent(sent)) }
    }

    fn known_needles(&self, scope: &Scope<'_>) -> Arc<Needles> {
        let mut known = self.needles.lock().unwrap_or_else(PoisonError::into_inner);
        let needles = known.get_or_insert(scope.indices(), || {
            let signing = scope.keys.iter().flat_map(|key| key.secrets());
            Arc::new(Needles::new(scope.secrets()).with_bytes(signing))
        });
        Arc::clone(needles)
    }
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Vault({} masked, {} keys)", self.masked.len(), self.keys.len())
    }
}

/// The headers without those that `scope` strips and in which nothing was replaced, and how many
/// lines were removed. `ours` are the headers in which something was replaced, or will be.
fn strip(headers: HeaderMap, scope: &Scope<'_>, ours: &[HeaderName]) -> (HeaderMap, u32) {
    let foreign = |name: &HeaderName| !ours.contains(name) && scope.strips(name);
    if !headers.keys().any(foreign) {
        return (headers, 0);
    }
    let kept = only(&headers, |name| !foreign(name));
    let dropped = u32::try_from(headers.len() - kept.len()).unwrap_or(u32::MAX);
    (kept, dropped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needles_of_a_request_are_prepared_outside_the_lock() {
        let map = r#"{"ghp_SURROGATE": {"value": "ghp_RealValueA", "scopes": ["a.example"], "headers": ["authorization"]}}"#;
        let vault = Vault::new(&serde_json::from_str(map).unwrap());
        let host = HostName::from_wire(b"a.example").unwrap();
        let scope = vault.scope(&host, Scheme::Https);
        let mut prepared = 0;
        let sent = vec![(SecretValue::new("sent value"), "surrogate".to_owned())];
        let sent = sent.into_iter().inspect(|_| {
            prepared += 1;
            assert!(vault.needles.try_lock().is_ok());
        });
        vault.needles(&scope, sent);
        assert_eq!(prepared, 1);
    }
}

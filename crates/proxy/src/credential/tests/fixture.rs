//! Entries, headers and the resulting plan.

use std::time::SystemTime;

use allowlist::{HostName, HostPattern};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue};
use sandbox_credentials::wire::{MaskedReplacement, Replacement};
use sandbox_credentials::{HeaderPattern, Injection, SecretValue};
use sandbox_proxy_protocol::Scheme;

use crate::credential::{CredentialError, Plan, Vault, Wire};

pub(super) const SURROGATE: &str = "ghp_SurrogateA";
pub(super) const REAL: &str = "ghp_RealValueA";
pub(super) const OTHER: &str = "ghp_SurrogateB";
pub(super) const OTHER_REAL: &str = "ghp_RealValueB";

pub(super) type Entry = (&'static str, Replacement);

/// An entry for `a.example`.
pub(super) fn entry(
    surrogate: &'static str,
    real: &str,
    headers: &[&str],
    change: impl FnOnce(&mut Injection),
) -> Entry {
    let mut injection = Injection {
        scopes: vec![HostPattern::new("a.example").unwrap()],
        headers: headers.iter().map(|name| HeaderPattern::new(name).unwrap()).collect(),
        ..Injection::default()
    };
    change(&mut injection);
    let (name, value) = (format!("{surrogate}'s name"), SecretValue::new(real));
    (surrogate, Replacement::Masked(MaskedReplacement { name, value, injection }))
}

pub(super) fn as_it_is(_: &mut Injection) {}

/// The usual: `SURROGATE` in `authorization`, strictly.
pub(super) fn usual() -> Vec<Entry> {
    vec![entry(SURROGATE, REAL, &["Authorization"], as_it_is)]
}

pub(super) fn map(lines: &[(&str, &str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in lines {
        map.append(
            HeaderName::from_bytes(name.as_bytes()).unwrap(),
            HeaderValue::from_bytes(value.as_bytes()).unwrap(),
        );
    }
    map
}

pub(super) fn lines(map: &HeaderMap) -> Vec<String> {
    map.iter().map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes()))).collect()
}

pub(super) fn plan_for(
    entries: &[Entry],
    scheme: Scheme,
    host: &str,
    headers: HeaderMap,
) -> Result<Plan, CredentialError> {
    plan_to(entries, scheme, host, "/path?q=1", headers)
}

pub(super) fn plan_to(
    entries: &[Entry],
    scheme: Scheme,
    host: &str,
    target: &str,
    headers: HeaderMap,
) -> Result<Plan, CredentialError> {
    let vault = Vault::of(entries.iter().map(|(surrogate, replacement)| (*surrogate, replacement)));
    vault.plan(Wire {
        scheme,
        host: &HostName::from_wire(host.as_bytes()).unwrap(),
        method: "GET",
        target,
        headers,
        now: SystemTime::UNIX_EPOCH,
    })
}

pub(super) fn plan(entries: &[Entry], headers: &[(&str, &str)]) -> Plan {
    plan_for(entries, Scheme::Https, "a.example", map(headers)).unwrap()
}

/// Checks what one header becomes; `None` if it is removed.
#[track_caller]
pub(super) fn check(entries: &[Entry], name: &str, value: &str, expected: Option<&str>) {
    let plan = plan(entries, &[("x-before", "1"), (name, value), ("x-after", "2")]);
    let line = expected.map(|value| format!("{name}: {value}"));
    let mut whole = vec!["x-before: 1".to_owned()];
    whole.extend(line);
    whole.push("x-after: 2".to_owned());
    assert_eq!(lines(&plan.headers), whole, "{name}: {value}");
    let expected_counts = match expected {
        None => (0, 1),
        Some(expected) if expected == value => (0, 0),
        Some(_) => (1, 0),
    };
    assert_eq!((plan.masked, plan.dropped), expected_counts, "{name}: {value}");
}

pub(super) fn basic(pair: &str) -> String {
    format!("Basic {}", BASE64_STANDARD.encode(pair))
}

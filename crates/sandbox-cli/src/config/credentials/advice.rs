//! Warnings about entries that are valid but probably a mistake.

use allowlist::{Allowlist, HostName, HostPattern};

use super::entry::CredentialsFile;
use crate::config::Environment;
use located_yaml::Location;

/// A warning about a credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Advice {
    pub(crate) location: Location,
    pub(crate) message: String,
}

impl CredentialsFile {
    /// Problems that a task will have with these credentials under `policy`.
    pub(crate) fn advice(&self, environment: &Environment, policy: &Allowlist) -> Vec<Advice> {
        let empty = self.masked.iter().filter_map(|entry| {
            let value = entry.value.resolve(environment).ok()?;
            value.is_empty().then(|| Advice {
                location: entry.value.location().clone(),
                message: format!("`{}` is empty, so the task gets an empty value", entry.variable),
            })
        });
        let scopes = self.scopes().flat_map(|(name, location, scopes)| {
            let messages = [everywhere(name, scopes), nowhere(name, scopes, policy)];
            messages.into_iter().flatten().map(|message| Advice { location: location.clone(), message })
        });
        empty.chain(scopes).collect()
    }

    /// The secrets that are in the file itself.
    pub(crate) fn literals(&self) -> Vec<Advice> {
        let literals = self.sources().filter(|source| source.is_literal());
        let advice = |location: &Location| Advice {
            location: location.clone(),
            message: "this file contains a secret in plain text: keep this file out of version control, or \
                      write `!env NAME`, `!command`, `!file` or `!keyring`"
                .to_owned(),
        };
        literals.map(|source| advice(source.location())).collect()
    }

    /// Each credential by its name, with its place and its hosts.
    pub(crate) fn scopes(&self) -> impl Iterator<Item = (&str, &Location, &[HostPattern])> {
        let masked = self.masked.iter().map(|entry| {
            let scopes = entry.injection.scopes.as_slice();
            (entry.variable.as_str(), &entry.location, scopes)
        });
        let signing =
            self.signing.iter().map(|entry| (entry.name.as_str(), &entry.location, entry.scopes.as_slice()));
        let logins = self.logins.iter().map(|entry| {
            let scopes = entry.injection.scopes.as_slice();
            (entry.kind.name(), &entry.location, scopes)
        });
        masked.chain(signing).chain(logins)
    }
}

fn everywhere(name: &str, scopes: &[HostPattern]) -> Option<String> {
    let wide = scopes.iter().find(|scope| scope.as_str().bytes().all(|byte| b"*.".contains(&byte)))?;
    Some(format!(
        "`{name}` is sent to every host that the allowlist permits, because its scope is `{wide}`: name the intended hosts"
    ))
}

fn nowhere(name: &str, scopes: &[HostPattern], policy: &Allowlist) -> Option<String> {
    let reaches = |scope: &HostPattern| policy.rules().iter().any(|rule| may_meet(scope, rule.host()));
    if scopes.iter().any(reaches) {
        return None;
    }
    let hosts: Vec<&str> = scopes.iter().map(HostPattern::as_str).collect();
    Some(format!("`{name}` is sent to {} only, which the allowlist does not permit", hosts.join(", ")))
}

/// Whether a host may match both; two patterns with wildcards are assumed to overlap.
fn may_meet(one: &HostPattern, other: &HostPattern) -> bool {
    let covers = |wide: &HostPattern, exact: &HostPattern| {
        HostName::from_wire(exact.as_str().as_bytes()).is_ok_and(|host| wide.matches(&host))
    };
    match (one.is_exact(), other.is_exact()) {
        (true, _) => covers(other, one),
        (false, true) => covers(one, other),
        (false, false) => true,
    }
}

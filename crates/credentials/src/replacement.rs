//! The replacement map: surrogate to real value.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use allowlist::HostPattern;

use crate::{Injection, Preset, SecretValue};

/// Minimum length in bytes of a value that is searched for in other texts.
const SHORTEST_SOUGHT: usize = 8;

/// The proxy's replacements of surrogates. Cheap to clone; `Debug` shows only their number.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SecretReplacements(Arc<BTreeMap<String, Replacement>>);

impl SecretReplacements {
    pub(crate) fn new(entries: BTreeMap<String, Replacement>) -> Self {
        Self(Arc::new(entries))
    }

    /// Each surrogate (for a signing credential: that of the access key id) and its replacement.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Replacement)> {
        self.0.iter().map(|(surrogate, replacement)| (surrogate.as_str(), replacement))
    }

    /// Replaces the real value of `surrogate` with `value`. `false` if there is no such surrogate.
    pub(crate) fn renew(&mut self, surrogate: &str, value: SecretValue) -> bool {
        for (held, entry) in Arc::make_mut(&mut self.0) {
            let part = match entry {
                Replacement::Masked(masked) => (held == surrogate).then_some(&mut masked.value),
                Replacement::Signing(key) => key.part(held, surrogate),
            };
            if let Some(part) = part {
                *part = value;
                return true;
            }
        }
        false
    }

    /// The surrogate of a credential whose real value is in `text`, if any: a party that gets the
    /// surrogate must not get the value in another way. For a signing credential it is that of the
    /// access key id. Values of fewer than 8 bytes are not searched for: they occur in many texts
    /// by chance.
    #[must_use]
    pub fn surrogate_of(&self, text: &str) -> Option<&str> {
        let is_present =
            |value: &SecretValue| value.expose().len() >= SHORTEST_SOUGHT && text.contains(value.expose());
        let entry = self.iter().find(|(_, replacement)| match replacement {
            Replacement::Masked(masked) => is_present(&masked.value),
            Replacement::Signing(key) => {
                let token = key.session_token.as_ref().map(|(token, _)| token);
                [&key.access_key_id, &key.secret_access_key].into_iter().chain(token).any(is_present)
            }
        });
        entry.map(|(surrogate, _)| surrogate)
    }

    /// The hosts that receive a masked secret as git's password over HTTPS, according to the
    /// presets for GitHub and GitLab: those that are named without a wildcard, except for those of
    /// an API. Each host once.
    #[must_use]
    pub fn git_hosts(&self) -> Vec<GitHost<'_>> {
        let users = [(Preset::Github, "x-access-token"), (Preset::Gitlab, "oauth2")]
            .map(|(preset, user)| (preset.injection().basic_user, user));
        let mut hosts = Vec::<GitHost<'_>>::new();
        for (surrogate, replacement) in self.iter() {
            let Replacement::Masked(MaskedReplacement { injection, .. }) = replacement else { continue };
            let Some((_, user)) = users.iter().find(|(wanted, _)| *wanted == injection.basic_user) else {
                continue;
            };
            for scope in injection.scopes.iter().filter(|scope| scope.is_exact()) {
                let host = scope.as_str();
                let is_api = host.starts_with("api.") || host.starts_with("uploads.");
                if !is_api && hosts.iter().all(|known| known.host != host) {
                    hosts.push(GitHost { host, user, surrogate });
                }
            }
        }
        hosts
    }

    /// Whether there is nothing to replace.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for SecretReplacements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretReplacements({} entries)", self.0.len())
    }
}

/// A host that git reaches over HTTPS with a masked secret: see [`SecretReplacements::git_hosts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct GitHost<'a> {
    /// Its name.
    pub host: &'a str,
    /// The user for the secret.
    pub user: &'static str,
    /// The surrogate of the secret in the container.
    pub surrogate: &'a str,
}

/// The replacement of one surrogate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Replacement {
    /// A value in a header.
    Masked(MaskedReplacement),
    /// A key that requests are signed with again.
    Signing(SigningReplacement),
}

/// The real value of a masked secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaskedReplacement {
    /// The name of the secret, for records of its use. Empty if unknown.
    pub name: String,
    /// The real value.
    pub value: SecretValue,
    /// The places for it.
    pub injection: Injection,
}

/// The real key of a signing credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningReplacement {
    /// The name of the credential, for records of its use. Empty if unknown.
    pub name: String,
    /// The real access key id.
    pub access_key_id: SecretValue,
    /// The real secret access key.
    pub secret_access_key: SecretValue,
    /// The surrogate of the secret access key; only needed to scrub responses.
    pub surrogate_secret_access_key: String,
    /// The real session token of a temporary key, and its surrogate.
    pub session_token: Option<(SecretValue, String)>,
    /// The hosts whose requests are signed again.
    pub scopes: Vec<HostPattern>,
    /// Whether requests to these hosts may carry another party's credential. Default false: see
    /// [`SigningCredential::allow_foreign_credentials`](crate::SigningCredential::allow_foreign_credentials).
    pub allow_foreign_credentials: bool,
}

impl SigningReplacement {
    /// The part that `surrogate` represents; that of the access key id is `held`.
    fn part(&mut self, held: &str, surrogate: &str) -> Option<&mut SecretValue> {
        if held == surrogate {
            return Some(&mut self.access_key_id);
        }
        if self.surrogate_secret_access_key == surrogate {
            return Some(&mut self.secret_access_key);
        }
        self.session_token.as_mut().filter(|(_, held)| held == surrogate).map(|(token, _)| token)
    }
}

#[cfg(test)]
mod tests {
    use crate::{MaskedSecret, prepare_secrets};

    use super::*;

    fn masked(name: &str, preset: Preset, hosts: &[&str]) -> MaskedSecret {
        let scopes = hosts.iter().map(|host| HostPattern::new(host).unwrap()).collect();
        let injection = preset.injection();
        let injection = if hosts.is_empty() { injection } else { Injection { scopes, ..injection } };
        MaskedSecret::new(name, SecretValue::new(format!("{name}-0123456789-abcdefghijkl")), injection)
    }

    #[test]
    fn git_hosts_are_those_of_git_presets() {
        let secrets = [
            masked("a", Preset::Github, &[]),
            masked("b", Preset::Gitlab, &["gitlab.example.org", "*.example.net"]),
            masked("c", Preset::Anthropic, &[]),
            masked("d", Preset::Npm, &["npm.example.org"]),
            masked("e", Preset::Github, &["github.com"]),
        ];
        let prepared = prepare_secrets(&secrets, &[]).unwrap();
        let mut hosts = prepared.replacements().git_hosts();
        hosts.sort_unstable_by_key(|host| host.host);
        let found: Vec<_> = hosts.iter().map(|host| (host.host, host.user)).collect();
        let expected = [
            ("gist.github.com", "x-access-token"),
            ("github.com", "x-access-token"),
            ("gitlab.example.org", "oauth2"),
        ];
        assert_eq!(found, expected);
        assert_eq!(hosts[2].surrogate, prepared.env_vars()["b"]);
        assert!(SecretReplacements::default().git_hosts().is_empty());
    }
}

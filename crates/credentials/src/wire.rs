//! The JSON form of a replacement map, which the sandbox writes only for its proxy.

use std::collections::BTreeMap;

use allowlist::{Glob, HostPattern};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::limits::VALUE_LIMIT;
pub use crate::replacement::{MaskedReplacement, Replacement, SigningReplacement};
use crate::{HeaderPattern, Injection, SecretReplacements, SecretValue};

/// The content of a [`SecretReplacements`], for the proxy. Its JSON contains the real values and is
/// sent only over the proxy's control channel.
///
/// It is keyed by surrogate; for a signing credential, by that of the access key id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReplacementMap(pub SecretReplacements);

impl ReplacementMap {
    /// Each surrogate (for a signing credential: that of the access key id) and its replacement.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Replacement)> {
        self.0.iter()
    }
}

impl Serialize for ReplacementMap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer
            .collect_map(self.iter().map(|(surrogate, replacement)| (surrogate, Entry::from(replacement))))
    }
}

impl<'de> Deserialize<'de> for ReplacementMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Errors of serde quote their input, which may be a secret.
        let malformed = || D::Error::custom("the replacement map is malformed");
        let entries = BTreeMap::<String, Entry>::deserialize(deserializer).map_err(|_| malformed())?;
        let read = |(surrogate, entry): (String, Entry)| {
            let replacement = entry.into_replacement()?;
            (!surrogate.is_empty() && replacement.key().expose() != surrogate)
                .then_some((surrogate, replacement))
        };
        let entries: Option<_> = entries.into_iter().map(read).collect();
        let entries = entries.map(SecretReplacements::new);
        entries.map(Self).ok_or_else(malformed)
    }
}

/// A masked secret, or, if it has a `type`, a signing credential.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<Kind>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Secret>,
    #[serde(skip_serializing_if = "Option::is_none")]
    access_key_id: Option<Secret>,
    #[serde(skip_serializing_if = "Option::is_none")]
    secret_access_key: Option<Secret>,
    #[serde(skip_serializing_if = "Option::is_none")]
    surrogate_secret_access_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_token: Option<Secret>,
    #[serde(skip_serializing_if = "Option::is_none")]
    surrogate_session_token: Option<String>,
    scopes: Vec<HostPattern>,
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<Vec<HeaderPattern>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    basic_user: Option<Glob>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    allow_foreign_credentials: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    allow_plaintext: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    allow_echo: bool,
}

#[derive(Serialize, Deserialize)]
enum Kind {
    #[serde(rename = "aws-sigv4")]
    AwsSigv4,
}

/// A value in transit. Only this type can be serialized, so that no [`SecretValue`] is written by
/// mistake.
struct Secret(SecretValue);

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.expose())
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = SecretValue::new(String::deserialize(deserializer)?);
        match value.expose().len() {
            1..=VALUE_LIMIT => Ok(Self(value)),
            _ => Err(D::Error::custom("a value is empty or too long")),
        }
    }
}

impl Entry {
    fn new(name: &str, scopes: &[HostPattern], allow_foreign_credentials: bool) -> Self {
        Self {
            kind: None,
            name: name.to_owned(),
            value: None,
            access_key_id: None,
            secret_access_key: None,
            surrogate_secret_access_key: None,
            session_token: None,
            surrogate_session_token: None,
            scopes: scopes.to_vec(),
            headers: None,
            basic_user: None,
            allow_foreign_credentials,
            allow_plaintext: false,
            allow_echo: false,
        }
    }

    /// `None` if it is neither of the two, or a mixture.
    fn into_replacement(self) -> Option<Replacement> {
        match self {
            Self {
                kind: None,
                value: Some(Secret(value)),
                headers: Some(headers),
                access_key_id: None,
                secret_access_key: None,
                surrogate_secret_access_key: None,
                session_token: None,
                surrogate_session_token: None,
                ..
            } => Some(Replacement::Masked(MaskedReplacement {
                name: self.name,
                value,
                injection: Injection {
                    scopes: self.scopes,
                    headers,
                    basic_user: self.basic_user,
                    allow_foreign_credentials: self.allow_foreign_credentials,
                    allow_plaintext: self.allow_plaintext,
                    allow_echo: self.allow_echo,
                },
            })),
            Self {
                kind: Some(Kind::AwsSigv4),
                access_key_id: Some(Secret(access_key_id)),
                secret_access_key: Some(Secret(secret_access_key)),
                value: None,
                headers: None,
                basic_user: None,
                allow_plaintext: false,
                allow_echo: false,
                ..
            } => Some(Replacement::Signing(SigningReplacement {
                name: self.name,
                access_key_id,
                secret_access_key,
                surrogate_secret_access_key: self.surrogate_secret_access_key.unwrap_or_default(),
                session_token: match (self.session_token, self.surrogate_session_token) {
                    (None, None) => None,
                    (Some(Secret(token)), Some(surrogate)) if !surrogate.is_empty() => {
                        Some((token, surrogate))
                    }
                    _ => return None,
                },
                scopes: self.scopes,
                allow_foreign_credentials: self.allow_foreign_credentials,
            })),
            _ => None,
        }
    }
}

impl From<&Replacement> for Entry {
    fn from(replacement: &Replacement) -> Self {
        let secret = |value: &SecretValue| Some(Secret(value.clone()));
        match replacement {
            Replacement::Masked(MaskedReplacement { name, value, injection }) => Self {
                value: secret(value),
                headers: Some(injection.headers.clone()),
                basic_user: injection.basic_user.clone(),
                allow_plaintext: injection.allow_plaintext,
                allow_echo: injection.allow_echo,
                ..Self::new(name, &injection.scopes, injection.allow_foreign_credentials)
            },
            Replacement::Signing(key) => Self {
                kind: Some(Kind::AwsSigv4),
                access_key_id: secret(&key.access_key_id),
                secret_access_key: secret(&key.secret_access_key),
                surrogate_secret_access_key: Some(key.surrogate_secret_access_key.clone())
                    .filter(|key| !key.is_empty()),
                session_token: key.session_token.as_ref().and_then(|(token, _)| secret(token)),
                surrogate_session_token: key.session_token.as_ref().map(|(_, surrogate)| surrogate.clone()),
                ..Self::new(&key.name, &key.scopes, key.allow_foreign_credentials)
            },
        }
    }
}

impl Replacement {
    /// The real value whose surrogate is the key.
    fn key(&self) -> &SecretValue {
        match self {
            Self::Masked(masked) => &masked.value,
            Self::Signing(key) => &key.access_key_id,
        }
    }
}

#[cfg(test)]
mod tests;

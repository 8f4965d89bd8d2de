//! From a document to a replacement map. Its one error quotes nothing: serde's own quote what they find, which may be a secret.

use std::collections::BTreeMap;
use std::fmt;

use allowlist::{Glob, HostPattern};
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use zeroize::Zeroizing;

use super::map::ReplacementMap;
use super::write::SIGNING_TYPE;
use crate::limits::VALUE_LIMIT;
use crate::replacement::{MaskedReplacement, Replacement, SigningReplacement};
use crate::{HeaderPattern, Injection, SecretReplacements, SecretValue};

impl<'de> Deserialize<'de> for ReplacementMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let entries = deserializer.deserialize_map(Entries);
        let entries = entries.map_err(|_quotes| D::Error::custom("this is no replacement map"))?;
        Ok(Self(SecretReplacements::new(entries)))
    }
}

/// A map without a key that comes twice.
struct Entries;

impl<'de> Visitor<'de> for Entries {
    type Value = BTreeMap<String, Replacement>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        let mut entries = BTreeMap::new();
        while let Some((surrogate, entry)) = access.next_entry::<String, Entry>()? {
            let replacement = entry.replacement().filter(|(_, real)| real.expose() != surrogate);
            let (replacement, _) = replacement.ok_or_else(|| A::Error::custom("an entry"))?;
            if surrogate.is_empty() || entries.insert(surrogate, replacement).is_some() {
                return Err(A::Error::custom("a surrogate"));
            }
        }
        Ok(entries)
    }
}

/// An entry of either type.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    r#type: Option<String>,
    value: Option<Text>,
    access_key_id: Option<Text>,
    secret_access_key: Option<Text>,
    surrogate_secret_access_key: Option<Text>,
    session_token: Option<Text>,
    surrogate_session_token: Option<Text>,
    scopes: Vec<String>,
    headers: Option<Vec<String>>,
    basic_user: Option<String>,
    allow_foreign_credentials: Option<bool>,
    allow_plaintext: Option<bool>,
    allow_echo: Option<bool>,
}

/// A text that may be secret: not empty, and of a bounded length.
#[derive(Deserialize)]
#[serde(try_from = "String")]
struct Text(Zeroizing<String>);

impl TryFrom<String> for Text {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let text = Zeroizing::new(text);
        match text.len() {
            1..=VALUE_LIMIT => Ok(Self(text)),
            _ => Err("a text"),
        }
    }
}

impl Text {
    fn secret(mut self) -> SecretValue {
        SecretValue::new(std::mem::take(&mut *self.0))
    }

    fn surrogate(mut self) -> String {
        std::mem::take(&mut *self.0)
    }
}

impl Entry {
    /// What takes the place of its surrogate, and which of its values must not be that; `None` if it is of neither type.
    fn replacement(self) -> Option<(Replacement, SecretValue)> {
        match self.r#type.as_deref() {
            None => self.masked(),
            Some(SIGNING_TYPE) => self.signing(),
            Some(_) => None,
        }
    }

    fn masked(self) -> Option<(Replacement, SecretValue)> {
        let of_keys = [
            &self.access_key_id,
            &self.secret_access_key,
            &self.surrogate_secret_access_key,
            &self.session_token,
            &self.surrogate_session_token,
        ];
        if of_keys.into_iter().any(Option::is_some) {
            return None;
        }
        let value = self.value?.secret();
        let injection = Injection {
            scopes: hosts(&self.scopes)?,
            headers: self
                .headers?
                .iter()
                .map(|text| HeaderPattern::new(text).ok())
                .collect::<Option<_>>()?,
            basic_user: self.basic_user.as_deref().map(Glob::new),
            allow_foreign_credentials: self.allow_foreign_credentials.unwrap_or_default(),
            allow_plaintext: self.allow_plaintext.unwrap_or_default(),
            allow_echo: self.allow_echo.unwrap_or_default(),
        };
        let real = value.clone();
        Some((Replacement::Masked(MaskedReplacement { value, injection }), real))
    }

    fn signing(self) -> Option<(Replacement, SecretValue)> {
        let of_secrets = (
            &self.value,
            &self.headers,
            &self.basic_user,
            self.allow_plaintext,
            self.allow_echo,
        );
        if !matches!(of_secrets, (None, None, None, None, None)) {
            return None;
        }
        let key = SigningReplacement {
            access_key_id: self.access_key_id?.secret(),
            secret_access_key: self.secret_access_key?.secret(),
            surrogate_secret_access_key: self
                .surrogate_secret_access_key
                .map(Text::surrogate)
                .unwrap_or_default(),
            session_token: match (self.session_token, self.surrogate_session_token) {
                (None, None) => None,
                (Some(token), Some(surrogate)) => Some((token.secret(), surrogate.surrogate())),
                _ => return None,
            },
            scopes: hosts(&self.scopes)?,
            allow_foreign_credentials: self.allow_foreign_credentials.unwrap_or_default(),
        };
        let real = key.access_key_id.clone();
        Some((Replacement::Signing(key), real))
    }
}

fn hosts(texts: &[String]) -> Option<Vec<HostPattern>> {
    texts.iter().map(|text| HostPattern::new(text).ok()).collect()
}

//! From a replacement map to a document. Values are borrowed all the way: nothing is copied that would have to be wiped.

use serde::{Serialize, Serializer};

use super::map::ReplacementMap;
use crate::HeaderPattern;
use crate::replacement::{MaskedReplacement, Replacement, SigningReplacement};

/// The `type` of a signing credential. A masked secret has none.
pub(super) const SIGNING_TYPE: &str = "aws-sigv4";

impl Serialize for ReplacementMap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(
            self.iter()
                .map(|(surrogate, replacement)| (surrogate, Entry::from(replacement))),
        )
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Entry<'a> {
    Masked(Masked<'a>),
    Signing(Signing<'a>),
}

#[derive(Serialize)]
struct Masked<'a> {
    value: &'a str,
    scopes: Vec<&'a str>,
    headers: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allow_foreign_credentials: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allow_plaintext: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allow_echo: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    basic_user: Option<&'a str>,
}

#[derive(Serialize)]
struct Signing<'a> {
    r#type: &'static str,
    access_key_id: &'a str,
    secret_access_key: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    surrogate_secret_access_key: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_token: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    surrogate_session_token: Option<&'a str>,
    scopes: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allow_foreign_credentials: Option<bool>,
}

impl<'a> From<&'a Replacement> for Entry<'a> {
    fn from(replacement: &'a Replacement) -> Self {
        match replacement {
            Replacement::Masked(masked) => Self::Masked(masked.into()),
            Replacement::Signing(signing) => Self::Signing(signing.into()),
        }
    }
}

impl<'a> From<&'a MaskedReplacement> for Masked<'a> {
    fn from(masked: &'a MaskedReplacement) -> Self {
        let injection = &masked.injection;
        Self {
            value: masked.value.expose(),
            scopes: injection
                .scopes
                .iter()
                .map(allowlist::HostPattern::as_str)
                .collect(),
            headers: injection.headers.iter().map(HeaderPattern::as_str).collect(),
            allow_foreign_credentials: injection.allow_foreign_credentials.then_some(true),
            allow_plaintext: injection.allow_plaintext.then_some(true),
            allow_echo: injection.allow_echo.then_some(true),
            basic_user: injection.basic_user.as_ref().map(allowlist::Glob::as_str),
        }
    }
}

impl<'a> From<&'a SigningReplacement> for Signing<'a> {
    fn from(signing: &'a SigningReplacement) -> Self {
        let token = signing.session_token.as_ref();
        Self {
            r#type: SIGNING_TYPE,
            access_key_id: signing.access_key_id.expose(),
            secret_access_key: signing.secret_access_key.expose(),
            surrogate_secret_access_key: &signing.surrogate_secret_access_key,
            session_token: token.map(|(real, _)| real.expose()),
            surrogate_session_token: token.map(|(_, surrogate)| surrogate.as_str()),
            scopes: signing
                .scopes
                .iter()
                .map(allowlist::HostPattern::as_str)
                .collect(),
            allow_foreign_credentials: signing.allow_foreign_credentials.then_some(true),
        }
    }
}

//! The entries as they are written, and how presets complete them.

use std::path::Path;
use std::time::Duration;

use allowlist::{Glob, HostPattern};
use located_yaml::{Entries, InvalidFile, Location, Spanned};
use sandbox::credentials::{HeaderPattern, Injection, Preset};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

use super::entry::{AWS_VARIABLES, CredentialsFile, MaskedEntry, SessionToken, SigningEntry};
use super::list::NonEmpty;
use super::login::{self, LoginDocument};
use super::source::Source;
use crate::config::setting::VariableName;
use crate::config::time;

/// An entry of `masked_secrets`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a mapping, as in {preset: github}")]
#[schemars(extend("anyOf" = [{"required": ["preset"]}, {"required": ["scopes", "headers"]}]))]
pub(in crate::config) struct MaskedDocument {
    /// The secret, or its source; default `!env` with the name of the entry.
    #[schemars(with = "Source")]
    value: Option<Source>,
    /// How long a value that is read from the host is valid, as in 50m; it is read again before
    /// that time is over.
    #[schemars(with = "Ttl")]
    ttl: Option<Spanned<Ttl>>,
    /// Provides the values that are omitted.
    #[schemars(with = "MaskedPreset")]
    preset: Option<MaskedPreset>,
    /// Hosts that get the credential, `*` for any run of characters.
    #[schemars(with = "Vec<String>", length(min = 1))]
    scopes: Option<NonEmpty<HostPattern>>,
    /// Headers that carry it; `*` for any run of characters.
    #[schemars(with = "Vec<String>", length(min = 1))]
    headers: Option<NonEmpty<HeaderPattern>>,
    /// In Basic credentials, the pattern that the other half must match: the user name if the
    /// secret is the password, and vice versa; default any.
    #[schemars(with = "String")]
    basic_user: Option<Glob>,
    /// Whether these headers may also carry the task's own credentials; by default they are
    /// removed.
    #[schemars(with = "bool")]
    allow_foreign_credentials: Option<bool>,
    /// Whether it may travel over plain HTTP.
    #[schemars(with = "bool")]
    allow_plaintext: Option<bool>,
    /// Whether a response may show it to the task; by default the surrogate replaces it there.
    #[schemars(with = "bool")]
    allow_echo: Option<bool>,
}

/// An entry of `signing_credentials`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a mapping, as in {preset: aws}")]
#[schemars(extend(
    "anyOf" = [{"required": ["preset"]}, {"required": ["type", "access_key_id", "secret_access_key", "scopes"]}],
    "dependentRequired" = {
        "access_key_id": ["secret_access_key"],
        "secret_access_key": ["access_key_id"],
        "session_token": ["access_key_id"]
    }
))]
pub(in crate::config) struct SigningDocument {
    /// SigV4, and SigV4A with the same key.
    #[serde(rename = "type")]
    #[schemars(with = "SigningType")]
    kind: Option<SigningType>,
    /// Provides AWS's hosts and, if no part of the key is given, the usual variables.
    #[schemars(with = "SigningPreset")]
    preset: Option<SigningPreset>,
    #[schemars(with = "Source")]
    access_key_id: Option<Source>,
    #[schemars(with = "Source")]
    secret_access_key: Option<Source>,
    #[schemars(with = "Source")]
    session_token: Option<Source>,
    /// How long parts that are read from the host are valid, as in 50m; they are read again before
    /// that time is over.
    #[schemars(with = "Ttl")]
    ttl: Option<Spanned<Ttl>>,
    /// Hosts whose requests are signed, `*` for any run of characters.
    #[schemars(with = "Vec<String>", length(min = 1))]
    scopes: Option<NonEmpty<HostPattern>>,
    /// Whether requests to these hosts may also carry the task's own credentials, in Authorization,
    /// in presigned URLs or as session tokens; by default they are removed.
    allow_foreign_credentials: bool,
}

/// The only kind of signing credential.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, JsonSchema)]
enum SigningType {
    #[serde(rename = "aws-sigv4")]
    AwsSigv4,
}

/// The only preset of a signing credential.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum SigningPreset {
    Aws,
}

/// A preset of a masked secret.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(try_from = "String")]
struct MaskedPreset(Preset);

impl MaskedPreset {
    fn names() -> impl Iterator<Item = &'static str> {
        let masked = Preset::ALL.iter().filter(|preset| **preset != Preset::Aws);
        masked.map(|preset| preset.name())
    }
}

impl TryFrom<String> for MaskedPreset {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.parse() {
            Ok(Preset::Aws) => {
                Err("`aws` keys sign requests: put this entry under `signing_credentials`".to_owned())
            }
            Ok(preset) => Ok(Self(preset)),
            Err(_) => {
                let known = Self::names().collect::<Vec<_>>().join("`, `");
                Err(format!("unknown preset `{}`: use one of `{known}`", text.escape_debug()))
            }
        }
    }
}

impl JsonSchema for MaskedPreset {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "MaskedPreset".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"enum": Self::names().collect::<Vec<_>>()})
    }
}

/// A time such as 50m.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(try_from = "String")]
struct Ttl(Duration);

impl TryFrom<String> for Ttl {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        time(&text).map(Self)
    }
}

impl JsonSchema for Ttl {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ttl".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "^[0-9]+[smh]$"})
    }
}

/// The time to live of values from `sources`.
fn ttl<'a>(
    written: Option<Spanned<Ttl>>,
    mut sources: impl Iterator<Item = &'a Source>,
) -> Result<Option<Duration>, InvalidFile> {
    let Some(written) = written else { return Ok(None) };
    if sources.any(|source| source.kept().is_some()) {
        return Ok(Some(written.0));
    }
    Err(InvalidFile::new(
        written.location(),
        "`ttl` is for values that can be read again: use `!command`, `!file`, `!keyring` or `!github_app`, or remove it",
    ))
}

impl CredentialsFile {
    /// The entries, completed by their presets; relative paths start at `folder`.
    pub(in crate::config) fn new(
        masked: Entries<VariableName, MaskedDocument>,
        signing: Entries<String, SigningDocument>,
        logins: Entries<String, LoginDocument>,
        folder: &Path,
    ) -> Result<Self, InvalidFile> {
        Ok(Self {
            masked: masked
                .into_iter()
                .map(|(name, document)| document.entry(&name, folder))
                .collect::<Result<_, _>>()?,
            signing: signing
                .into_iter()
                .map(|(name, document)| document.entry(&name, folder))
                .collect::<Result<_, _>>()?,
            logins: login::logins(logins, folder)?,
        })
    }
}

impl MaskedDocument {
    fn entry(self, name: &Spanned<VariableName>, folder: &Path) -> Result<MaskedEntry, InvalidFile> {
        let (variable, location) = (name.as_str(), name.location());
        let usual = self.preset.map(|preset| preset.0.injection()).unwrap_or_default();
        let injection = Injection {
            scopes: self.scopes.map_or(usual.scopes, |list| list.0),
            headers: self.headers.map_or(usual.headers, |list| list.0),
            basic_user: self.basic_user.or(usual.basic_user),
            allow_foreign_credentials: self
                .allow_foreign_credentials
                .unwrap_or(usual.allow_foreign_credentials),
            allow_plaintext: self.allow_plaintext.unwrap_or(usual.allow_plaintext),
            allow_echo: self.allow_echo.unwrap_or(usual.allow_echo),
        };
        let lacks = |what: &str, advice: &str| {
            let way = match self.preset {
                Some(preset) => format!("the preset `{}` does not set them", preset.0.name()),
                None => "or use a `preset`".to_owned(),
            };
            let shown = variable.escape_debug();
            Err(InvalidFile::new(location, format!("`{shown}` has no `{what}`: {advice}; {way}")))
        };
        if injection.scopes.is_empty() {
            return lacks("scopes", "name the hosts that get it, as in [api.example.com]");
        }
        if injection.headers.is_empty() {
            return lacks("headers", "name those that carry it, as in [Authorization]");
        }
        let value = self.value.unwrap_or_else(|| Source::variable(variable, location.clone()));
        Ok(MaskedEntry {
            variable: variable.to_owned(),
            location: location.clone(),
            ttl: ttl(self.ttl, std::iter::once(&value))?,
            value: value.relative_to(folder),
            preset: self.preset.map(|preset| preset.0),
            injection,
        })
    }
}

impl SigningDocument {
    fn entry(self, name: &Spanned<String>, folder: &Path) -> Result<SigningEntry, InvalidFile> {
        let (location, shown) = (name.location(), name.escape_debug());
        let problem = |what: &str| InvalidFile::new(location, format!("`{shown}` {what}"));
        if self.kind.is_none() && self.preset.is_none() {
            return Err(problem("has no `type`: write `type: aws-sigv4`, or use `preset: aws`"));
        }
        let usual = self.preset.map(|SigningPreset::Aws| Preset::Aws.signing_scopes());
        let Some(scopes) = self.scopes.map(|list| list.0).or(usual) else {
            return Err(problem(
                "has no `scopes`: name the hosts, as in [\"*.amazonaws.com\"], or use `preset: aws`",
            ));
        };
        let preset = self.preset.is_some();
        let part = |source: Option<Source>| source.map(|source| source.relative_to(folder));
        let (access_key_id, secret_access_key, session_token) =
            match (part(self.access_key_id), part(self.secret_access_key), part(self.session_token)) {
                (None, None, None) if preset => usual_variables(location),
                (Some(id), Some(secret), token) => {
                    (id, secret, token.map_or(SessionToken::None, SessionToken::Required))
                }
                (None, ..) => {
                    return Err(problem("has no `access_key_id`: `!env AWS_ACCESS_KEY_ID` is usual"));
                }
                (_, None, _) => {
                    return Err(problem("has no `secret_access_key`: `!env AWS_SECRET_ACCESS_KEY` is usual"));
                }
            };
        let mut entry = SigningEntry {
            name: name.to_string(),
            location: location.clone(),
            access_key_id,
            secret_access_key,
            session_token,
            ttl: None,
            scopes,
            allow_foreign_credentials: self.allow_foreign_credentials,
        };
        entry.ttl = ttl(self.ttl, entry.sources())?;
        Ok(entry)
    }
}

fn usual_variables(location: &Location) -> (Source, Source, SessionToken) {
    let [id, secret, token] = AWS_VARIABLES.map(|name| Source::variable(name, location.clone()));
    (id, secret, SessionToken::IfSet(token))
}

//! Reading the entries: the one place that knows what a valid one is.

use allowlist::{Glob, HostPattern};
use sandbox::credentials::{HeaderPattern, Injection, Preset};

use super::entry::{AWS_VARIABLES, MaskedEntry, SessionToken, SigningEntry};
use crate::config::location::InvalidFile;
use crate::config::reader::{Place, listed};
use crate::config::setting::Setting;

pub(in crate::config) const MASKED_KEYS: [&str; 8] = [
    "value",
    "preset",
    "scopes",
    "headers",
    "basic_user",
    "allow_foreign_credentials",
    "allow_plaintext",
    "allow_echo",
];
pub(in crate::config) const SIGNING_KEYS: [&str; 7] = [
    "type",
    "preset",
    "access_key_id",
    "secret_access_key",
    "session_token",
    "scopes",
    "allow_foreign_credentials",
];
/// The one kind of signing credential.
pub(in crate::config) const SIGNING_TYPE: &str = "aws-sigv4";
/// The one preset of a signing credential.
pub(in crate::config) const SIGNING_PRESET: &str = "aws";

const SECRET_SHAPE: &str = "a secret is a text or `!env NAME`";

/// Reads `masked_secrets`.
pub(in crate::config) fn masked_secrets(place: &Place<'_>) -> Result<Vec<MaskedEntry>, InvalidFile> {
    let mut entries = Vec::new();
    let shape = "`masked_secrets` is a mapping of variables to secrets, as in {GH_TOKEN: {preset: github}}";
    place.any_entries(shape, |key, _, value| {
        entries.push(masked_secret(key, value)?);
        Ok(())
    })?;
    Ok(entries)
}

/// Reads `signing_credentials`.
pub(in crate::config) fn signing_credentials(place: &Place<'_>) -> Result<Vec<SigningEntry>, InvalidFile> {
    let mut entries = Vec::new();
    let shape = "`signing_credentials` is a mapping of names to keys, as in {AWS: {preset: aws}}";
    place.any_entries(shape, |key, name, value| {
        entries.push(signing_credential(key, name, value)?);
        Ok(())
    })?;
    Ok(entries)
}

/// The keys of a masked secret, before the preset fills the gaps.
#[derive(Default)]
struct MaskedParts {
    value: Option<Setting>,
    preset: Option<Preset>,
    scopes: Option<Vec<HostPattern>>,
    headers: Option<Vec<HeaderPattern>>,
    basic_user: Option<Glob>,
    allow_foreign_credentials: Option<bool>,
    allow_plaintext: Option<bool>,
    allow_echo: Option<bool>,
}

fn masked_secret(key: &Place<'_>, place: &Place<'_>) -> Result<MaskedEntry, InvalidFile> {
    let variable = key.variable_name()?;
    let mut parts = MaskedParts::default();
    let shape = "a masked secret is a mapping, as in {preset: github}";
    place.entries(shape, &MASKED_KEYS, |_, name, value| {
        let flag = || value.boolean(&format!("`{name}` is true or false")).map(Some);
        match name {
            "value" => parts.value = Some(value.setting(SECRET_SHAPE)?),
            "preset" => parts.preset = Some(masked_preset(value)?),
            "scopes" => parts.scopes = Some(scopes(value)?),
            "headers" => parts.headers = Some(headers(value)?),
            "basic_user" => {
                let text = value.text("`basic_user` is a text such as x-access-token")?;
                parts.basic_user = Some(Glob::new(text));
            }
            "allow_foreign_credentials" => parts.allow_foreign_credentials = flag()?,
            "allow_plaintext" => parts.allow_plaintext = flag()?,
            _ => parts.allow_echo = flag()?,
        }
        Ok(())
    })?;
    let location = key.location();
    Ok(MaskedEntry {
        variable: variable.to_owned(),
        value: parts
            .value
            .take()
            .unwrap_or_else(|| Setting::variable(variable, location.clone())),
        location,
        preset: parts.preset,
        injection: parts.injection(key, variable)?,
    })
}

impl MaskedParts {
    /// What the entry says, and where it says nothing, its preset.
    fn injection(self, key: &Place<'_>, variable: &str) -> Result<Injection, InvalidFile> {
        let usual = self.preset.map(Preset::injection).unwrap_or_default();
        let injection = Injection {
            scopes: self.scopes.unwrap_or(usual.scopes),
            headers: self.headers.unwrap_or(usual.headers),
            basic_user: self.basic_user.or(usual.basic_user),
            allow_foreign_credentials: self
                .allow_foreign_credentials
                .unwrap_or(usual.allow_foreign_credentials),
            allow_plaintext: self.allow_plaintext.unwrap_or(usual.allow_plaintext),
            allow_echo: self.allow_echo.unwrap_or(usual.allow_echo),
        };
        let lacks = |what: &str, advice: &str| {
            let way = match self.preset {
                Some(preset) => format!("the preset `{}` leaves them to you", preset.name()),
                None => "or use a `preset`".to_owned(),
            };
            key.problem(format!(
                "`{}` has no `{what}`: {advice}; {way}",
                variable.escape_debug()
            ))
        };
        if injection.scopes.is_empty() {
            return Err(lacks(
                "scopes",
                "name the hosts that get it, as in [api.example.com]",
            ));
        }
        if injection.headers.is_empty() {
            return Err(lacks(
                "headers",
                "name those that carry it, as in [Authorization]",
            ));
        }
        Ok(injection)
    }
}

fn masked_preset(place: &Place<'_>) -> Result<Preset, InvalidFile> {
    let text = place.text("`preset` is a text such as github")?;
    if text == SIGNING_PRESET {
        return Err(place.problem("`aws` keys sign requests: put this entry under `signing_credentials`"));
    }
    let known: Vec<&str> = Preset::ALL
        .iter()
        .map(|preset| preset.name())
        .filter(|name| *name != SIGNING_PRESET)
        .collect();
    text.parse()
        .ok()
        .filter(|_| known.contains(&text))
        .ok_or_else(|| {
            place.problem(format!(
                "there is no preset `{}`: use {}",
                text.escape_debug(),
                listed(&known)
            ))
        })
}

fn signing_credential(key: &Place<'_>, name: &str, place: &Place<'_>) -> Result<SigningEntry, InvalidFile> {
    let location = key.location();
    let (mut kind, mut usual_scopes, mut named_scopes) = (None, None, None);
    let (mut id, mut secret, mut token) = (None, None, None);
    let mut allow_foreign_credentials = false;
    let shape = "a signing credential is a mapping, as in {preset: aws}";
    place.entries(shape, &SIGNING_KEYS, |_, name, value| {
        match name {
            "type" => kind = Some(signing_type(value)?),
            "preset" => usual_scopes = Some(signing_preset(value)?),
            "access_key_id" => id = Some(value.setting(SECRET_SHAPE)?),
            "secret_access_key" => secret = Some(value.setting(SECRET_SHAPE)?),
            "session_token" => token = Some(value.setting(SECRET_SHAPE)?),
            "allow_foreign_credentials" => {
                allow_foreign_credentials = value.boolean(&format!("`{name}` is true or false"))?;
            }
            _ => named_scopes = Some(scopes(value)?),
        }
        Ok(())
    })?;
    let shown = name.escape_debug();
    let lacks = |what: &str| key.problem(format!("`{shown}` {what}, or use `preset: aws`"));
    let preset = usual_scopes.is_some();
    if kind.is_none() && !preset {
        return Err(lacks("does not say what it is: write `type: aws-sigv4`"));
    }
    let scopes = named_scopes.or(usual_scopes).unwrap_or_default();
    if scopes.is_empty() {
        return Err(lacks(
            "has no `scopes`: name the hosts, as in [\"*.amazonaws.com\"]",
        ));
    }
    let (access_key_id, secret_access_key, session_token) = match (id, secret, token) {
        (None, None, None) if preset => {
            let [id, secret, token] = AWS_VARIABLES.map(|name| Setting::variable(name, location.clone()));
            (id, secret, SessionToken::IfSet(token))
        }
        (Some(id), Some(secret), token) => (
            id,
            secret,
            token.map_or(SessionToken::None, SessionToken::Required),
        ),
        (None, ..) => {
            return Err(key.problem(format!(
                "`{shown}` has no `access_key_id`: `!env AWS_ACCESS_KEY_ID` is usual"
            )));
        }
        (_, None, _) => {
            return Err(key.problem(format!(
                "`{shown}` has no `secret_access_key`: `!env AWS_SECRET_ACCESS_KEY` is usual"
            )));
        }
    };
    Ok(SigningEntry {
        name: name.to_owned(),
        location,
        access_key_id,
        secret_access_key,
        session_token,
        scopes,
        allow_foreign_credentials,
    })
}

fn signing_type(place: &Place<'_>) -> Result<(), InvalidFile> {
    match place.text("`type` is aws-sigv4")? {
        SIGNING_TYPE => Ok(()),
        other => Err(place.problem(format!(
            "`type` is aws-sigv4, which covers SigV4A too, not `{}`",
            other.escape_debug()
        ))),
    }
}

/// The hosts of the preset.
fn signing_preset(place: &Place<'_>) -> Result<Vec<HostPattern>, InvalidFile> {
    let text = place.text("`preset` is aws here")?;
    let preset = text.parse().ok().filter(|_| text == SIGNING_PRESET);
    match preset {
        Some(preset) => Ok(Preset::signing_scopes(preset)),
        None => Err(place.problem(format!(
            "`preset` is aws here, not `{}`: other presets are for `masked_secrets`",
            text.escape_debug()
        ))),
    }
}

fn scopes(place: &Place<'_>) -> Result<Vec<HostPattern>, InvalidFile> {
    let scopes = place.items("`scopes` is a list of hosts, as in [api.example.com]", |item| {
        let text = item.text("a host is a text")?;
        HostPattern::new(text).map_err(|error| item.problem(error.to_string()))
    })?;
    if scopes.is_empty() {
        return Err(place.problem("`scopes` is empty, so the credential would go nowhere: name the hosts"));
    }
    Ok(scopes)
}

fn headers(place: &Place<'_>) -> Result<Vec<HeaderPattern>, InvalidFile> {
    let headers = place.items("`headers` is a list of names, as in [Authorization]", |item| {
        let text = item.text("the name of a header is a text")?;
        HeaderPattern::new(text).map_err(|error| item.problem(error.to_string()))
    })?;
    if headers.is_empty() {
        return Err(place.problem("`headers` is empty, so the credential would go nowhere: name the headers"));
    }
    Ok(headers)
}

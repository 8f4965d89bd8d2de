//! The file of a login, whose layout is in the table of its kind.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sandbox_credentials::SecretValue;
use serde_json::{Map, Value};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use zeroize::{Zeroize as _, Zeroizing};

use crate::kind::Field;
use crate::{Answer, LoginKind};

/// The content of a login's file. `Debug` does not show it.
#[derive(Clone, PartialEq)]
pub struct Tokens {
    pub(crate) kind: LoginKind,
    document: Value,
    access: SecretValue,
    refresh: Option<SecretValue>,
    expires: Option<SystemTime>,
}

impl Tokens {
    /// Reads the bytes of a file.
    pub(crate) fn read(kind: LoginKind, bytes: &[u8]) -> Result<Self, &'static str> {
        // A message of serde may quote its input.
        let document = serde_json::from_slice(bytes).map_err(|_| "it is not JSON")?;
        Self::of(kind, document)
    }

    fn of(kind: LoginKind, document: Value) -> Result<Self, &'static str> {
        let table = kind.table();
        let mut tokens = Self { kind, document, access: SecretValue::new(""), refresh: None, expires: None };
        let access = tokens.text(table.access_token).ok_or("it has no access token")?;
        tokens.access = SecretValue::new(access);
        tokens.refresh = tokens.text(table.refresh_token).map(SecretValue::new);
        tokens.expires = if table.expires_at.is_empty() {
            claims(tokens.access.expose()).and_then(|claims| claims.get("exp")?.as_u64()).and_then(seconds)
        } else {
            tokens.field(table.expires_at).and_then(Value::as_u64).and_then(milliseconds)
        };
        Ok(tokens)
    }

    /// The access token.
    #[must_use]
    pub fn access(&self) -> &SecretValue {
        &self.access
    }

    /// Remaining lifetime of the access token at `now`. `None` if its expiry is unknown.
    #[must_use]
    pub fn good_for(&self, now: SystemTime) -> Option<Duration> {
        self.expires.map(|expires| expires.duration_since(now).unwrap_or_default())
    }

    pub(crate) fn refresh_token(&self) -> Option<&SecretValue> {
        self.refresh.as_ref()
    }

    /// The field, if it is present and not null.
    pub(crate) fn field(&self, field: Field) -> Option<&Value> {
        field.iter().try_fold(&self.document, |value, key| value.get(key)).filter(|value| !value.is_null())
    }

    /// The text in the field; an empty one counts as absent.
    pub(crate) fn text(&self, field: Field) -> Option<&str> {
        self.field(field).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    /// The same with the result of a refresh at `now`. Everything else is unchanged.
    pub(crate) fn refreshed(&self, answer: &Answer, now: SystemTime) -> Result<Self, &'static str> {
        let table = self.kind.table();
        let mut document = self.document.clone();
        let mut put = |field: Field, value: Value| set(&mut document, field, value);
        put(table.access_token, answer.access_token.expose().into());
        if let Some(refresh) = &answer.refresh_token {
            put(table.refresh_token, refresh.expose().into());
        }
        if let (Some(field), Some(id)) = (table.id_token, &answer.id_token) {
            put(field, id.expose().into());
        }
        let times = table.other_times.iter().map(|(name, field)| (*name, *field));
        for (name, field) in std::iter::once(("expires_in", table.expires_at)).chain(times) {
            match answer.seconds(name) {
                _ if field.is_empty() => {}
                Some(seconds) => {
                    let at = now.checked_add(Duration::from_secs(seconds)).and_then(since_epoch);
                    put(field, at.ok_or("it is good for too long")?.into());
                }
                // The old token's expiry does not apply to the new one.
                None => put(field, serde_json::Value::Null),
            }
        }
        if let Some(field) = table.last_refresh
            && let Ok(text) = OffsetDateTime::from(now).format(&Rfc3339)
        {
            put(field, text.into());
        }
        Self::of(self.kind, document)
    }

    /// Its serialized form.
    pub(crate) fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        // Texts, numbers and text keys can always be serialized.
        Zeroizing::new(serde_json::to_vec_pretty(&self.document).unwrap_or_default())
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tokens({}, redacted)", self.kind.name())
    }
}

impl Drop for Tokens {
    fn drop(&mut self) {
        wipe(&mut self.document);
    }
}

/// Overwrites every text in `value`.
pub(crate) fn wipe(value: &mut Value) {
    match value {
        Value::String(text) => text.zeroize(),
        Value::Array(values) => values.iter_mut().for_each(wipe),
        Value::Object(values) => values.values_mut().for_each(wipe),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Sets a field to `value`; anything on its path that is not an object becomes one.
pub(crate) fn set(document: &mut Value, field: Field, value: Value) {
    let mut place = document;
    for key in field {
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        let Value::Object(map) = place else { return };
        place = map.entry(*key).or_insert(Value::Null);
    }
    *place = value;
}

/// The unverified claims of a JWT.
pub(crate) fn claims(token: &str) -> Option<Value> {
    let mut parts = token.split('.');
    let (_, claims, _) = (parts.next()?, parts.next()?, parts.next()?);
    let bytes = Zeroizing::new(URL_SAFE_NO_PAD.decode(claims.trim_end_matches('=')).ok()?);
    serde_json::from_slice(&bytes).ok()
}

fn seconds(seconds: u64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

fn milliseconds(milliseconds: u64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_millis(milliseconds))
}

fn since_epoch(time: SystemTime) -> Option<u64> {
    u64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
}

//! Puts real values into headers, one line per header.

use std::collections::HashMap;

use http::header::COOKIE;
use http::{HeaderMap, HeaderName, HeaderValue};
use sandbox_credentials::SecretValue;

use super::error::CredentialError;
use super::find::find;
use super::scope::Scope;
use crate::headers::is_same;

/// The maximum length in bytes of all encoded credentials in one request, unless they are all in
/// one header: searching the response costs many times that.
const MOST_SENT: usize = 2048;

/// Headers with real values in them.
pub(super) struct Replaced<'a> {
    pub(super) headers: HeaderMap,
    /// The headers in which something was replaced.
    pub(super) names: Vec<HeaderName>,
    /// See [`super::find::Found::used`].
    pub(super) used: Vec<&'a str>,
    /// The number of other lines and parts of these headers, which were removed.
    pub(super) dropped: u32,
    /// See [`super::find::Found::sent`].
    pub(super) sent: Vec<(SecretValue, String)>,
}

/// Replaces the surrogates in headers. Of a header in which something was replaced, only that line
/// is kept: the first, if there are several. Encoded credentials beyond [`MOST_SENT`] count as
/// foreign.
pub(super) fn replace<'a>(headers: HeaderMap, scope: &Scope<'a>) -> Result<Replaced<'a>, CredentialError> {
    let mut replaced = Replaced {
        headers: HeaderMap::new(),
        names: Vec::new(),
        used: Vec::new(),
        dropped: 0,
        sent: Vec::new(),
    };
    let headers = if scope.carried_by(&COOKIE).is_empty() { headers } else { with_one_cookie_line(headers) };
    let mut real = HashMap::new();
    for name in headers.keys() {
        let entries = scope.carried_by(name);
        // If a gateway treats two names as one, the first has the credential.
        let is_twin = |other: &HeaderName| is_same(name.as_str(), other.as_str());
        if entries.is_empty() || replaced.names.iter().any(is_twin) {
            continue;
        }
        let division = scope.division(name, &entries);
        let mut lines = headers.get_all(name).iter();
        let Some(found) = lines.find_map(|line| find(line.as_bytes(), &entries, &division)) else {
            continue;
        };
        if !replaced.sent.is_empty() && length(&replaced.sent) + length(&found.sent) > MOST_SENT {
            continue;
        }
        let others = headers.get_all(name).iter().count() - 1;
        replaced.used.extend(found.used);
        replaced.dropped += found.dropped + u32::try_from(others).unwrap_or(u32::MAX);
        replaced.sent.extend(found.sent);
        replaced.names.push(name.clone());
        real.insert(name.clone(), secret(name, &found.value)?);
    }
    replaced.headers = if real.is_empty() { headers } else { with_lines(&headers, real) };
    Ok(replaced)
}

fn length(sent: &[(SecretValue, String)]) -> usize {
    sent.iter().map(|(sent, _)| sent.expose().len()).sum()
}

/// A value that is neither displayed in logs nor stored by header compression.
fn secret(name: &HeaderName, value: &[u8]) -> Result<HeaderValue, CredentialError> {
    let mut value =
        HeaderValue::from_bytes(value).map_err(|_| CredentialError::Value { header: name.clone() })?;
    value.set_sensitive(true);
    Ok(value)
}

/// The headers in their order, with one line in place of all lines of a name in `real`.
fn with_lines(headers: &HeaderMap, mut real: HashMap<HeaderName, HeaderValue>) -> HeaderMap {
    let names: Vec<HeaderName> = real.keys().cloned().collect();
    let mut kept = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers {
        if !names.contains(name) {
            kept.append(name.clone(), value.clone());
        } else if let Some(value) = real.remove(name) {
            kept.append(name.clone(), value);
        }
    }
    kept
}

/// HTTP/2 clients may send each cookie on a separate line.
fn with_one_cookie_line(headers: HeaderMap) -> HeaderMap {
    let lines: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if lines.len() < 2 {
        return headers;
    }
    // Joined header values are a valid header value.
    let Ok(joined) = HeaderValue::from_bytes(&lines.join(b"; ".as_slice())) else {
        return headers;
    };
    with_lines(&headers, HashMap::from([(COOKIE, joined)]))
}

//! The session token of a temporary key.

use http::{HeaderMap, HeaderValue};
use sandbox_credentials::wire::SigningReplacement;

use super::encoding::encoded;
use super::error::SignError;
use super::target::Target;
use crate::fields::only;

/// The header and the parameter that carry it.
pub(super) const TOKEN: &str = "x-amz-security-token";

/// Replaces the client's token with the real one. If the real key has none, the client's is foreign
/// and is removed.
///
/// # Errors
///
/// When there are several, or when the real one does not fit into a header.
pub(super) fn replace_token(
    key: &SigningReplacement,
    headers: &mut HeaderMap,
    target: &mut Target,
) -> Result<(), SignError> {
    if headers.get_all(TOKEN).iter().count() > 1 {
        return Err(SignError::Ambiguous(TOKEN));
    }
    target.value(TOKEN)?;
    let Some((token, _)) = &key.session_token else {
        *headers = only(headers, |name| name.as_str() != TOKEN);
        target.remove(TOKEN);
        return Ok(());
    };
    if let Some(value) = headers.get_mut(TOKEN) {
        *value = sensitive(token.expose()).ok_or(SignError::UnusableCredential("session token"))?;
    }
    target.change(TOKEN, |_| encoded(token.expose().as_bytes()));
    Ok(())
}

/// A header value that is never shown; `None` if no header can have it.
pub(super) fn sensitive(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

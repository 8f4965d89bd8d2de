//! Hosts that open to the real token only.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{AUTHORIZATION, AsHeaderName, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};
use serde::{Deserialize, Serialize};

use super::routes::{Body, text};

/// How a host wants its token. A request that does not bring exactly that, and once, gets 401.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Lock {
    /// `Authorization: Bearer TOKEN`.
    Bearer(String),
    /// `Authorization: Basic …` with the token as password of whatever user.
    Password(String),
    /// The token alone in the header of this name.
    Header(String, String),
}

impl Lock {
    pub(super) fn opens(&self, headers: &HeaderMap) -> bool {
        match self {
            Self::Bearer(token) => {
                only(headers, &AUTHORIZATION).is_some_and(|value| value == format!("Bearer {token}"))
            }
            Self::Password(token) => basic(headers).is_some_and(|(_, password)| password == *token),
            Self::Header(name, token) => only(headers, name.as_str()).is_some_and(|value| value == token),
        }
    }

    /// What a request without the token gets; clients such as git send none before they are asked.
    pub(super) fn refusal(&self) -> Response<Body> {
        let scheme = match self {
            Self::Password(_) => "Basic realm=\"world\"",
            _ => "Bearer realm=\"world\"",
        };
        let mut response = text("the token is missing or wrong\n");
        *response.status_mut() = StatusCode::UNAUTHORIZED;
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(scheme));
        response
    }
}

/// The credential that a request carries, in whichever of the usual headers.
pub(super) fn credential(headers: &HeaderMap) -> Option<String> {
    if let Some((_, password)) = basic(headers) {
        return Some(password);
    }
    let bearer =
        only(headers, &AUTHORIZATION).and_then(|value| value.split_once(' ')).map(|(_, token)| token);
    let plain = || ["x-api-key", "private-token"].iter().find_map(|name| only(headers, *name));
    bearer.or_else(plain).map(str::to_owned)
}

/// User and password of the only `Authorization` line.
fn basic(headers: &HeaderMap) -> Option<(String, String)> {
    let (scheme, encoded) = only(headers, &AUTHORIZATION)?.split_once(' ')?;
    let pair = String::from_utf8(STANDARD.decode(encoded).ok()?).ok()?;
    let (user, password) = pair.split_once(':')?;
    scheme.eq_ignore_ascii_case("basic").then(|| (user.to_owned(), password.to_owned()))
}

/// The value of a header that is there exactly once.
fn only(headers: &HeaderMap, name: impl AsHeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).into_iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderName;

    use super::*;

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        lines
            .iter()
            .map(|(name, value)| {
                (HeaderName::from_static(name), HeaderValue::try_from(*value).expect("a value"))
            })
            .collect()
    }

    #[test]
    fn only_the_whole_token_in_its_place_opens() {
        let bearer = Lock::Bearer("t0k".into());
        let password = Lock::Password("t0k".into());
        let header = Lock::Header("x-api-key".into(), "t0k".into());
        let basic = format!("basic {}", STANDARD.encode("any:t0k"));
        let user = format!("Basic {}", STANDARD.encode("t0k:any"));
        for (lock, lines, opens) in [
            (&bearer, vec![("authorization", "Bearer t0k")], true),
            (&bearer, vec![("authorization", "Bearer xt0k")], false),
            (&bearer, vec![("authorization", "Bearer t0k"), ("authorization", "Bearer t0k")], false),
            (&bearer, vec![("x-api-key", "t0k")], false),
            (&password, vec![("authorization", basic.as_str())], true),
            (&password, vec![("authorization", user.as_str())], false),
            (&header, vec![("x-api-key", "t0k")], true),
            (&header, vec![], false),
        ] {
            assert_eq!(lock.opens(&headers(&lines)), opens, "{lock:?} {lines:?}");
        }
    }

    #[test]
    fn the_credential_of_a_request_is_found_wherever_it_is() {
        let basic = format!("Basic {}", STANDARD.encode("user:t0k"));
        for line in
            [("authorization", "token t0k"), ("authorization", basic.as_str()), ("private-token", "t0k")]
        {
            assert_eq!(credential(&headers(&[line])).as_deref(), Some("t0k"), "{line:?}");
        }
        assert_eq!(credential(&HeaderMap::new()), None);
    }
}

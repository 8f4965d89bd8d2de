//! Answers of a token endpoint.

use std::fmt;

use sandbox_credentials::SecretValue;
use serde_json::Value;

use crate::document::wipe;

/// New tokens. `Debug` does not show them.
pub struct Answer {
    pub(crate) access_token: SecretValue,
    pub(crate) refresh_token: Option<SecretValue>,
    pub(crate) id_token: Option<SecretValue>,
    body: Value,
}

/// The reason for missing tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unanswered {
    /// The vendor refuses, with this name for the reason.
    Refused(String),
    /// There was no answer, or none about the login.
    Unavailable(String),
}

impl Answer {
    /// Reads an answer with this status.
    ///
    /// # Errors
    ///
    /// If it has no access token.
    pub fn read(status: u16, bytes: &[u8]) -> Result<Self, Unanswered> {
        let body: Option<Value> = serde_json::from_slice(bytes).ok();
        match (status, body) {
            (200, Some(body)) => Self::of(body)
                .ok_or_else(|| Unanswered::Unavailable("the answer has no access token".to_owned())),
            (200, None) => Err(Unanswered::Unavailable("the answer is not JSON".to_owned())),
            // Other statuses may also come from intermediaries.
            (400 | 401, Some(body)) if body.get("error").is_some() => Err(Unanswered::Refused(code(&body))),
            _ => Err(Unanswered::Unavailable(format!("it answered with status {status}"))),
        }
    }

    fn of(body: Value) -> Option<Self> {
        let text = |name: &str| body.get(name)?.as_str().filter(|text| !text.is_empty());
        let secret = |name: &str| text(name).map(SecretValue::new);
        Some(Self {
            access_token: secret("access_token")?,
            refresh_token: secret("refresh_token"),
            id_token: secret("id_token"),
            body,
        })
    }

    /// A number of seconds.
    pub(crate) fn seconds(&self, name: &str) -> Option<u64> {
        let seconds = self.body.get(name)?;
        let text = seconds.as_str().and_then(|text| text.parse().ok());
        seconds.as_u64().or(text)
    }
}

/// The vendor's name for a refusal: `error`, or the text in it. No other part of the answer is
/// shown.
fn code(body: &Value) -> String {
    let error = body.get("error");
    let inner = |name: &str| error.and_then(|error| error.get(name)?.as_str());
    let code = error.and_then(Value::as_str).or_else(|| inner("code")).or_else(|| inner("type"));
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    code.filter(|code| code.len() <= 64 && code.chars().all(is_plain)).unwrap_or("no reason given").to_owned()
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Answer(redacted)")
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        wipe(&mut self.body);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_with_an_error_is_a_refusal() {
        let refused = |code: &str| Unanswered::Refused(code.to_owned());
        for (status, body, expected) in [
            (400, r#"{"error":"invalid_grant","error_description":"x"}"#, Some(refused("invalid_grant"))),
            (401, r#"{"error":{"code":"refresh_token_reused"}}"#, Some(refused("refresh_token_reused"))),
            (400, r#"{"error":{"type":"invalid_request_error"}}"#, Some(refused("invalid_request_error"))),
            (400, r#"{"error":"\u001b[2J"}"#, Some(refused("no reason given"))),
            (403, "<html>", None),
            (400, "{}", None),
            (429, r#"{"error":"rate_limited"}"#, None),
            (500, r#"{"error":"server_error"}"#, None),
            (302, "", None),
            (200, "", None),
            (200, r#"{"refresh_token":"only"}"#, None),
            (200, r#"{"access_token":""}"#, None),
        ] {
            let problem = Answer::read(status, body.as_bytes()).unwrap_err();
            match expected {
                Some(expected) => assert_eq!(problem, expected, "{body}"),
                None => assert!(matches!(problem, Unanswered::Unavailable(_)), "{body}: {problem:?}"),
            }
        }
        let answer = Answer::read(200, br#"{"access_token":"hunter2","expires_in":8}"#).unwrap();
        assert_eq!((answer.seconds("expires_in"), answer.refresh_token.is_none()), (Some(8), true));
        assert!(!format!("{answer:?}").contains("hunter2"));
    }
}

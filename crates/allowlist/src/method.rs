//! Methods of requests and of rules.

use std::fmt;

use serde::Deserialize;
use serde::Serialize;
use serde::Serializer;

use crate::denial::Denial;
use crate::invalid_rule::InvalidRule;

/// The method of a request: a case-preserving token.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Method(Box<str>);

impl Method {
    /// Reads a method as it appears in the request line or in `:method`.
    ///
    /// # Errors
    ///
    /// A denial with reason `unreadable` if it is not a token.
    pub fn from_wire(bytes: &[u8]) -> Result<Self, Denial> {
        match std::str::from_utf8(bytes) {
            Ok(text) if !text.is_empty() && bytes.iter().all(|byte| is_token_byte(*byte)) => {
                Ok(Self(text.into()))
            }
            _ => Err(Denial::unreadable("the method is not a single word of letters: write one such as GET")),
        }
    }

    /// The method as received.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is CONNECT or TRACE, which no rule can allow.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        is_forbidden(&self.0)
    }
}

impl fmt::Display for Method {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// A method that a rule names, in upper case.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct RuleMethod(Box<str>);

impl RuleMethod {
    /// Reads a method of a rule.
    ///
    /// # Errors
    ///
    /// Anything but letters and hyphens.
    pub fn new(text: &str) -> Result<Self, InvalidRule> {
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-') {
            Ok(Self(text.to_ascii_uppercase().into()))
        } else {
            Err(InvalidRule::Method(text.to_owned()))
        }
    }

    /// The method in upper case.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a request has this method, ignoring case.
    #[must_use]
    pub fn matches(&self, method: &Method) -> bool {
        self.0.eq_ignore_ascii_case(&method.0)
    }

    pub(crate) fn is_forbidden(&self) -> bool {
        is_forbidden(&self.0)
    }
}

impl TryFrom<String> for RuleMethod {
    type Error = InvalidRule;

    fn try_from(text: String) -> Result<Self, InvalidRule> {
        Self::new(&text)
    }
}

impl Serialize for RuleMethod {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

fn is_forbidden(method: &str) -> bool {
    method.eq_ignore_ascii_case("CONNECT") || method.eq_ignore_ascii_case("TRACE")
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_methods() {
        for text in ["GET", "get", "M-SEARCH", "X_Y", "a.b"] {
            assert_eq!(Method::from_wire(text.as_bytes()).unwrap().as_str(), text);
        }
        for text in ["", "G ET", "GET\n", "GÉT", "GET/", "a:b", "(x)"] {
            assert!(Method::from_wire(text.as_bytes()).is_err(), "{text:?}");
        }
    }

    #[test]
    fn rules_name_methods_in_letters_and_hyphens() {
        for text in ["GET", "get", "M-SEARCH"] {
            assert_eq!(RuleMethod::new(text).unwrap().as_str(), text.to_uppercase());
        }
        for text in ["", "*", "GET,HEAD", "GET HEAD", "X_Y", "G3T", "é"] {
            assert_eq!(RuleMethod::new(text), Err(InvalidRule::Method(text.to_owned())));
        }
        assert!(RuleMethod::new("post").unwrap().matches(&Method::from_wire(b"PoSt").unwrap()));
        assert!(!RuleMethod::new("post").unwrap().matches(&Method::from_wire(b"PUT").unwrap()));
    }
}

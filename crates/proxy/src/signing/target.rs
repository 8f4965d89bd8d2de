//! The target of a request, split without losing a byte.

use std::fmt;

use super::encoding::{decoded_parameter, encoded};
use super::error::SignError;

/// Path and query, as received.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Target {
    path: String,
    query: Option<Vec<Parameter>>,
}

/// A parameter: its bytes, and its decoded name and value.
#[derive(Clone, PartialEq, Eq)]
struct Parameter {
    raw: String,
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Target {
    /// Splits `text` at the first `?` and then at each `&`.
    pub(super) fn new(text: &str) -> Self {
        match text.split_once('?') {
            Some((path, query)) => {
                Self { path: path.to_owned(), query: Some(query.split('&').map(Parameter::new).collect()) }
            }
            None => Self { path: text.to_owned(), query: None },
        }
    }

    /// The path, as received.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Whether there is a parameter with this name, in any case.
    pub(super) fn has(&self, name: &str) -> bool {
        self.parameters().any(|parameter| parameter.is(name))
    }

    /// The value of the parameter with this name, in any case.
    ///
    /// # Errors
    ///
    /// When there are several, or when it is not visible ASCII, of which every part of a signature
    /// consists.
    pub(super) fn value(&self, name: &'static str) -> Result<Option<&str>, SignError> {
        let mut found = self.parameters().filter(|parameter| parameter.is(name));
        let Some(parameter) = found.next() else {
            return Ok(None);
        };
        if found.next().is_some() {
            return Err(SignError::Ambiguous(name));
        }
        str::from_utf8(&parameter.value)
            .ok()
            .filter(|value| value.bytes().all(|byte| byte.is_ascii_graphic()))
            .map(Some)
            .ok_or(SignError::Malformed("a parameter is not visible ASCII"))
    }

    /// Changes the value of the parameters with this name; `change` makes the new value from the
    /// bytes of the old one and must encode it.
    pub(super) fn change(&mut self, name: &str, change: impl Fn(&str) -> String) {
        for parameter in self.query.iter_mut().flatten() {
            if parameter.is(name) {
                let (raw_name, raw_value) = halves(&parameter.raw);
                *parameter = Parameter::new(&format!("{raw_name}={}", change(raw_value)));
            }
        }
    }

    /// Removes the parameters with this name.
    pub(super) fn remove(&mut self, name: &str) {
        let Some(parameters) = &mut self.query else {
            return;
        };
        let before = parameters.len();
        parameters.retain(|parameter| !parameter.is(name));
        if parameters.is_empty() && before > 0 {
            self.query = None;
        }
    }

    /// The query as it is signed: decoded and re-encoded, sorted by name and value, without the
    /// parameters named in `except`.
    pub(super) fn canonical_query(&self, except: &[&str]) -> String {
        let mut pairs: Vec<(String, String)> = self
            .parameters()
            .filter(|parameter| !parameter.raw.is_empty())
            .filter(|parameter| !except.iter().any(|name| parameter.is(name)))
            .map(|parameter| (encoded(&parameter.name), encoded(&parameter.value)))
            .collect();
        pairs.sort();
        pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
    }

    fn parameters(&self) -> impl Iterator<Item = &Parameter> {
        self.query.iter().flatten()
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        let mut separator = '?';
        for parameter in self.parameters() {
            write!(f, "{separator}{}", parameter.raw)?;
            separator = '&';
        }
        Ok(())
    }
}

impl Parameter {
    fn new(raw: &str) -> Self {
        let (name, value) = halves(raw);
        Self { name: decoded_parameter(name), value: decoded_parameter(value), raw: raw.to_owned() }
    }

    fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }
}

fn halves(raw: &str) -> (&str, &str) {
    raw.split_once('=').unwrap_or((raw, ""))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn canonical_query_is_sorted_and_encoded() {
        let table = [
            ("/", ""),
            ("/?", ""),
            ("/?b=2&a=1&a=0", "a=0&a=1&b=2"),
            ("/?a=1&a=1", "a=1&a=1"),
            ("/?acl", "acl="),
            ("/?&&x=1&", "x=1"),
            ("/?Param-3=3&Param=2", "Param=2&Param-3=3"),
            ("/?a=b=c", "a=b%3Dc"),
            ("/?a=x+y&b=x%20y&c=x%2By", "a=x%20y&b=x%20y&c=x%2By"),
            ("/?a=%7e%41%2f", "a=~A%2F"),
            ("/?a=100%", "a=100%25"),
            ("/?X-AMZ-signature=1&b=2", "b=2"),
            ("/?X%2DAmz%2DSignature=1&b=2", "b=2"),
        ];
        for (target, canonical) in table {
            assert_eq!(Target::new(target).canonical_query(&["x-amz-signature"]), canonical, "{target}");
        }
    }

    #[test]
    fn removed_parameters_leave_no_trace() {
        let table = [
            ("/?t=1", "/"),
            ("/?t=1&a=%2f", "/?a=%2f"),
            ("/?a=+&T=1", "/?a=+"),
            ("/?a&t=1&t=2&&b", "/?a&&b"),
            ("/?", "/?"),
        ];
        for (before, after) in table {
            let mut target = Target::new(before);
            target.remove("t");
            assert_eq!(target.to_string(), after, "{before}");
        }
    }

    #[test]
    fn repeated_or_malformed_parameter_is_an_error() {
        let target = Target::new("/?a=1&A=2&b=%0A&c=%2f");
        assert_eq!(target.value("a"), Err(SignError::Ambiguous("a")));
        assert!(matches!(target.value("b"), Err(SignError::Malformed(_))));
        assert_eq!(target.value("c"), Ok(Some("/")));
        assert_eq!(target.value("d"), Ok(None));
    }

    proptest! {
        #[test]
        fn target_survives_a_round_trip(text in any::<String>()) {
            prop_assert_eq!(Target::new(&text).to_string(), text);
        }
    }
}

//! Removes fields from header maps without changing the order of the others.
//!
//! Invariant: a field is removed only here, or when a map is rebuilt. `HeaderMap::remove` would
//! move the last field to the place of the removed one; `clippy.toml` forbids it.

use http::{HeaderMap, HeaderName};

/// The fields whose names satisfy `kept`, in their order.
pub(crate) fn only(headers: &HeaderMap, kept: impl Fn(&HeaderName) -> bool) -> HeaderMap {
    let mut left = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers.iter().filter(|(name, _)| kept(name)) {
        left.append(name.clone(), value.clone());
    }
    left
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn lines(headers: &HeaderMap) -> String {
        let lines = headers.iter().map(|(name, value)| format!("{name}={}", value.to_str().unwrap()));
        lines.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn remaining_fields_keep_their_order() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("a", "1"),
            ("gone", "1"),
            ("b", "1"),
            ("gone-too", "1"),
            ("c", "1"),
            ("a", "2"),
            ("gone", "2"),
            ("d", "1"),
            ("c", "2"),
            ("e", "1"),
        ] {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let left = only(&headers, |name| !name.as_str().starts_with("gone"));
        assert_eq!(lines(&left), "a=1 a=2 b=1 c=1 c=2 d=1 e=1");
        #[expect(clippy::disallowed_methods, reason = "the control")]
        for name in ["gone", "gone-too"] {
            headers.remove(name);
        }
        assert_eq!(lines(&headers), "a=1 a=2 e=1 b=1 d=1 c=1 c=2");
    }
}

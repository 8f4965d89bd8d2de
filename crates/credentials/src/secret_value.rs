//! A secret in memory.

use std::fmt;

use subtle::ConstantTimeEq;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// A secret. It is zeroed on drop, its `Debug` does not show it, it has no `Display` and cannot be
/// serialised, and the time of a comparison reveals only whether the lengths differ.
///
/// ```
/// let token = sandbox_credentials::SecretValue::new("ghp_example");
/// assert_eq!(token.expose(), "ghp_example");
/// assert_eq!(format!("{token:?}"), "SecretValue(redacted)");
/// ```
///
/// Neither of these compiles:
///
/// ```compile_fail,E0277
/// format!("{}", sandbox_credentials::SecretValue::new("ghp_example"));
/// ```
///
/// ```compile_fail,E0277
/// serde_json::to_string(&sandbox_credentials::SecretValue::new("ghp_example"));
/// ```
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct SecretValue(String);

impl SecretValue {
    /// Takes ownership of a secret. A borrowed text is copied; its owner must zero the original.
    #[must_use]
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The secret itself. Callers must not print it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl PartialEq for SecretValue {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_bytes().ct_eq(other.0.as_bytes()).into()
    }
}

impl Eq for SecretValue {}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretValue(redacted)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_form_hides_the_value_even_nested_or_pretty() {
        let secret = SecretValue::new("hunter2");
        for text in [format!("{secret:?}"), format!("{secret:#?}"), format!("{:?}", Some(vec![secret]))] {
            assert!(text.contains("redacted") && !text.contains("hunter2"), "{text}");
        }
    }

    #[test]
    fn equality_compares_bytes() {
        for (left, right, expected) in [
            ("", "", true),
            ("a", "a", true),
            ("a", "b", false),
            ("a", "ab", false),
            ("ab", "a", false),
            ("é", "é", true),
            ("é", "e\u{301}", false),
        ] {
            assert_eq!(SecretValue::new(left) == SecretValue::new(right), expected, "{left} {right}");
        }
    }

    #[test]
    fn zeroized_value_is_empty() {
        let mut secret = SecretValue::new("hunter2");
        secret.zeroize();
        assert!(secret.is_empty() && !SecretValue::new("x").is_empty());
    }

    #[test]
    fn value_is_zeroized_on_drop() {
        fn wipes_on_drop<T: ZeroizeOnDrop>() -> bool {
            std::mem::needs_drop::<T>()
        }
        assert!(wipes_on_drop::<SecretValue>());
    }
}

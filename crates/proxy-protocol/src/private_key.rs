//! A private key in transit to the proxy.

use std::fmt;

use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, ZeroizeOnDrop};

/// A private key in PEM. It is not shown by `Debug` and is zeroed on drop.
#[derive(Serialize, Deserialize, Zeroize, ZeroizeOnDrop)]
#[serde(transparent)]
pub struct PrivateKeyPem(String);

impl PrivateKeyPem {
    /// Takes ownership of a key.
    #[must_use]
    pub fn new(pem: String) -> Self {
        Self(pem)
    }

    /// The key itself. Callers must not print it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PrivateKeyPem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKeyPem(redacted)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_form_hides_the_key() {
        assert_eq!(format!("{:?}", PrivateKeyPem::new("MIGH".to_owned())), "PrivateKeyPem(redacted)");
    }
}

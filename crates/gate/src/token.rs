//! The credential of the server's clients.

use std::fmt;

use subtle::ConstantTimeEq as _;

/// A password for a server, valid for its lifetime. Clients send it with HTTP's basic
/// authentication, under any user name.
#[derive(Clone)]
pub struct GateToken(String);

impl GateToken {
    /// A new token with 128 random bits.
    #[must_use]
    pub fn mint() -> Self {
        Self(format!("sandbox-gate-{:032x}", rand::random::<u128>()))
    }

    /// The token itself.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    pub(crate) fn is(&self, password: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(password).into()
    }
}

impl fmt::Debug for GateToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GateToken(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_unique_and_not_shown() {
        let (one, two) = (GateToken::mint(), GateToken::mint());
        assert!(one.is(one.expose().as_bytes()) && !one.is(two.expose().as_bytes()) && !one.is(b""));
        assert_eq!(one.expose().len(), "sandbox-gate-".len() + 32);
        assert_eq!(format!("{one:?}"), "GateToken(..)");
    }
}

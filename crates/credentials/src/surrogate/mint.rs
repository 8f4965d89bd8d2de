//! Unique surrogates of one task.

use std::collections::HashSet;

use rand::CryptoRng;

use super::form::{Form, random};
use crate::{SecretError, SecretValue};

/// Maximum number of draws before a value counts as too short for a surrogate. With sixteen random
/// characters the first draw succeeds.
const ATTEMPTS: usize = 1000;
/// Number of letters and digits after a given start: the length of an elliptic-curve signature of a
/// token.
const RANDOM_LENGTH: usize = 86;

/// Creates the surrogates of one task. None is equal to another or to any real value of the task,
/// or contains its own real value.
pub(crate) struct Mint<'a, R> {
    real: HashSet<&'a str>,
    minted: HashSet<String>,
    rng: &'a mut R,
}

impl<'a, R: CryptoRng> Mint<'a, R> {
    /// A mint for the task that has the secrets `real`.
    pub(crate) fn new(real: impl IntoIterator<Item = &'a SecretValue>, rng: &'a mut R) -> Self {
        Self { real: real.into_iter().map(SecretValue::expose).collect(), minted: HashSet::new(), rng }
    }

    /// A surrogate for `value`, for the variable `variable`.
    pub(crate) fn surrogate(
        &mut self,
        form: Form,
        variable: &str,
        value: &SecretValue,
    ) -> Result<String, SecretError> {
        self.unique(variable, value, |rng| form.draw(value.expose(), rng))
    }

    /// The same, in another form: `start`, and random letters and digits.
    pub(crate) fn beginning_with(
        &mut self,
        start: &str,
        variable: &str,
        value: &SecretValue,
    ) -> Result<String, SecretError> {
        self.unique(variable, value, |rng| format!("{start}{}", random(RANDOM_LENGTH, rng)))
    }

    fn unique(
        &mut self,
        variable: &str,
        value: &SecretValue,
        draw: impl Fn(&mut R) -> String,
    ) -> Result<String, SecretError> {
        for _ in 0..ATTEMPTS {
            let surrogate = draw(self.rng);
            let shows = surrogate.contains(value.expose()) || self.real.contains(surrogate.as_str());
            if !shows && self.minted.insert(surrogate.clone()) {
                return Ok(surrogate);
            }
        }
        Err(SecretError::TooShort { variable: variable.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use rand::{SeedableRng, TryCryptoRng, TryRng, rngs::StdRng};

    use super::*;

    /// Yields the same number for a while, then others.
    struct Stuck {
        draws: u32,
        until: u32,
        then: StdRng,
    }

    impl TryRng for Stuck {
        type Error = Infallible;

        fn try_next_u32(&mut self) -> Result<u32, Infallible> {
            self.draws += 1;
            if self.draws <= self.until {
                return Ok(0);
            }
            self.then.try_next_u32()
        }

        fn try_next_u64(&mut self) -> Result<u64, Infallible> {
            Ok(u64::from(self.try_next_u32()?))
        }

        fn try_fill_bytes(&mut self, target: &mut [u8]) -> Result<(), Infallible> {
            target.fill(0);
            Ok(())
        }
    }

    impl TryCryptoRng for Stuck {}

    fn stuck(until: u32) -> Stuck {
        Stuck { draws: 0, until, then: StdRng::seed_from_u64(7) }
    }

    /// The result of a stuck generator for twenty lower-case letters.
    const ZEROS: &str = "aaaaaaaaaaaaaaaaaaaa";

    #[test]
    fn surrogate_is_never_a_real_value() {
        let value = SecretValue::new(ZEROS);
        assert_eq!(
            Form::Key.draw("zzzzzzzzzzzzzzzzzzzz", &mut stuck(20)),
            ZEROS,
            "the control: the generator draws it"
        );
        // Letters a to f of one case are hexadecimal, hence the second word.
        let other = SecretValue::new("zzzzzzzzzzzzzzzzzzzz");
        let mut rng = stuck(20);
        let mut mint = Mint::new([&value, &other], &mut rng);
        let surrogate = mint.surrogate(Form::Token, "X", &other).unwrap();
        assert_ne!(surrogate, ZEROS);
        assert!(rng.draws >= 40, "it was drawn and refused: {}", rng.draws);
    }

    #[test]
    fn surrogate_is_never_drawn_twice() {
        let value = SecretValue::new("zzzzzzzzzzzzzzzzzzzz");
        let mut rng = stuck(40);
        let mut mint = Mint::new([&value], &mut rng);
        assert_eq!(mint.surrogate(Form::Token, "X", &value).unwrap(), ZEROS);
        assert_ne!(mint.surrogate(Form::Token, "Y", &value).unwrap(), ZEROS);
        assert!(rng.draws >= 60);
    }

    #[test]
    fn key_without_a_possible_surrogate_is_an_error() {
        for text in ["-", "AKIA", "////"] {
            let value = SecretValue::new(text);
            let mut rng = StdRng::seed_from_u64(1);
            let mut mint = Mint::new([&value], &mut rng);
            let expected = SecretError::TooShort { variable: "KEY".to_owned() };
            assert_eq!(mint.surrogate(Form::Key, "KEY", &value), Err(expected), "{text}");
            assert!(
                mint.surrogate(Form::Token, "KEY", &value).is_err(),
                "{text} would stand in its surrogate"
            );
        }
    }

    #[test]
    fn short_key_exhausts_its_surrogates() {
        let value = SecretValue::new("7");
        let mut rng = StdRng::seed_from_u64(1);
        let mut mint = Mint::new([&value], &mut rng);
        let minted: HashSet<String> =
            (0..9).map(|_| mint.surrogate(Form::Key, "KEY", &value).unwrap()).collect();
        assert_eq!(minted.len(), 9);
        assert!(!minted.contains("7"));
        assert!(mint.surrogate(Form::Key, "KEY", &value).is_err());
    }
}

//! A secret that a container holds a surrogate of.

use crate::{Injection, SecretValue};

/// A secret that requests carry in a header.
#[derive(Debug, Clone)]
pub struct MaskedSecret {
    pub(crate) variable: String,
    pub(crate) value: SecretValue,
    pub(crate) injection: Injection,
}

impl MaskedSecret {
    /// The secret `value`, whose surrogate the container has in the environment variable `variable`. If it is empty, so is the variable.
    #[must_use]
    pub fn new(variable: impl Into<String>, value: SecretValue, injection: Injection) -> Self {
        Self { variable: variable.into(), value, injection }
    }
}

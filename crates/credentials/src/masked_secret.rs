//! A secret that a container holds a surrogate of.

use crate::{Injection, SecretValue};

/// A secret that requests carry in a header.
#[derive(Debug, Clone)]
pub struct MaskedSecret {
    pub(crate) variable: String,
    pub(crate) value: SecretValue,
    pub(crate) injection: Injection,
    /// What the surrogate begins with; the caller writes it into a file.
    pub(crate) in_file: Option<String>,
}

impl MaskedSecret {
    /// The secret `value`, whose surrogate the container has in the environment variable
    /// `variable`. If it is empty, so is the variable.
    #[must_use]
    pub fn new(variable: impl Into<String>, value: SecretValue, injection: Injection) -> Self {
        Self { variable: variable.into(), value, injection, in_file: None }
    }

    /// A secret whose surrogate the caller writes into a file of the container: no variable has it,
    /// and [`PreparedSecrets::surrogate`](crate::PreparedSecrets::surrogate) knows it by `name`. It
    /// is `start` and random letters and digits where `start` is not empty, else of the form of
    /// `value`.
    #[must_use]
    pub fn in_file(
        name: impl Into<String>,
        value: SecretValue,
        injection: Injection,
        start: impl Into<String>,
    ) -> Self {
        Self { in_file: Some(start.into()), ..Self::new(name, value, injection) }
    }
}

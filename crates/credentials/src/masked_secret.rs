//! A secret that is represented by a surrogate in a container.

use crate::{Injection, SecretValue};

/// A secret that requests carry in a header.
#[derive(Debug, Clone)]
pub struct MaskedSecret {
    pub(crate) variable: String,
    pub(crate) value: SecretValue,
    pub(crate) injection: Injection,
    /// The start of a surrogate that the caller writes into a file.
    pub(crate) in_file: Option<String>,
}

impl MaskedSecret {
    /// The secret `value`, whose surrogate is in the container's environment variable `variable`.
    /// If it is empty, so is the variable.
    #[must_use]
    pub fn new(variable: impl Into<String>, value: SecretValue, injection: Injection) -> Self {
        Self { variable: variable.into(), value, injection, in_file: None }
    }

    /// A secret whose surrogate the caller writes into a file of the container instead of a
    /// variable: [`PreparedSecrets::surrogate`](crate::PreparedSecrets::surrogate) returns it by
    /// `name`. It consists of `start` and random letters and digits if `start` is not empty, else
    /// it has the form of `value`.
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

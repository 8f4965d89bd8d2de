//! Errors in a specification.

/// An invalid value, with its field and a fix.
#[derive(Debug, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct InvalidSpec {
    field: String,
    problem: String,
}

impl InvalidSpec {
    /// Refuses the value of `field` because of `problem`, which also names valid values.
    pub fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { field: field.into(), problem: problem.into() }
    }

    /// The invalid field, by its name in `sandbox.yaml`.
    #[must_use]
    pub fn field(&self) -> &str {
        &self.field
    }

    /// The problem and how to fix it.
    #[must_use]
    pub fn problem(&self) -> &str {
        &self.problem
    }
}

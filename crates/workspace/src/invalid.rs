//! What is wrong with a specification.

/// A value that cannot be used, where it is and how to fix it.
#[derive(Debug, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct InvalidSpec {
    field: String,
    problem: String,
}

impl InvalidSpec {
    /// The value `field` is refused because of `problem`, which says what to write instead.
    pub fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { field: field.into(), problem: problem.into() }
    }

    /// The field that is wrong, as it is called in `sandbox.yaml`.
    #[must_use]
    pub fn field(&self) -> &str {
        &self.field
    }

    /// What is wrong with it and how to fix it.
    #[must_use]
    pub fn problem(&self) -> &str {
        &self.problem
    }
}

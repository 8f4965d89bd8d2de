//! The result of a check.

use serde::{Deserialize, Serialize};

use crate::Check;

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Finding {
    /// The check.
    pub check: Check,
    /// Whether the guarantee holds. It does not if the check could not be run.
    pub held: bool,
    /// The observation. Parts of it come from the container.
    pub detail: String,
}

impl Finding {
    /// The result of `check`.
    #[must_use]
    pub fn new(check: Check, held: bool, detail: impl Into<String>) -> Self {
        Self { check, held, detail: detail.into() }
    }
}

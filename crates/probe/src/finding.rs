//! What a check came to.

use serde::{Deserialize, Serialize};

use crate::Category;

/// What a check came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The check's name.
    pub id: String,
    /// What it is about.
    pub category: Category,
    /// Whether the promise holds. A check that could not be made does not.
    pub held: bool,
    /// What was seen.
    pub detail: String,
}

//! What a policy offers of this.

use located_yaml::InvalidFile;
use serde::Deserialize;
use serde::Deserializer;

use super::document;
use super::json;
use super::yaml;
use crate::policy::Allowlist;

impl Allowlist {
    /// Reads the YAML form; `file` only labels errors. An empty document is an empty policy.
    ///
    /// # Errors
    ///
    /// Anything but a policy in which every rule can match something: the error names line, column and the fix.
    pub fn from_yaml(text: &str, file: &str) -> Result<Self, InvalidFile> {
        document::from_yaml(text, file)
    }

    /// Reads the JSON form; `file` only labels errors.
    ///
    /// # Errors
    ///
    /// As [`Allowlist::from_yaml`].
    pub fn from_json(text: &str, file: &str) -> Result<Self, InvalidFile> {
        json::from_json(text, file)
    }

    /// Writes the YAML form.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        yaml::to_yaml(self)
    }

    /// Writes the JSON form.
    #[must_use]
    pub fn to_json(&self) -> String {
        json::to_json(self)
    }
}

impl<'de> Deserialize<'de> for Allowlist {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        document::deserialize(deserializer)
    }
}

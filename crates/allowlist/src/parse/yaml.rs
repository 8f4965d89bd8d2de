//! The YAML form.

use crate::policy::Allowlist;

impl Allowlist {
    /// Writes the YAML form.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        match serde_yaml::to_string(self) {
            Ok(text) => text,
            Err(error) => unreachable!("a policy is made of texts and lists, which YAML can hold: {error}"),
        }
    }
}

#[cfg(test)]
mod tests;

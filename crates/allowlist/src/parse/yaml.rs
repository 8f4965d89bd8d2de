//! The YAML form.

use crate::policy::Allowlist;

/// Writes the YAML form.
pub(crate) fn to_yaml(policy: &Allowlist) -> String {
    match serde_yaml::to_string(policy) {
        Ok(text) => text,
        Err(error) => unreachable!("a policy is made of texts and lists, which YAML can hold: {error}"),
    }
}

#[cfg(test)]
mod tests;

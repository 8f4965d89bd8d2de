//! Environment variables of a container.

use std::collections::BTreeMap;
use std::fmt;

use super::InvalidSpec;

/// Environment variables of a container. `Debug` shows names, never values.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ContainerEnv(BTreeMap<String, String>);

impl ContainerEnv {
    /// Variables from a map of names to values.
    #[must_use]
    pub fn new(variables: BTreeMap<String, String>) -> Self {
        Self(variables)
    }

    /// Sets one variable.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.0.insert(name.into(), value.into());
        self
    }

    /// Adds the variables of `other`, which override those already set.
    #[must_use]
    pub fn merge(mut self, other: &BTreeMap<String, String>) -> Self {
        self.0.extend(other.iter().map(|(name, value)| (name.clone(), value.clone())));
        self
    }

    /// Names and values.
    #[must_use]
    pub fn variables(&self) -> &BTreeMap<String, String> {
        &self.0
    }

    pub(crate) fn validate(&self) -> Result<(), InvalidSpec> {
        for (name, value) in &self.0 {
            if name.is_empty() || name.contains(['=', '\0']) {
                return Err(InvalidSpec::new(
                    "env",
                    format!("`{}` is not the name of a variable", name.escape_debug()),
                ));
            }
            if value.contains('\0') {
                return Err(InvalidSpec::new("env", format!("the value of `{name}` holds a NUL character")));
            }
        }
        Ok(())
    }
}

impl fmt::Debug for ContainerEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for ContainerEnv {
    fn from_iter<T: IntoIterator<Item = (N, V)>>(variables: T) -> Self {
        Self(variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_names_only() {
        let env = ContainerEnv::default().with("TOKEN", "hunter2");
        assert_eq!(format!("{env:?}"), r#"{"TOKEN"}"#);
    }

    #[test]
    fn name_or_value_that_no_process_can_have_is_refused() {
        assert!(ContainerEnv::default().with("A=B", "").validate().is_err());
        assert!(ContainerEnv::default().with("", "x").validate().is_err());
        let error = ContainerEnv::default().with("A", "hun\0ter2").validate().unwrap_err().to_string();
        assert!(!error.contains("ter2"), "{error}");
    }
}

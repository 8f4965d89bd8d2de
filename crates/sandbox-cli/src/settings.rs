//! The settings: command line, environment and `sandbox.yaml`, combined once.

mod build;
mod bundled;
mod defaults;
mod devcontainer;
#[cfg(test)]
mod fixtures;
mod image;
mod mounts;
mod new_files;
mod of_bundle;
mod policy;
mod project;
mod review;
mod ssh;
mod task;
mod variables;
mod verification;

pub(crate) use defaults::login_of;
pub(crate) use new_files::NewFiles;
pub(crate) use of_bundle::BundleFolders;
pub(crate) use policy::PolicyFile;
pub(crate) use project::Project;
pub(crate) use review::{Needs, TrustedProject};
pub(crate) use ssh::SshSettings;
pub(crate) use task::TaskSettings;
pub(crate) use verification::VerifySettings;

/// The mount point of the work tree.
const WORKSPACE: &str = "/workspace";

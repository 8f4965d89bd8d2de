//! `bundle …`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{AgentTaskArgs, ImageArgs, OnceArgs, Output, PolicyArgs};

#[derive(Debug, Subcommand)]
pub(crate) enum BundleCommand {
    /// Pack a command, its policy and the files of the project into one file
    ///
    /// In a git work tree, the files are those that git tracks, as they are now, and new ones that it
    /// does not ignore; without git, all. Of credentials, a bundle has only the variables, hosts and
    /// headers: values are given where it runs. It has no git history. Settings that cannot travel,
    /// such as mounts, are errors.
    ///
    /// A secret in a packed file travels with it: look at `sandbox bundle list` first.
    ///
    /// Prints the bundle's digest; the same files and settings give the same bytes. `sandbox run
    /// --bundle` runs it.
    #[command(after_help = "\
Example:
  sandbox bundle create -o ../tests.bundle --timeout 10m -- cargo test")]
    Create(Box<CreateBundleArgs>),
    /// Pack an agent's prompt, its policy and the files of the project into one file
    ///
    /// The agent gets the policy that `sandbox agent` would give it here, and its API key where the bundle
    /// runs. It starts a new session. If the image lacks the agent, run the bundle with --agent-bin. Files
    /// and secrets: as for `create`.
    #[command(after_help = "\
Example:
  sandbox bundle agent -o ../fix.bundle --timeout 30m \"fix the failing test\"")]
    Agent(Box<AgentBundleArgs>),
    /// List the paths that would be packed
    List,
    /// Verify every byte of a bundle, and show what it contains and what it needs
    ///
    /// Compare the digest with the one that `sandbox bundle` printed: another manifest is
    /// another, valid bundle.
    Show(ShowBundleArgs),
}

#[derive(Debug, Args)]
pub(crate) struct CreateBundleArgs {
    #[command(flatten)]
    pub(crate) pack: PackArgs,
    /// Program and its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct AgentBundleArgs {
    #[command(flatten)]
    pub(crate) agent_task: AgentTaskArgs,
    #[command(flatten)]
    pub(crate) pack: PackArgs,
}

/// Everything of a bundle but what is run.
#[derive(Debug, Args)]
#[command(
    mut_arg("image", |arg| arg.help("Name this image, which the engine that runs the bundle must have")),
    mut_arg("dockerfile", |arg| arg.help("Name the image that is built from this file [default: .sandbox/container/Dockerfile]")),
    mut_arg("max_image_age", |arg| arg.hide(true)),
    mut_arg("variables", |arg| arg.help("Set a variable; NAME alone gets its value where the bundle runs")),
)]
pub(crate) struct PackArgs {
    #[command(flatten)]
    pub(crate) image: ImageArgs,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    #[command(flatten)]
    pub(crate) once: OnceArgs,
    /// Write the bundle to this file outside of the project, or replace it
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output_file: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct ShowBundleArgs {
    /// Bundle to read
    pub(crate) file: PathBuf,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

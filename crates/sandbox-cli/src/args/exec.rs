//! `exec`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::ImageArgs;

#[derive(Debug, Args)]
#[command(after_help = "\
The command runs as user 1000, without any capability, with one processor, 512 MiB of memory and 100 processes. It can write to its \
home, /tmp, /var/tmp, /run and /dev/shm, which are small, in memory, and gone after it, and with --workspace rw to the current folder; \
nothing else. It gets none of the variables and credentials of the configuration. stdin, \
stdout and stderr are passed through byte for byte.

Example: sandbox exec --workspace ro -- bash -c 'pytest -q'")]
pub(crate) struct ExecArgs {
    #[command(flatten)]
    pub(crate) image: ImageArgs,
    /// Time limit; exit code 124 when it is reached
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) timeout: u64,
    /// Access to the current folder, at /workspace
    #[arg(long, value_enum, default_value_t)]
    pub(crate) workspace: WorkspaceAccess,
    /// Allow the current folder to be a home folder or a system folder such as /usr/src
    #[arg(long)]
    pub(crate) allow_system_mounts: bool,
    /// Allow writing what programs of this machine run on their own: git's hooks, .envrc, .claude and the like
    #[arg(long)]
    pub(crate) unprotected: bool,
    /// Network access
    #[arg(long, value_enum, default_value_t)]
    pub(crate) network: ExecNetwork,
    /// Allowlist file for --network sandboxed [default: .sandbox/network-allowlist.yaml]
    #[arg(long, value_name = "FILE")]
    pub(crate) allowlist: Option<PathBuf>,
    /// Set a variable; NAME alone passes on the one that is set here
    #[arg(short = 'e', long = "env", value_name = "NAME[=VALUE]")]
    pub(crate) variables: Vec<String>,
    /// Write what the sandbox itself does to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// Program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<String>,
}

/// How a command sees the current folder.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum WorkspaceAccess {
    /// No access
    None,
    /// Read only
    Ro,
    /// Read and write, as far as user 1000 may. What programs of this machine run on their own is protected
    #[default]
    Rw,
}

/// What a command may reach.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExecNetwork {
    /// Nothing
    #[default]
    None,
    /// What the allowlist permits
    Sandboxed,
}

//! `exec`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::ImageArgs;
use crate::config::limit;

/// Flags whose settings an active run already has.
const NOT_IN_RUN: [&str; 12] = [
    "image",
    "dockerfile",
    "context",
    "max_image_age",
    "timeout",
    "workspace",
    "allow_system_mounts",
    "unprotected",
    "network",
    "allowlist",
    "variables",
    "log",
];

#[derive(Debug, Args)]
#[command(after_help = "\
The command runs as user 1000, without any capability, with one processor, 512 MiB of memory and \
100 processes. It can write to its home, /tmp, /var/tmp, /run and /dev/shm, which are small, in \
memory and discarded at its end, and with --workspace rw to the current folder, but nowhere else. \
It gets no variables or credentials from the configuration. stdin, stdout and stderr are passed \
through byte for byte.

With --run, the command runs in the container of an active run, next to its program, with the same \
user, rights, variables (including surrogates of credentials), limits and network. It ends when \
`sandbox exec` gets a signal, or with the run.

Examples:
  sandbox exec --workspace ro -- bash -c 'pytest -q'
  sandbox exec --run 3f9a -t -- bash")]
pub(crate) struct ExecArgs {
    /// Run it in this run, by its id in `sandbox ps` or a prefix of it
    #[arg(long, value_name = "RUN", conflicts_with_all = NOT_IN_RUN)]
    pub(crate) run: Option<String>,
    /// Connect it to this terminal
    #[arg(short = 't', long = "tty", requires = "run")]
    pub(crate) terminal: bool,
    /// Accepted for users of `-it`; stdin is always passed on.
    #[arg(short = 'i', long = "interactive", hide = true, action = clap::ArgAction::Count)]
    pub(crate) _interactive: u8,
    #[command(flatten)]
    pub(crate) image: ImageArgs,
    /// Time limit, such as 90s, 10m or 2h; exit code 124 when it is reached
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = limit)]
    pub(crate) timeout: Duration,
    /// Access to the current folder, at /workspace
    #[arg(long, value_enum, default_value_t)]
    pub(crate) workspace: WorkspaceAccess,
    /// Allow the current folder to be a home folder or a system folder such as /usr/src
    #[arg(long)]
    pub(crate) allow_system_mounts: bool,
    /// Allow writing files that host tools execute implicitly: git's hooks, .envrc, .claude and
    /// similar
    #[arg(long)]
    pub(crate) unprotected: bool,
    /// Network access
    #[arg(long, value_enum, default_value_t)]
    pub(crate) network: ExecNetwork,
    /// Allowlist file for --network sandboxed [default: .sandbox/network-allowlist.yaml]
    #[arg(long, value_name = "FILE")]
    pub(crate) allowlist: Option<PathBuf>,
    /// Set a variable; NAME alone passes on its value in your environment
    #[arg(short = 'e', long = "env", value_name = "NAME[=VALUE]")]
    pub(crate) variables: Vec<String>,
    /// Write the sandbox's own log to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// Program and its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<String>,
}

/// A command's access to the current folder.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum WorkspaceAccess {
    /// No access
    None,
    /// Read only
    Ro,
    /// Read and write, with the permissions of user 1000; files that host tools execute implicitly
    /// are protected
    #[default]
    Rw,
}

/// A command's network access.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExecNetwork {
    /// Nothing
    #[default]
    None,
    /// Only what the allowlist permits
    Sandboxed,
}

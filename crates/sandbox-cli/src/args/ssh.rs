//! `ssh …`.

use clap::{Args, Subcommand};

use super::Output;

#[derive(Debug, Subcommand)]
pub(crate) enum SshCommand {
    /// Create a key unless the scope has one, and print its public line
    Init(SshInitArgs),
    /// List the scope's keys
    List(SshListArgs),
    /// Replace all keys of the scope with a new one, and print its public line
    Rotate(SshRotateArgs),
    /// Remove the scope's keys
    Remove(SshScopeArgs),
    /// Print the public lines of the scope's keys
    Public(SshScopeArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SshScopeArgs {
    /// Scope of the keys [default: `ssh.scope` of the configuration]
    pub(crate) scope: Option<String>,
}

/// Where the passphrase comes from.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct SshUnlockArgs {
    /// Take the passphrase from the key `sandbox-ssh` of the kernel's keyring: `keyctl padd user
    /// sandbox-ssh @u`
    #[arg(long)]
    pub(crate) keyring: bool,
    /// Take the passphrase from this variable
    #[arg(long, value_name = "NAME")]
    pub(crate) passphrase_env: Option<String>,
    /// Take the passphrase from the first line of this command's output; it runs without a shell,
    /// and must be the last option, as in --passphrase-command pass show ssh
    #[arg(long, value_name = "COMMAND", num_args = 1.., allow_hyphen_values = true)]
    pub(crate) passphrase_command: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct SshInitArgs {
    #[command(flatten)]
    pub(crate) scope: SshScopeArgs,
    /// Create another key, with this comment
    #[arg(long, value_name = "TEXT")]
    pub(crate) comment: Option<String>,
    #[command(flatten)]
    pub(crate) unlock: SshUnlockArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SshRotateArgs {
    #[command(flatten)]
    pub(crate) scope: SshScopeArgs,
    #[command(flatten)]
    pub(crate) unlock: SshUnlockArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SshListArgs {
    #[command(flatten)]
    pub(crate) scope: SshScopeArgs,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

//! What `run` and `agent` have in common.

use std::path::PathBuf;

use clap::Args;
use sandbox::{InvalidSpec, Mount};

use crate::config::WorkspaceMode;

#[derive(Debug, Default, Args)]
pub(crate) struct ImageArgs {
    /// An image that the engine has
    #[arg(long, value_name = "NAME", conflicts_with_all = ["dockerfile", "context"])]
    pub(crate) image: Option<String>,
    /// Build the image from this file [default: .sandbox/container/Dockerfile]
    #[arg(long, value_name = "FILE")]
    pub(crate) dockerfile: Option<PathBuf>,
    /// Build context folder [default: the Dockerfile's]
    #[arg(long, value_name = "DIR")]
    pub(crate) context: Option<PathBuf>,
    /// Rebuild an image that is older; 0: always [default: a day]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) max_image_age: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct TaskArgs {
    #[command(flatten)]
    pub(crate) image: ImageArgs,
    /// Allowlist file [default: .sandbox/network-allowlist.yaml]
    #[arg(long, value_name = "FILE")]
    pub(crate) allowlist: Option<PathBuf>,
    /// Time limit; exit code 124 when it is reached
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) timeout: Option<u64>,
    /// Mount a file or folder of this machine; :ro for read-only
    #[arg(long = "mount", value_name = "SRC:DST[:ro]", value_parser = mount)]
    pub(crate) mounts: Vec<Mount>,
    /// Allow mounts of `/`, home folders and system folders such as /etc
    #[arg(long)]
    pub(crate) allow_system_mounts: bool,
    /// What the task works on [default: auto for `agent`, direct for `run`]
    #[arg(long, value_enum, value_name = "MODE")]
    pub(crate) workspace: Option<WorkspaceMode>,
    /// Allow writing what programs of this machine run on their own: git's hooks, .envrc, .claude and the like
    #[arg(long)]
    pub(crate) unprotected: bool,
    /// Also write the network log to this file, and FILE.jsonl for programs
    #[arg(long, value_name = "FILE")]
    pub(crate) network_log: Option<PathBuf>,
    /// Show the network log on stderr as it grows
    #[arg(long)]
    pub(crate) network_log_live: bool,
    /// Write what the sandbox itself does to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
}

/// The error already names the flag.
fn mount(text: &str) -> Result<Mount, String> {
    text.parse().map_err(|error: InvalidSpec| error.problem().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_that_is_none_is_reported_without_the_name_of_a_key() {
        assert_eq!(mount("a:/b"), Ok(Mount::read_write("a", "/b")));
        assert!(mount("a").unwrap_err().starts_with("`a` is not a mount; write SRC:DST"));
    }
}

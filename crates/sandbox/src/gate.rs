//! Bare repositories of the host that tasks fetch from and push to, and mirrors of upstreams.
//!
//! In a task a repository is `http://gate/NAME.git`, served by `git http-backend` of the host (git
//! 2.32 or later) over a socket that only the task's proxy sees. The allowlist decides which
//! fetches and pushes are permitted. No hooks run, and refs that a push rewrites or deletes are
//! kept below `refs/sandbox/backup/`. On the host the repository is at [`Repository::path`], from
//! where `git fetch` gets the commits of a task.
//!
//! ```
//! use sandbox::gate::Rewrites;
//! use sandbox::{CommandSpec, ImageTag, Network, NetworkSandboxConfig, Sandbox};
//!
//! # async fn example(sandbox: Sandbox, image: ImageTag) -> Result<(), Box<dyn std::error::Error>> {
//! let repository = sandbox.gate().init("project", Some("https://git.example/project.git")).await?;
//! repository.sync(Rewrites::Keep).await?;
//! let policy = "url_prefixes: [{host: gate, path: /project.git, git: {push: ['refs/heads/agent/*']}}]";
//! let policy = allowlist::Allowlist::from_yaml(policy, "policy")?;
//! let network = Network::Sandboxed(NetworkSandboxConfig::new(policy).gate([repository]));
//! let spec = CommandSpec::new("agent", image, ["git", "clone", "http://gate/project.git"]).network(network);
//! # let _ = sandbox.create_command(spec)?;
//! # Ok(())
//! # }
//! ```

use std::path::Path;

pub use sandbox_gate::{Change, ChangeKind, Gate, GateError, Repository, Rewrites, SyncReport};

/// The repositories in `gate` below the state folder of a [`SandboxConfig`](crate::SandboxConfig),
/// for operations that need no engine.
#[must_use]
pub fn open(state_dir: &Path) -> Gate {
    Gate::open(&state_dir.join("gate"))
}

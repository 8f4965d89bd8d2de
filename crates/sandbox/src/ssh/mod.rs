//! SSH keys that never enter a container, and the agent that signs git's commits with them.
//!
//! ```
//! use sandbox::credentials::HostCommand;
//! use sandbox::ssh::{KeyKind, SshSigner, Unlock};
//! use sandbox::{CommandSpec, ImageTag, Sandbox, SandboxError};
//!
//! # async fn example(sandbox: Sandbox, image: ImageTag) -> Result<(), SandboxError> {
//! let scope = sandbox.init_ssh("my-project", Unlock::Command(HostCommand::new(["pass", "show", "ssh"])))?;
//! let key = scope.init(KeyKind::Ed25519, None).await?;
//! println!("allow this key to sign: {}", key.public_line);
//! let signer = SshSigner::new(scope.keys().await?).sign_all();
//! let spec = CommandSpec::new("agent", image, ["git", "commit", "-am", "signed"]).ssh_signer(signer);
//! # let _ = sandbox.create_command(spec)?;
//! # Ok(())
//! # }
//! ```

mod agents;
mod scopes;

pub(crate) use agents::{RunningAgent, serve};
pub use scopes::scope;

pub use crate::spec::SshSigner;
pub use sandbox_ssh::{
    Allowed, KeyInfo, KeyKind, Passphrase, Refusal, Scope, SignEvent, SigningKeys, SshError, SshScope, Unlock,
};

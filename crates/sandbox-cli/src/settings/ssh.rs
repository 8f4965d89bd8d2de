//! The SSH keys that sign, and how they are unlocked.

use std::fs;

use sandbox::host_path::Resolver;
use sandbox::ssh::{SshScope, SshSigner, Unlock};

use super::{Project, TrustedProject};
use crate::config::Environment;
use crate::failure::Failure;
use crate::printer::sanitize_name;

/// The keys that a task's commits are signed with.
#[derive(Debug)]
pub(crate) struct SshSettings {
    scope: SshScope,
    sign_all: bool,
}

impl SshSettings {
    /// Unlocks the keys.
    pub(crate) async fn signer(&self) -> Result<SshSigner, Failure> {
        let signer = SshSigner::new(self.scope.keys().await?);
        Ok(if self.sign_all { signer.sign_all() } else { signer })
    }
}

impl Project {
    /// The keys of the scope `name`, otherwise of the configuration's scope.
    pub(crate) fn ssh_scope(&self, name: Option<&str>, unlock: Unlock) -> Result<SshScope, Failure> {
        let configured = self.file.ssh.as_ref().map(|ssh| ssh.scope.as_str());
        let name = name.or(configured).ok_or_else(|| {
            let made = fs::read_dir(self.places.state.join("ssh")).into_iter().flatten().flatten();
            let mut made: Vec<String> = made
                .map(|entry| format!("`{}`", sanitize_name(&entry.file_name().to_string_lossy())))
                .collect();
            made.sort();
            let name =
                if made.is_empty() { "name one".to_owned() } else { format!("name {}", made.join(" or ")) };
            Failure::usage("no scope given").with_hint(format!(
                "{name}, or write `ssh: {{scope: NAME, unlock: keyring}}` to .sandbox/sandbox.yaml"
            ))
        })?;
        Ok(sandbox::ssh::scope(&self.places.state, name, unlock)?)
    }
}

impl TrustedProject {
    /// How the configuration unlocks keys, which may run a program.
    pub(crate) fn ssh_unlock(&self, environment: &Environment) -> Result<Unlock, Failure> {
        match &self.file.ssh {
            Some(ssh) => Ok(ssh.unlock(environment, &self.resolver)?),
            None => Err(Failure::usage("no source of the passphrase given").with_hint(
                "pass --keyring, --passphrase-env NAME or --passphrase-command COMMAND, or set \
                 `ssh.unlock` in .sandbox/sandbox.yaml",
            )),
        }
    }

    /// The configuration's settings for the keys of tasks.
    pub(super) fn ssh(
        &self,
        environment: &Environment,
        resolver: &Resolver,
    ) -> Result<Option<SshSettings>, Failure> {
        let Some(ssh) = &self.file.ssh else {
            return Ok(None);
        };
        let scope = self.ssh_scope(None, ssh.unlock(environment, resolver)?)?;
        Ok(Some(SshSettings { scope, sign_all: ssh.sign_all }))
    }
}

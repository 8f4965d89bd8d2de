//! Reads the passphrase of keys.

use std::fmt;
use std::process::Stdio;

use zeroize::Zeroizing;

use crate::secret_source::{of_command, of_keyring};
use crate::{HostCommand, SecretSourceError, SshError};

/// The description of the key of type `user` in the kernel's keyring of the user.
const KEYRING_NAME: &str = "sandbox-ssh";

/// A passphrase. It is overwritten when it is dropped, and `Debug` does not show it.
#[derive(Clone)]
pub struct Passphrase(Zeroizing<String>);

impl Passphrase {
    /// Takes ownership of a passphrase.
    ///
    /// # Errors
    ///
    /// If it is empty: it would encrypt nothing.
    pub fn new(text: impl Into<String>) -> Result<Self, SshError> {
        let text = Zeroizing::new(text.into());
        if text.is_empty() {
            return Err(locked("the passphrase is empty"));
        }
        Ok(Self(text))
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// The first line of `bytes`, without its line ending.
    fn first_line(bytes: &[u8]) -> Result<Self, SshError> {
        let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let text = str::from_utf8(line).map_err(|_| locked("the passphrase is not UTF-8"))?;
        Self::new(text)
    }
}

impl fmt::Debug for Passphrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Passphrase(..)")
    }
}

/// The source of the passphrase. It is read when a private key is created or used, not before.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Unlock {
    /// This passphrase.
    Passphrase(Passphrase),
    /// The first line of a command's output. It shares the caller's stderr.
    Command(HostCommand),
    /// The key of type `user` named `sandbox-ssh` in the kernel's keyring of the user, as `keyctl
    /// padd user sandbox-ssh @u` puts it there. It is gone when the machine restarts, or when the
    /// user has logged out everywhere.
    Keyring,
}

impl Unlock {
    pub(crate) async fn passphrase(&self) -> Result<Passphrase, SshError> {
        match self {
            Self::Passphrase(passphrase) => Ok(passphrase.clone()),
            // Programs prompt for input on stderr.
            Self::Command(command) => Self::first_line(of_command(command, Stdio::inherit()).await),
            Self::Keyring => Self::first_line(of_keyring(KEYRING_NAME)),
        }
    }

    fn first_line(read: Result<Zeroizing<Vec<u8>>, SecretSourceError>) -> Result<Passphrase, SshError> {
        Passphrase::first_line(&read.map_err(|error| locked(error.to_string()))?)
    }
}

fn locked(reason: impl Into<String>) -> SshError {
    SshError::Locked { reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn command(script: &str) -> Result<Passphrase, SshError> {
        Unlock::Command(HostCommand::new(["sh", "-c", script])).passphrase().await
    }

    #[tokio::test]
    async fn passphrase_command_gives_its_first_line_or_fails() {
        assert_eq!(command("printf 'a b \\r\\nmore\\n'").await.unwrap().as_bytes(), b"a b ");
        assert_eq!(command("printf last").await.unwrap().as_bytes(), b"last");
        for script in ["", "echo; echo late", "echo secret; exit 3", "printf '\\377'", "kill -9 $$"] {
            let error = command(script).await.unwrap_err();
            assert!(matches!(error, SshError::Locked { .. }), "{script}: {error}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        for argv in [&[][..], &["/no/such/program"]] {
            assert!(Unlock::Command(HostCommand::new(argv.iter().copied())).passphrase().await.is_err());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn command_that_does_not_end_is_abandoned() {
        let error = command("exec sleep 1000").await.unwrap_err();
        assert!(error.to_string().contains("30 seconds"), "{error}");
    }

    #[test]
    fn empty_passphrase_is_refused_and_none_is_shown() {
        assert!(Passphrase::new("").is_err());
        let shown = format!("{:?}", Unlock::Passphrase(Passphrase::new("hunter2").unwrap()));
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}

//! Where the passphrase of keys comes from.

use std::fmt;
use std::io;
use std::process::Stdio;
use std::time::Duration;

use linux_keyutils::{KeyError, KeyRing, KeyRingIdentifier};
use tokio::io::AsyncReadExt as _;
use zeroize::Zeroizing;

use crate::SshError;

/// How long a command may take: a person may have to confirm something.
const COMMAND_DEADLINE: Duration = Duration::from_secs(30);
/// Bytes that a command may print.
const COMMAND_OUTPUT: usize = 64 << 10;
/// The description of the key of type `user` in the kernel's keyring of the user.
const KEYRING_NAME: &str = "sandbox-ssh";

/// A passphrase. It is overwritten when it is dropped, and `Debug` does not show it.
#[derive(Clone)]
pub struct Passphrase(Zeroizing<String>);

impl Passphrase {
    /// Takes over a passphrase.
    ///
    /// # Errors
    ///
    /// When it is empty: it would encrypt nothing.
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

    /// The first line of `bytes`, without its end.
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

/// Where the passphrase comes from. It is asked for when a private key is made or used, not before.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Unlock {
    /// This one.
    Passphrase(Passphrase),
    /// The first line that a command prints, program first, run without a shell. It has 30 seconds, no stdin, and the caller's stderr.
    Command(Vec<String>),
    /// The key of type `user` named `sandbox-ssh` in the kernel's keyring of the user, as
    /// `keyctl padd user sandbox-ssh @u` puts it there. It is gone when the machine restarts, or when the user has logged out everywhere.
    Keyring,
}

impl Unlock {
    pub(crate) async fn passphrase(&self) -> Result<Passphrase, SshError> {
        match self {
            Self::Passphrase(passphrase) => Ok(passphrase.clone()),
            Self::Command(command) => of_command(command).await,
            Self::Keyring => of_keyring(KEYRING_NAME),
        }
    }
}

async fn of_command(command: &[String]) -> Result<Passphrase, SshError> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(locked("the command is empty"));
    };
    let failed = |error: &io::Error| locked(format!("`{}`: {error}", program.escape_debug()));
    #[expect(clippy::disallowed_methods, reason = "the user's own program; it drives no engine")]
    let mut command = tokio::process::Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().map_err(|error| failed(&error))?;
    // One allocation, so that no copy of it is left behind when a buffer grows.
    let mut output = Zeroizing::new(Vec::with_capacity(COMMAND_OUTPUT));
    let run = async {
        if let Some(stdout) = child.stdout.take() {
            let limit = u64::try_from(COMMAND_OUTPUT).unwrap_or(u64::MAX);
            let mut stdout = stdout.take(limit);
            while output.len() < COMMAND_OUTPUT && stdout.read_buf(&mut *output).await? > 0 {}
        }
        child.wait().await
    };
    match tokio::time::timeout(COMMAND_DEADLINE, run).await {
        Err(_) => Err(locked(format!("`{}` took longer than 30 seconds", program.escape_debug()))),
        Ok(Err(error)) => Err(failed(&error)),
        Ok(Ok(status)) if !status.success() => {
            Err(locked(format!("`{}` failed with {status}", program.escape_debug())))
        }
        Ok(Ok(_)) => Passphrase::first_line(&output),
    }
}

fn of_keyring(name: &str) -> Result<Passphrase, SshError> {
    let failed = |error: KeyError| {
        locked(format!(
            "the key `{name}` of the kernel's keyring cannot be read ({error:?}); `keyctl padd user {name} @u` puts it there"
        ))
    };
    let key = KeyRing::from_special_id(KeyRingIdentifier::User, false)
        .and_then(|ring| ring.search(name))
        .map_err(failed)?;
    // A session without a link to the user's keyring possesses none of its keys, and only who possesses one may read it.
    let own = KeyRing::from_special_id(KeyRingIdentifier::Process, true).map_err(failed)?;
    own.link_key(key).map_err(failed)?;
    let bytes = key.read_to_vec().map(Zeroizing::new);
    own.unlink_key(key).map_err(failed)?;
    Passphrase::first_line(&bytes.map_err(failed)?)
}

fn locked(reason: impl Into<String>) -> SshError {
    SshError::Locked { reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn command(script: &str) -> Result<Passphrase, SshError> {
        Unlock::Command(["sh", "-c", script].map(str::to_owned).to_vec()).passphrase().await
    }

    #[tokio::test]
    async fn a_command_gives_its_first_line_or_fails() {
        assert_eq!(command("printf 'a b \\r\\nmore\\n'").await.unwrap().as_bytes(), b"a b ");
        assert_eq!(command("printf last").await.unwrap().as_bytes(), b"last");
        for script in ["", "echo; echo late", "echo secret; exit 3", "printf '\\377'", "kill -9 $$"] {
            let error = command(script).await.unwrap_err();
            assert!(matches!(error, SshError::Locked { .. }), "{script}: {error}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        for argv in [vec![], vec!["/no/such/program".to_owned()]] {
            assert!(Unlock::Command(argv).passphrase().await.is_err());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_command_that_does_not_end_is_given_up() {
        let error = command("exec sleep 1000").await.unwrap_err();
        assert!(error.to_string().contains("30 seconds"), "{error}");
    }

    #[test]
    fn an_empty_passphrase_is_refused_and_none_is_shown() {
        assert!(Passphrase::new("").is_err());
        let shown = format!("{:?}", Unlock::Passphrase(Passphrase::new("hunter2").unwrap()));
        assert!(!shown.contains("hunter2"), "{shown}");
    }

    #[test]
    fn the_kernels_keyring_holds_it() {
        let name = format!("sandbox-ssh-test-{}", std::process::id());
        let Ok(ring) = KeyRing::from_special_id(KeyRingIdentifier::User, true) else {
            // A kernel or a filter of system calls without keyrings: then there is an error that says so.
            return assert!(of_keyring(&name).is_err());
        };
        let error = of_keyring(&name).unwrap_err();
        assert!(error.to_string().contains("keyctl padd"), "{error}");
        let Ok(key) = ring.add_key(&name, "from the keyring\n") else { return };
        assert_eq!(of_keyring(&name).unwrap().as_bytes(), b"from the keyring");
        let _ = ring.unlink_key(key);
    }
}

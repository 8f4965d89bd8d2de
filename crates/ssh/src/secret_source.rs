//! Reads secrets that the host keeps outside files: the output of a command, and keys of the
//! kernel's keyring.

use std::ffi::OsString;
use std::io;
use std::process::Stdio;
use std::time::Duration;

use linux_keyutils::{KeyError, KeyRing, KeyRingIdentifier};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;
use zeroize::Zeroizing;

/// The time limit of a command: a person may have to confirm something.
const COMMAND_DEADLINE: Duration = Duration::from_secs(30);
/// The maximum output of a command in bytes, on either stream; the rest is ignored.
const COMMAND_OUTPUT: usize = 64 << 10;
/// The last characters of a command's stderr that an error shows.
const SHOWN: usize = 1000;

/// A host program and its arguments, run in `/` without a shell. It has 30 seconds, no stdin, and
/// the caller's environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostCommand {
    argv: Vec<String>,
    search_path: Option<OsString>,
}

impl HostCommand {
    /// The command `argv`, program first.
    pub fn new(argv: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { argv: argv.into_iter().map(Into::into).collect(), search_path: None }
    }

    /// Sets its `PATH`. Default: the caller's.
    #[must_use]
    pub fn search_path(mut self, folders: impl Into<OsString>) -> Self {
        self.search_path = Some(folders.into());
        self
    }
}

/// The place of a secret on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SecretSource {
    /// The output of a command.
    Command(HostCommand),
    /// The key of type `user` with this name in the kernel's keyring of the user, as `keyctl padd
    /// user NAME @u` puts it there. It is gone when the machine restarts, or when the user has
    /// logged out everywhere.
    Keyring(String),
}

/// A secret could not be read. No message contains a command's stdout or a key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretSourceError {
    /// The command has no program.
    #[error("the command is empty")]
    NoProgram,
    /// The program could not be run, or its output could not be read.
    #[error("`{}`: {source}", program.escape_debug())]
    Run {
        /// The program.
        program: String,
        /// The cause.
        source: io::Error,
    },
    /// The program took too long, and was killed.
    #[error("`{}` took longer than 30 seconds; run it in a terminal to see what it waits for", program.escape_debug())]
    Deadline {
        /// The program.
        program: String,
    },
    /// The program reported a failure.
    #[error("`{}` failed with {status}{stderr}", program.escape_debug())]
    Failed {
        /// The program.
        program: String,
        /// Its exit code or signal in readable form.
        status: String,
        /// The end of its stderr, on one line after a colon; empty if it wrote nothing.
        stderr: String,
    },
    /// The program printed more than a secret.
    #[error("`{}` printed 64 KiB or more", program.escape_debug())]
    TooLong {
        /// The program.
        program: String,
    },
    /// The kernel refused access to the key.
    #[error(
        "the key `{name}` of the kernel's keyring cannot be read ({reason}); `keyctl padd user {name} @u` puts it there",
        name = name.escape_debug()
    )]
    Keyring {
        /// The name of the key.
        name: String,
        /// The kernel's reason.
        reason: String,
    },
}

impl SecretSource {
    /// Reads it, byte for byte.
    ///
    /// # Errors
    ///
    /// If a command cannot be run, fails, prints 64 KiB or more, or takes longer than 30 seconds,
    /// or if the key does not exist.
    pub async fn read(&self) -> Result<Zeroizing<Vec<u8>>, SecretSourceError> {
        match self {
            Self::Command(command) => of_command(command, Stdio::piped()).await,
            Self::Keyring(name) => of_keyring(name),
        }
    }
}

/// The output of `command`. If `stderr` is not a pipe, errors do not show any of it.
pub(crate) async fn of_command(
    command: &HostCommand,
    stderr: Stdio,
) -> Result<Zeroizing<Vec<u8>>, SecretSourceError> {
    let HostCommand { argv, search_path } = command;
    let Some((program, arguments)) = argv.split_first() else {
        return Err(SecretSourceError::NoProgram);
    };
    let program = || program.clone();
    let failed = |source: io::Error| SecretSourceError::Run { program: program(), source };
    #[expect(clippy::disallowed_methods, reason = "the user's own program; it drives no engine")]
    let mut command = Command::new(program());
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr).kill_on_drop(true);
    // A relative path must not lead to a task's file.
    command.current_dir("/");
    if let Some(folders) = search_path {
        command.env("PATH", folders);
    }
    let mut child = command.spawn().map_err(failed)?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let run = async {
        let (output, errors) = tokio::try_join!(beginning(stdout), beginning(stderr))?;
        Ok((output, errors, child.wait().await?))
    };
    let (output, errors, status) = match tokio::time::timeout(COMMAND_DEADLINE, run).await {
        Err(_) => return Err(SecretSourceError::Deadline { program: program() }),
        Ok(run) => run.map_err(failed)?,
    };
    if !status.success() {
        let stderr = shown(&errors, &output);
        return Err(SecretSourceError::Failed { program: program(), status: status.to_string(), stderr });
    }
    if output.len() >= COMMAND_OUTPUT {
        return Err(SecretSourceError::TooLong { program: program() });
    }
    Ok(output)
}

/// The first [`COMMAND_OUTPUT`] bytes of a stream, which is read to its end.
async fn beginning(stream: Option<impl AsyncRead + Unpin>) -> io::Result<Zeroizing<Vec<u8>>> {
    // One allocation, so that no copy of it is left in memory when a buffer grows.
    let mut read = Zeroizing::new(Vec::with_capacity(COMMAND_OUTPUT));
    let Some(stream) = stream else {
        return Ok(read);
    };
    let limit = u64::try_from(COMMAND_OUTPUT).unwrap_or(u64::MAX);
    let mut stream = stream.take(limit);
    while read.len() < COMMAND_OUTPUT && stream.read_buf(&mut *read).await? > 0 {}
    let mut rest = stream.into_inner();
    tokio::io::copy(&mut rest, &mut tokio::io::sink()).await?;
    Ok(read)
}

/// The end of `stderr` on one line, without any text of stdout.
fn shown(stderr: &[u8], stdout: &[u8]) -> String {
    let text = Zeroizing::new(String::from_utf8_lossy(stderr).into_owned());
    let printed = Zeroizing::new(String::from_utf8_lossy(stdout).trim().to_owned());
    let text =
        if printed.is_empty() { text } else { Zeroizing::new(text.replace(printed.as_str(), "(value)")) };
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let line = lines.join("; ");
    let skipped = line.chars().count().saturating_sub(SHOWN);
    let end: String = line.chars().skip(skipped).collect();
    if end.is_empty() { String::new() } else { format!(": {}", end.escape_debug()) }
}

pub(crate) fn of_keyring(name: &str) -> Result<Zeroizing<Vec<u8>>, SecretSourceError> {
    let failed =
        |error: KeyError| SecretSourceError::Keyring { name: name.to_owned(), reason: format!("{error:?}") };
    let key = KeyRing::from_special_id(KeyRingIdentifier::User, false)
        .and_then(|ring| ring.search(name))
        .map_err(failed)?;
    // A session without a link to the user's keyring possesses none of its keys, and a key is
    // readable only for its possessor.
    let own = KeyRing::from_special_id(KeyRingIdentifier::Process, true).map_err(failed)?;
    own.link_key(key).map_err(failed)?;
    let bytes = key.read_to_vec().map(Zeroizing::new);
    own.unlink_key(key).map_err(failed)?;
    bytes.map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn command(script: &str) -> Result<Zeroizing<Vec<u8>>, SecretSourceError> {
        SecretSource::Command(HostCommand::new(["sh", "-c", script])).read().await
    }

    #[tokio::test]
    async fn command_gives_its_output_or_the_reason_on_stderr() {
        assert_eq!(command("pwd; printf 'a \\n\\n'; echo noise >&2").await.unwrap().as_slice(), b"/\na \n\n");
        assert!(command("").await.unwrap().is_empty());
        for (script, expected) in [
            (
                "echo hunter2; echo 'not  signed in'  >&2; exit 3",
                "failed with exit status: 3: not  signed in",
            ),
            ("echo hunter2; echo got hunter2 >&2; false", ": got (value)"),
            ("printf 'a\\nb\\033[2J' >&2; false", r": a; b\u{1b}[2J"),
            ("false", "failed with exit status: 1"),
            ("kill -9 $$", "signal: 9"),
            ("head -c 70000 /dev/zero; echo x >&2", "64 KiB"),
            // Output that is no longer read does not block the program.
            ("head -c 999999 /dev/zero >&2; echo last >&2; exit 4", "exit status: 4"),
        ] {
            let error = command(script).await.unwrap_err();
            let shown = format!("{error} {error:?}");
            assert!(error.to_string().contains(expected) && !shown.contains("hunter2"), "{script}: {shown}");
        }
        assert!(SecretSource::Command(HostCommand::new([""; 0])).read().await.is_err());
        let missing = SecretSource::Command(HostCommand::new(["/no/such/program"]));
        assert!(
            missing.read().await.unwrap_err().to_string().starts_with("`/no/such/program`: No such file")
        );
    }

    #[tokio::test(start_paused = true)]
    async fn command_that_does_not_end_is_abandoned() {
        let error = command("exec sleep 1000").await.unwrap_err();
        assert!(error.to_string().contains("30 seconds"), "{error}");
    }

    #[tokio::test]
    async fn secret_is_read_from_the_kernels_keyring() {
        let name = format!("sandbox-test-{}", std::process::id());
        let source = SecretSource::Keyring(name.clone());
        let Ok(ring) = KeyRing::from_special_id(KeyRingIdentifier::User, true) else {
            // If the kernel, or a filter of system calls, has no keyrings, there is an error that
            // states this.
            return assert!(source.read().await.is_err());
        };
        let error = source.read().await.unwrap_err();
        assert!(error.to_string().contains("keyctl padd"), "{error}");
        let key = ring.add_key(&name, "from the keyring\n").expect("a keyring that opens takes keys");
        assert_eq!(source.read().await.unwrap().as_slice(), b"from the keyring\n");
        let _ = ring.unlink_key(key);
    }
}

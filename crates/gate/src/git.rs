//! The program git, of the host.

use std::path::Path;
use std::process::{Output, Stdio};

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStderr, Command};

use crate::GateError;

/// Bytes of git's messages that are read, and that an error repeats.
const MESSAGES: u64 = 16 * 1024;
const SHOWN: usize = 2000;

/// What a git process may hold in memory, in bytes, and compute, in seconds: a client may have made what it reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    memory: u64,
    processor: u64,
}

impl Limits {
    /// For a push, whose objects git holds whole but for large files.
    pub(crate) const PUSH: Self = Self { memory: 512 << 20, processor: 600 };
    /// For all else: git counts the objects of the whole repository for a clone.
    pub(crate) const READ: Self = Self { memory: 2 << 30, processor: 3600 };
}

/// Holds for every git that works on a repository of ours, whatever the user's configuration says.
const ALWAYS: [&str; 5] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "gc.auto=0",
    "maintenance.auto=false",
    // It would run a program that an address names.
    "protocol.ext.allow=never",
];

/// What a repository is served with besides.
const SERVED: [&str; 10] = [
    // Larger files pass through git instead of being held.
    "core.bigFileThreshold=16m",
    "core.packedGitLimit=256m",
    "pack.threads=1",
    "pack.windowMemory=128m",
    "receive.autogc=false",
    // The allowlist decides what is deleted, the default branch too.
    "receive.denyDeleteCurrent=ignore",
    // What programs of the host could fall for does not get in.
    "receive.fsckObjects=true",
    "receive.maxInputSize=2g",
    // Ours: backups, and what is known of the upstream.
    "transfer.hideRefs=refs/sandbox",
    "uploadpack.allowFilter=true",
];

/// Variables that lead git to another repository than the one it is given.
const LOCAL: [&str; 12] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_QUARANTINE_PATH",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
];

/// git with nothing of the user's: neither configuration nor variables.
pub(crate) fn clean() -> Command {
    let mut git = base();
    git.env_clear();
    if let Some(path) = std::env::var_os("PATH") {
        git.env("PATH", path);
    }
    git.env("HOME", "/nonexistent").env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
    git.env("LC_ALL", "C").env("GIT_TERMINAL_PROMPT", "0").env("GIT_NO_REPLACE_OBJECTS", "1");
    // It was made by this user, or is not found.
    git.args(["-c", "safe.directory=*"]);
    git
}

/// The same, on the bare repository at `path`.
pub(crate) fn clean_in(path: &Path) -> Command {
    let mut git = clean();
    git.arg("--git-dir").arg(path);
    git
}

/// The same, to be a server.
pub(crate) fn server() -> Command {
    let mut git = clean();
    for setting in SERVED {
        git.args(["-c", setting]);
    }
    git
}

/// git with the user's credentials and configuration, on the bare repository at `path`.
pub(crate) fn of_user_in(path: &Path) -> Command {
    let mut git = base();
    for name in LOCAL {
        git.env_remove(name);
    }
    git.env("LC_ALL", "C").env("GIT_NO_REPLACE_OBJECTS", "1").arg("--git-dir").arg(path);
    git
}

#[expect(clippy::disallowed_methods, reason = "git is what this crate is about; no engine is involved")]
fn base() -> Command {
    let mut git = Command::new("git");
    for setting in ALWAYS {
        git.args(["-c", setting]);
    }
    // Not where the caller happens to be: git would read the configuration of a repository there.
    git.current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    git
}

/// What git prints.
pub(crate) async fn read(git: Command, operation: &'static str) -> Result<Vec<u8>, GateError> {
    write(git, operation, &[]).await
}

/// The same, of a git that reads `input`.
pub(crate) async fn write(
    mut git: Command,
    operation: &'static str,
    input: &[u8],
) -> Result<Vec<u8>, GateError> {
    if !input.is_empty() {
        git.stdin(Stdio::piped());
    }
    printed(start(&mut git, Limits::READ)?, operation, input).await
}

/// The same, of a git that talks to whom the user chose: without limits.
pub(crate) async fn read_of_user(mut git: Command, operation: &'static str) -> Result<Vec<u8>, GateError> {
    printed(git.spawn().map_err(start_error)?, operation, &[]).await
}

async fn printed(child: Child, operation: &'static str, input: &[u8]) -> Result<Vec<u8>, GateError> {
    let output = run(child, operation, input).await?;
    if !output.status.success() {
        return Err(failed(operation, &output.stderr));
    }
    if !output.stderr.is_empty() {
        tracing::warn!(operation, messages = shown(&output.stderr), "git had something to say");
    }
    Ok(output.stdout)
}

/// Whether git says yes: it exits with 0, not with 1.
pub(crate) async fn ask(mut git: Command, operation: &'static str) -> Result<bool, GateError> {
    let output = run(start(&mut git, Limits::READ)?, operation, &[]).await?;
    match output.status.code() {
        Some(0) => Ok(true),
        Some(1) => Ok(false),
        _ => Err(failed(operation, &output.stderr)),
    }
}

/// Starts git within `limits`, which hold for the programs that it starts, too. What a client sends reaches it later, through its input.
pub(crate) fn start(git: &mut Command, limits: Limits) -> Result<Child, GateError> {
    let child = git.spawn().map_err(start_error)?;
    let Some(pid) = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)) else {
        return Ok(child);
    };
    let Limits { memory, processor } = limits;
    for (resource, most) in [(Resource::Data, memory), (Resource::Cpu, processor), (Resource::Core, 0)] {
        match prlimit(Some(pid), resource, Rlimit { current: Some(most), maximum: Some(most) }) {
            // It has ended.
            Ok(_) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => return Err(start_error(error.into())),
        }
    }
    Ok(child)
}

fn start_error(source: std::io::Error) -> GateError {
    GateError::files("run", Path::new("git"))(source)
}

async fn run(mut child: Child, operation: &'static str, input: &[u8]) -> Result<Output, GateError> {
    let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
    let feed = async {
        if let Some(mut stdin) = stdin {
            // One that reads no further says why, and that is the error.
            let _ = stdin.write_all(input).await;
        }
    };
    let messages = async {
        match stderr {
            Some(stderr) => read_messages(stderr).await,
            None => Vec::new(),
        }
    };
    let (output, messages, ()) = tokio::join!(child.wait_with_output(), messages, feed);
    let output = output.map_err(|error| GateError::Git { operation, message: error.to_string() })?;
    Ok(Output { stderr: messages, ..output })
}

/// The beginning of what git prints on the side; the rest is thrown away.
pub(crate) async fn read_messages(mut stderr: ChildStderr) -> Vec<u8> {
    let mut messages = Vec::new();
    if (&mut stderr).take(MESSAGES).read_to_end(&mut messages).await.is_ok() {
        let _ = tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await;
    }
    messages
}

fn failed(operation: &'static str, stderr: &[u8]) -> GateError {
    GateError::Git { operation, message: shown(stderr) }
}

/// What git printed, for an error or a log: remote servers have a word in it.
pub(crate) fn shown(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr.get(..SHOWN).unwrap_or(stderr));
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let text = lines.collect::<Vec<_>>().join("; ");
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_moves_no_cursor() {
        assert_eq!(
            shown(b"fatal: no\n\n  \x1b[2Jremote: x\xff\r\n"),
            "fatal: no; \u{fffd}[2Jremote: x\u{fffd}"
        );
        assert!(shown(&[b'x'; 10_000]).len() <= SHOWN);
    }

    #[tokio::test]
    async fn nothing_of_the_users_reaches_it() {
        let mut git = clean();
        git.args(["config", "--list", "--show-origin"]);
        let settings = String::from_utf8(read(git, "list settings").await.unwrap()).unwrap();
        assert!(settings.lines().all(|line| line.starts_with("command line:")), "{settings}");
        let mut unknown = clean();
        unknown.arg("no-such-command");
        let error = read(unknown, "do what it cannot").await.unwrap_err().to_string();
        assert!(
            error.starts_with("git could not do what it cannot: ") && error.contains("no-such-command"),
            "{error}"
        );
    }
}

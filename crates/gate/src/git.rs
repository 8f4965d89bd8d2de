//! Runs the host's git.

use std::path::Path;
use std::process::{Output, Stdio};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStderr, Command};

use crate::GateError;

/// Bytes of git's messages that are read, and that an error repeats.
const MESSAGES: u64 = 16 * 1024;
const SHOWN: usize = 2000;

/// A git process's limits of memory, in bytes, and processor time, in seconds: a client may have
/// created its input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    memory: u64,
    processor: u64,
}

impl Limits {
    /// For a push: git holds its objects in memory, except for large files.
    pub(crate) const PUSH: Self = Self { memory: 512 << 20, processor: 600 };
    /// For everything else: git counts the objects of the whole repository for a clone.
    pub(crate) const READ: Self = Self { memory: 2 << 30, processor: 3600 };

    /// Git within these limits. A shell sets them before it becomes git: `git http-backend` starts
    /// the git that reads a push at once, and that one would escape limits set from outside.
    fn git(self) -> Command {
        let Self { memory, processor } = self;
        let script =
            format!("ulimit -c 0 && ulimit -d {} && ulimit -t {processor} && exec git \"$@\"", memory >> 10);
        let mut git = program("sh");
        git.args(["-c", &script, "git"]);
        git
    }
}

/// Settings of every git process on one of our repositories, which override the user's
/// configuration.
const ALWAYS: [&str; 5] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "gc.auto=0",
    "maintenance.auto=false",
    // It would run a program that an address names.
    "protocol.ext.allow=never",
];

/// Further settings for serving a repository.
const SERVED: [&str; 10] = [
    // Larger files are streamed instead of being held in memory.
    "core.bigFileThreshold=16m",
    "core.packedGitLimit=256m",
    "pack.threads=1",
    "pack.windowMemory=128m",
    "receive.autogc=false",
    // The allowlist decides about deletions, including that of the default branch.
    "receive.denyDeleteCurrent=ignore",
    // Keeps out objects that could harm host programs.
    "receive.fsckObjects=true",
    "receive.maxInputSize=2g",
    // Our own refs: backups, and the state of the upstream.
    "transfer.hideRefs=refs/sandbox",
    "uploadpack.allowFilter=true",
];

/// Variables that redirect git to another repository than the given one.
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

/// Git without the user's configuration and variables.
pub(crate) fn clean() -> Command {
    clean_within(Limits::READ)
}

fn clean_within(limits: Limits) -> Command {
    let mut git = base(limits.git());
    git.env_clear();
    search_outside_work_trees(&mut git);
    git.env("HOME", "/nonexistent").env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
    git.env("LC_ALL", "C").env("GIT_TERMINAL_PROMPT", "0").env("GIT_NO_REPLACE_OBJECTS", "1");
    // The repository was created by this user, or is not found.
    git.args(["-c", "safe.directory=*"]);
    git
}

/// As [`clean`], on the bare repository at `path`.
pub(crate) fn clean_in(path: &Path) -> Command {
    let mut git = clean();
    git.arg("--git-dir").arg(path);
    git
}

/// As [`clean`], with the settings of a server.
pub(crate) fn server(limits: Limits) -> Command {
    let mut git = clean_within(limits);
    for setting in SERVED {
        git.args(["-c", setting]);
    }
    git
}

/// git with the user's credentials and configuration, on the bare repository at `path`.
pub(crate) fn of_user_in(path: &Path) -> Command {
    let mut git = base(program("git"));
    for name in LOCAL {
        git.env_remove(name);
    }
    search_outside_work_trees(&mut git);
    git.env("LC_ALL", "C").env("GIT_NO_REPLACE_OBJECTS", "1").arg("--git-dir").arg(path);
    git
}

fn search_outside_work_trees(git: &mut Command) {
    git.env_remove("PATH");
    if let Some(path) = std::env::var_os("PATH").and_then(|path| sandbox_files::search_path(&path)) {
        git.env("PATH", path);
    }
}

#[expect(clippy::disallowed_methods, reason = "this crate runs git; no engine is involved")]
fn program(name: &str) -> Command {
    Command::new(name)
}

fn base(mut git: Command) -> Command {
    for setting in ALWAYS {
        git.args(["-c", setting]);
    }
    // In the caller's folder, git might read the configuration of a repository.
    git.current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    git
}

/// Git's output.
pub(crate) async fn read(git: Command, operation: &'static str) -> Result<Vec<u8>, GateError> {
    write(git, operation, &[]).await
}

/// The output of a git that reads `input`.
pub(crate) async fn write(
    mut git: Command,
    operation: &'static str,
    input: &[u8],
) -> Result<Vec<u8>, GateError> {
    if !input.is_empty() {
        git.stdin(Stdio::piped());
    }
    printed(start(&mut git)?, operation, input).await
}

/// The output of a git that talks to a server of the user's choice: without limits.
pub(crate) async fn read_of_user(mut git: Command, operation: &'static str) -> Result<Vec<u8>, GateError> {
    printed(start(&mut git)?, operation, &[]).await
}

async fn printed(child: Child, operation: &'static str, input: &[u8]) -> Result<Vec<u8>, GateError> {
    let output = run(child, operation, input).await?;
    if !output.status.success() {
        return Err(failed(operation, &output.stderr));
    }
    if !output.stderr.is_empty() {
        tracing::warn!(operation, messages = shown(&output.stderr), "git printed messages");
    }
    Ok(output.stdout)
}

/// Git's answer to a yes-or-no question: exit code 0 or 1.
pub(crate) async fn ask(mut git: Command, operation: &'static str) -> Result<bool, GateError> {
    let output = run(start(&mut git)?, operation, &[]).await?;
    match output.status.code() {
        Some(0) => Ok(true),
        Some(1) => Ok(false),
        _ => Err(failed(operation, &output.stderr)),
    }
}

/// Starts git.
pub(crate) fn start(git: &mut Command) -> Result<Child, GateError> {
    git.spawn().map_err(start_error)
}

fn start_error(source: std::io::Error) -> GateError {
    GateError::files("run", Path::new("git"))(source)
}

async fn run(mut child: Child, operation: &'static str, input: &[u8]) -> Result<Output, GateError> {
    let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
    let feed = async {
        if let Some(mut stdin) = stdin {
            // A git that stops reading reports the reason, which becomes the error.
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

/// The beginning of git's messages on stderr; the rest is discarded.
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

/// Git's messages, for an error or a log: remote servers can contribute to them.
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
    fn message_of_a_server_does_not_move_the_cursor() {
        assert_eq!(
            shown(b"fatal: no\n\n  \x1b[2Jremote: x\xff\r\n"),
            "fatal: no; \u{fffd}[2Jremote: x\u{fffd}"
        );
        assert!(shown(&[b'x'; 10_000]).len() <= SHOWN);
    }

    #[tokio::test]
    async fn user_configuration_does_not_reach_served_git() {
        let mut git = clean();
        git.args(["config", "--list", "--show-origin"]);
        let settings = String::from_utf8(read(git, "list settings").await.unwrap()).unwrap();
        assert!(settings.lines().all(|line| line.starts_with("command line:")), "{settings}");
        let mut unknown = clean();
        unknown.arg("no-such-command");
        let error = read(unknown, "run an unknown command").await.unwrap_err().to_string();
        assert!(
            error.starts_with("git failed to run an unknown command: ") && error.contains("no-such-command"),
            "{error}"
        );
    }
}

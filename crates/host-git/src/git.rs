//! Runs the host's git: in a controlled environment, without the user's configuration, within
//! limits.
#![expect(clippy::disallowed_methods, reason = "this crate runs git; no engine is involved")]

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use sandbox_files::tree::Tree;

use crate::{Error, Limits};

/// Settings of every git process, which override the repository's configuration: it executes no
/// other program and prompts for nothing.
const ALWAYS: [&str; 18] = [
    "core.hooksPath=/dev/null",
    // Hooks of the configuration, which git has since 2.54. These events occur here. Git 2.54
    // disables hooks by name only: see `without_hooks`.
    "hook.reference-transaction.enabled=false",
    "hook.post-index-change.enabled=false",
    "core.fsmonitor=false",
    "core.logAllRefUpdates=true",
    "core.packedGitWindowSize=32m",
    "core.packedGitLimit=512m",
    "core.bigFileThreshold=64m",
    "pack.threads=1",
    "pack.windowMemory=256m",
    "index.threads=1",
    "gc.auto=0",
    "maintenance.auto=false",
    "protocol.allow=never",
    "advice.objectNameWarning=false",
    // Because a file of grafts is named below, six lines of advice about it would precede every
    // message.
    "advice.graftFileDeprecated=false",
    "trace2.normalTarget=0",
    // The repository belongs to this user, or the caller would not have named it.
    "safe.directory=*",
];

/// Bytes that git may print: a list of objects.
const OUTPUT: u64 = 512 << 20;
/// Output, memory and time of optional queries.
const MODEST_OUTPUT: u64 = 64 << 20;
const MODEST_MEMORY: u64 = 2 << 30;
const MODEST_TIME: Duration = Duration::from_mins(1);
/// Bytes of git's messages that are read, and that an error repeats.
const MESSAGES: u64 = 16 * 1024;
const SHOWN: usize = 2000;
/// The name in reflogs.
const WHO: &str = "sandbox";

/// The repository's path for git: its working directory, even if someone moves it meanwhile.
pub(crate) const HERE: &str = "/proc/self/cwd";

/// Runs git on one repository.
#[derive(Debug, Clone)]
pub(crate) struct Git<'a> {
    common: &'a Tree,
    own: PathBuf,
    objects: Option<(PathBuf, Objects)>,
    index: Option<PathBuf>,
    /// Settings that disable hooks of the configuration.
    hooks: Vec<OsString>,
    /// The repository's own path, and the work tree that git writes.
    work_tree: Option<(PathBuf, PathBuf)>,
    /// The environment of [`of_user`](Self::of_user).
    user: Option<Vec<(OsString, OsString)>>,
    memory: u64,
    file_bytes: u64,
    output: u64,
    deadline: Instant,
}

/// Objects that git finds in addition to those in a folder of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Objects {
    None,
    Host,
}

/// Git's input.
pub(crate) enum Input<'a> {
    Nothing,
    Bytes(&'a [u8]),
    File(File),
}

/// The result of one git process.
pub(crate) struct GitRun {
    pub(crate) is_success: bool,
    pub(crate) output: Vec<u8>,
    messages: Vec<u8>,
    operation: &'static str,
}

impl<'a> Git<'a> {
    /// Git on the work tree whose own folder is `own` in the common folder.
    pub(crate) fn new(common: &'a Tree, own: &Path, limits: &Limits) -> Self {
        Self {
            common,
            own: own.to_owned(),
            objects: None,
            index: None,
            hooks: Vec::new(),
            work_tree: None,
            user: None,
            memory: limits.memory,
            file_bytes: limits.object_bytes.saturating_mul(2),
            output: OUTPUT,
            deadline: Instant::now() + limits.time,
        }
    }

    /// A copy that writes its objects to `folder`.
    pub(crate) fn with_objects(&self, folder: &Path, also: Objects) -> Self {
        Self { objects: Some((folder.to_owned(), also)), ..self.clone() }
    }

    /// A copy for optional queries whose answers a task can make arbitrarily large.
    pub(crate) fn modest(&self) -> Self {
        Self {
            memory: self.memory.min(MODEST_MEMORY),
            output: MODEST_OUTPUT,
            deadline: self.deadline.min(Instant::now() + MODEST_TIME),
            ..self.clone()
        }
    }

    /// A copy with another index.
    pub(crate) fn with_index(&self, path: &Path) -> Self {
        Self { index: Some(path.to_owned()), ..self.clone() }
    }

    /// A copy that runs no hook of the configuration as it is now, with what it includes.
    pub(crate) fn without_hooks(&self) -> Result<Self, Error> {
        let arguments = ["config", "--null", "--name-only", "--get-regexp", "^hook[.].*[.]"];
        // Without any, git prints nothing and fails.
        let names = self.run("list hooks", &arguments, Input::Nothing, None)?.output;
        let hooks = names
            .split(|byte| *byte == 0)
            .filter_map(|name| name.iter().rposition(|byte| *byte == b'.').and_then(|end| name.get(..end)))
            .map(|hook| OsString::from_vec([hook, b".enabled"].concat()))
            .collect();
        Ok(Self { hooks, ..self.clone() })
    }

    /// A copy that writes the work tree `folder`, with the configuration of the repository at
    /// `path`, which is ours, and the objects in `objects`. Git changes its working directory then,
    /// so it has paths in the place of [`HERE`].
    pub(crate) fn with_work_tree(&self, path: &Path, folder: &Path, objects: &Path) -> Self {
        let work_tree = Some((path.to_owned(), folder.to_owned()));
        Self { work_tree, ..self.with_objects(objects, Objects::None) }
    }

    /// A copy that reads the work tree `folder` and the configurations of the machine and of the user,
    /// whom `variables` describe, besides the repository's. Git changes its working directory, so the
    /// repository has its path `common`.
    pub(crate) fn of_user(&self, common: &Path, folder: &Path, variables: &[(OsString, OsString)]) -> Self {
        let git_dir = common.join(&self.own);
        let paths = [("GIT_DIR", git_dir.as_path()), ("GIT_COMMON_DIR", common), ("GIT_WORK_TREE", folder)];
        let paths = paths.map(|(name, path)| (name.into(), path.as_os_str().to_owned()));
        Self { user: Some([variables, &paths[..]].concat()), ..self.clone() }
    }

    /// Git's output if it succeeds.
    pub(crate) fn read(
        &self,
        operation: &'static str,
        arguments: &[&str],
        input: Input<'_>,
    ) -> Result<Vec<u8>, Error> {
        let run = self.run(operation, arguments, input, None)?;
        if run.is_success { Ok(run.output) } else { Err(run.error()) }
    }

    /// Git's result. Its output goes to `output` if that is given.
    pub(crate) fn run(
        &self,
        operation: &'static str,
        arguments: &[&str],
        input: Input<'_>,
        output: Option<File>,
    ) -> Result<GitRun, Error> {
        let mut git = self.command();
        git.args(arguments);
        let (bytes, stdin) = match input {
            Input::Nothing => (&[][..], Stdio::null()),
            Input::Bytes(bytes) => (bytes, Stdio::piped()),
            Input::File(file) => (&[][..], file.into()),
        };
        git.stdin(stdin).stdout(output.map_or_else(Stdio::piped, Stdio::from)).stderr(Stdio::piped());
        let mut child = git.spawn().map_err(Error::files("run", Path::new("git")))?;
        let limited = self.limit(&child);
        let ended = limited.and_then(|()| self.attend(&mut child, bytes));
        if ended.is_err() {
            // It has not been waited for, so no other process has its number.
            let _ = child.kill();
            let _ = child.wait();
        }
        let (is_success, output, messages) = ended.map_err(Error::files("run", Path::new("git")))?;
        if Instant::now() >= self.deadline {
            return Err(Error::TooLong { operation });
        }
        // A truncated list would be mistaken for the complete one.
        if output.len() as u64 > self.output {
            return Err(Error::TooMuch { what: "bytes of git output", limit: self.output });
        }
        Ok(GitRun { is_success, output, messages, operation })
    }

    fn command(&self) -> Command {
        let mut git = Command::new("git");
        // Use the open folder, not the one that has its path by now. A process group of its own
        // lets git finish, and remove its locks, if this program's group is killed. Listing has none.
        if self.user.is_none() {
            git.process_group(0);
        }
        git.env_clear().current_dir(self.common.reached());
        // Without it, the system's default folders are searched.
        if let Some(path) = std::env::var_os("PATH").and_then(|path| sandbox_files::search_path(&path)) {
            git.env("PATH", path);
        }
        for (name, value) in [
            ("HOME", "/nonexistent"),
            ("LC_ALL", "C"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_ATTR_NOSYSTEM", "1"),
            ("GIT_TERMINAL_PROMPT", "0"),
            // The only allowed protocol does not exist: a repository's `protocol.ext.allow`
            // overrides `protocol.allow`.
            ("GIT_ALLOW_PROTOCOL", "none"),
            ("GIT_NO_REPLACE_OBJECTS", "1"),
            ("GIT_NO_LAZY_FETCH", "1"),
            ("GIT_OPTIONAL_LOCKS", "0"),
            ("GIT_GRAFT_FILE", "/dev/null"),
            // Git must not look at a work tree. If the repository were inside one, git would
            // resolve its path.
            ("GIT_WORK_TREE", "/nonexistent"),
            // Otherwise git resolves the path of a linked work tree's folder.
            ("GIT_COMMON_DIR", HERE),
            ("GIT_COMMITTER_NAME", WHO),
            ("GIT_COMMITTER_EMAIL", WHO),
        ] {
            git.env(name, value);
        }
        let here = Path::new(HERE);
        git.env("GIT_DIR", here.join(&self.own));
        if let Some((path, folder)) = &self.work_tree {
            git.env("GIT_DIR", path).env("GIT_COMMON_DIR", path).env("GIT_WORK_TREE", folder);
        }
        if let Some((folder, also)) = &self.objects {
            git.env("GIT_OBJECT_DIRECTORY", folder);
            if *also == Objects::Host {
                git.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", here.join("objects"));
            }
        }
        if let Some(index) = &self.index {
            git.env("GIT_INDEX_FILE", index);
        }
        for setting in ALWAYS {
            git.args(["-c", setting]);
        }
        // A name with `=` would be cut off after `-c`.
        git.env("GIT_CONFIG_COUNT", self.hooks.len().to_string());
        for (number, hook) in self.hooks.iter().enumerate() {
            git.env(format!("GIT_CONFIG_KEY_{number}"), hook);
            git.env(format!("GIT_CONFIG_VALUE_{number}"), "false");
        }
        // Settings in the environment override those of files, and `-c` above overrides them.
        if let Some(user) = &self.user {
            for name in ["HOME", "GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_GLOBAL"] {
                git.env_remove(name);
            }
            git.envs(user.iter().map(|(name, value)| (name, value)));
        }
        git
    }

    /// Sets the limits before git reads anything that matters: a task's data reaches it through its
    /// input, or from files that it opens later.
    fn limit(&self, child: &Child) -> io::Result<()> {
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let seconds = self.deadline.saturating_duration_since(Instant::now()).as_secs() + 1;
        for (resource, most) in [
            (Resource::Data, self.memory),
            (Resource::Fsize, self.file_bytes),
            (Resource::Cpu, seconds),
            (Resource::Core, 0),
        ] {
            match prlimit(pid, resource, Rlimit { current: Some(most), maximum: Some(most) }) {
                // The process has ended.
                Ok(_) | Err(rustix::io::Errno::SRCH) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn attend(&self, child: &mut Child, input: &[u8]) -> io::Result<(bool, Vec<u8>, Vec<u8>)> {
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let left = self.deadline.saturating_duration_since(Instant::now());
        thread::scope(|scope| {
            let (done, ended) = mpsc::channel::<()>();
            let watch = scope.spawn(move || end_in_time(pid, left, &ended));
            scope.spawn(move || {
                // A git that stops reading reports the reason, which becomes the error.
                stdin.map(|mut stdin| stdin.write_all(input))
            });
            let messages = scope.spawn(move || stderr.map(|stderr| beginning(stderr, MESSAGES)));
            let output = stdout.map(|stdout| {
                let mut text = Vec::new();
                // Longer output is not read: git fails to write it, and ends.
                stdout.take(self.output.saturating_add(1)).read_to_end(&mut text).map(|_| text)
            });
            let messages = messages.join().ok().flatten().unwrap_or_default();
            // It prints no more, so it is about to end. Until it has been waited for, no other
            // process has its number.
            drop(done);
            let _ = watch.join();
            Ok((child.wait()?.success(), output.transpose()?.unwrap_or_default(), messages))
        })
    }
}

impl GitRun {
    /// Whether it printed no message.
    pub(crate) fn is_silent(&self) -> bool {
        self.messages.trim_ascii().is_empty()
    }

    pub(crate) fn error(&self) -> Error {
        Error::Git { operation: self.operation, message: self.message() }
    }

    /// Git's message in one line; it may contain a task's text.
    pub(crate) fn message(&self) -> String {
        let text = String::from_utf8_lossy(self.messages.get(..SHOWN).unwrap_or(&self.messages));
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let mut text = lines.collect::<Vec<_>>().join("; ");
        if text.is_empty() {
            text.push_str("git gave no reason");
        }
        text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
    }
}

/// Kills the process unless its end is reported in time.
fn end_in_time(pid: Option<Pid>, left: Duration, ended: &mpsc::Receiver<()>) {
    if let (Err(mpsc::RecvTimeoutError::Timeout), Some(pid)) = (ended.recv_timeout(left), pid) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// The first bytes of git's messages; the rest is discarded.
fn beginning(mut from: impl Read, most: u64) -> Vec<u8> {
    let mut text = Vec::new();
    if (&mut from).take(most).read_to_end(&mut text).is_ok() {
        let _ = io::copy(&mut from, &mut io::sink());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bare() -> (tempfile::TempDir, Tree) {
        let folder = tempfile::tempdir().unwrap();
        crate::tests::fixture::git(folder.path(), "init --bare -q .");
        let tree = Tree::open(folder.path()).unwrap();
        (folder, tree)
    }

    #[test]
    fn user_configuration_does_not_reach_git() {
        let (_folder, bare) = bare();
        let git = Git::new(&bare, Path::new(""), &Limits::default());
        let settings = git.read("list", &["config", "--list", "--show-scope"], Input::Nothing).unwrap();
        let settings = String::from_utf8(settings).unwrap();
        assert!(
            settings.lines().all(|line| line.starts_with("command") || line.starts_with("local")),
            "{settings}"
        );
    }

    #[test]
    fn every_protocol_is_refused_even_if_the_repository_allows_it() {
        let (folder, bare) = bare();
        crate::tests::fixture::git(folder.path(), "config protocol.ext.allow always");
        let git = Git::new(&bare, Path::new(""), &Limits::default());
        let ran = folder.path().join("ran");
        let run =
            git.run("list", &["ls-remote", &format!("ext::touch {}", ran.display())], Input::Nothing, None);
        let run = run.unwrap();
        assert!(!run.is_success && !ran.exists());
        assert!(run.message().contains("not allowed"), "{}", run.message());
    }

    #[test]
    fn git_message_is_not_preceded_by_advice() {
        let (folder, bare) = bare();
        crate::tests::fixture::script(
            folder.path(),
            "git update-ref HEAD $(git commit-tree -m x $(git mktree </dev/null))",
        );
        let git = Git::new(&bare, Path::new(""), &Limits::default());
        let run = git.run("follow", &["rev-list", "HEAD", &"1".repeat(40)], Input::Nothing, None).unwrap();
        assert!(!run.is_success && !run.message().contains("graft"), "{}", run.message());
    }

    #[test]
    fn git_message_does_not_move_the_cursor() {
        let (_folder, bare) = bare();
        let git = Git::new(&bare, Path::new(""), &Limits::default());
        let run = git.run("fail", &["cat-file", "\x1b[2J"], Input::Nothing, None).unwrap();
        assert!(!run.is_success);
        assert!(!run.message().contains('\x1b') && !run.message().contains('\n'), "{}", run.message());
    }

    #[test]
    fn git_that_prints_too_much_fails_and_ends() {
        let (folder, bare) = bare();
        let file = folder.path().join("large");
        std::fs::write(&file, vec![b'x'; 1 << 20]).unwrap();
        crate::tests::fixture::git(folder.path(), &format!("hash-object -w {}", file.display()));
        let git = Git::new(&bare, Path::new(""), &Limits::default());
        let arguments = ["cat-file", "--batch-all-objects", "--batch"];
        let whole = git.read("print", &arguments, Input::Nothing).unwrap();
        let small = Git { output: whole.len() as u64, ..git.clone() };
        assert_eq!(small.read("print", &arguments, Input::Nothing).unwrap(), whole);
        let small = Git { output: whole.len() as u64 - 1, ..git };
        let error = small.read("print", &arguments, Input::Nothing).unwrap_err();
        assert!(matches!(error, Error::TooMuch { .. }), "{error}");
    }

    #[test]
    fn git_that_takes_too_long_is_killed() {
        let (_folder, bare) = bare();
        let limits = Limits { time: Duration::from_millis(200), ..Limits::default() };
        let git = Git::new(&bare, Path::new(""), &limits);
        let (reader, _writer) = io::pipe().unwrap();
        let waits = Input::File(File::from(std::os::fd::OwnedFd::from(reader)));
        let error = git.read("wait", &["cat-file", "--batch"], waits).unwrap_err();
        assert!(matches!(error, Error::TooLong { operation: "wait" }), "{error}");
    }
}

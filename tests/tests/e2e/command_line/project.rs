//! A project folder, the `sandbox` command in it, and the result of that command.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use e2e_tests::engine;
use e2e_tests::setting::Setting;
use e2e_tests::world::World;
use serde_json::Value;
use tempfile::TempDir;

/// The prefix of all tests that do not check for remaining objects.
pub(crate) const PREFIX: &str = "e2e-cli";

/// A folder with settings, and the command in it.
pub(crate) struct Project {
    folder: TempDir,
    state: PathBuf,
    sandbox: PathBuf,
    proxy_dir: PathBuf,
}

impl Project {
    pub(crate) fn new() -> Self {
        Self::with_prefix(PREFIX)
    }

    pub(crate) fn with_prefix(prefix: &str) -> Self {
        let setting = Setting::of_this_run();
        let project = Self {
            folder: tempfile::tempdir().expect("a folder"),
            state: setting.folder.join(prefix),
            sandbox: setting.sandbox_bin.clone(),
            proxy_dir: setting.proxy_dir.clone(),
        };
        project.write(".sandbox/roots.pem", World::shared().roots_pem());
        project.write(".sandbox/network-allowlist.yaml", "domains: [open.test, api.anthropic.com]\n");
        project.write(".sandbox/sandbox.yaml", &config(prefix, &setting.image));
        project
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The executable of the command.
    pub(crate) fn program(&self) -> &Path {
        &self.sandbox
    }

    pub(crate) fn state(&self) -> &Path {
        &self.state
    }

    pub(crate) fn write(&self, path: &str, content: &str) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, content).expect("a file");
    }

    pub(crate) fn append(&self, path: &str, content: &str) {
        let path = self.path().join(path);
        let old = fs::read_to_string(&path).expect("a file");
        fs::write(path, old + content).expect("a file");
    }

    /// The command, which trusts the project's files: the test wrote them.
    pub(crate) fn sandbox(&self, arguments: &[&str]) -> Command {
        self.wary(&[&["--trust"], arguments].concat())
    }

    /// The command, which trusts only files on record.
    pub(crate) fn wary(&self, arguments: &[&str]) -> Command {
        // A test runner in the background may ignore signals, and children inherit that.
        let mut command = Command::new("env");
        command.arg("--default-signal=INT,TERM,HUP").arg(&self.sandbox).args(arguments);
        self.set_up(command)
    }

    /// Like [`sandbox`](Self::sandbox), with a limit on memory in KiB: beyond it the command
    /// aborts.
    pub(crate) fn within_memory(&self, kibibytes: u64, arguments: &[&str]) -> Command {
        let mut command = Command::new("bash");
        command
            .args(["-c", &format!("ulimit -c 0 -d {kibibytes}; exec \"$@\""), "bash"])
            .args([self.sandbox.as_os_str(), OsStr::new("--trust")])
            .args(arguments);
        self.set_up(command)
    }

    /// The command in a mount namespace of its own, as in another job of a cluster, or after a reboot.
    pub(crate) fn elsewhere(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--propagation=unchanged"])
            .arg(&self.sandbox)
            .arg("--trust")
            .args(arguments);
        self.set_up(command)
    }

    fn set_up(&self, mut command: Command) -> Command {
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_of_telemetry(name)) {
            command.env_remove(name);
        }
        command
            .current_dir(self.path())
            .env("SANDBOX_PROXY_DIR", &self.proxy_dir)
            .env("XDG_STATE_HOME", &self.state)
            // The tests ignore the configuration of the machine's user.
            .env("XDG_CONFIG_HOME", self.state.join("no-configuration"))
            .env_remove("CONTAINER_HOST")
            .env_remove("DOCKER_HOST")
            .stdin(Stdio::null());
        command
    }

    /// The result of the command. What it left to another process is removed too.
    pub(crate) fn output(&self, arguments: &[&str]) -> Ended {
        let ended = self.output_at_once(arguments);
        wait_for_removals(&self.state);
        ended
    }

    /// The result of the command as soon as it has ended.
    pub(crate) fn output_at_once(&self, arguments: &[&str]) -> Ended {
        self.sandbox(arguments).output().expect("the sandbox command").into()
    }

    pub(crate) fn run(&self, script: &str) -> Ended {
        self.output(&["run", "--", "bash", "-c", script])
    }

    /// Starts a run, and waits until its script has printed `ready`.
    pub(crate) fn start(&self, script: &str) -> (Child, BufReader<std::process::ChildStdout>) {
        let mut child = self
            .sandbox(&["run", "--", "bash", "-c", script])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the sandbox command");
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("output");
        assert_eq!(line, "ready\n");
        (child, stdout)
    }
}

/// Whether a variable of this machine would send the telemetry of the tests somewhere.
fn is_of_telemetry(name: &OsStr) -> bool {
    name == "TRACEPARENT" || name.to_str().is_some_and(|name| name.starts_with("OTEL_"))
}

pub(crate) fn config(prefix: &str, image: &str) -> String {
    format!(
        "engine: {}\nprefix: {prefix}\nimage: {image}\nupstream: {{dns: {}, extra_roots: roots.pem, allow_addresses: [203.0.113.0/24]}}\n",
        Setting::of_this_run().engine,
        World::shared().dns(),
    )
}

/// The result of a command.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Ended {
    /// Asserts that it ended with `code`, and printed `text` to stderr.
    #[track_caller]
    pub(crate) fn fails(&self, code: i32, text: &str) {
        assert!(self.code == Some(code) && self.stderr.contains(text), "{self:?}");
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Waits for the processes that remove what ended commands with this state left.
pub(crate) fn wait_for_removals(state: &Path) {
    let Ok(locks) = fs::read_dir(state.join("sandbox/instances")) else { return };
    for path in locks.map(|lock| lock.expect("an entry").path()) {
        // The file goes when the removal ends.
        let text = fs::read_to_string(&path).unwrap_or_default();
        if text.lines().nth(3) == Some("removal")
            && let Ok(lock) = File::open(&path)
        {
            lock.lock_shared().expect("the lock");
        }
    }
}

/// Asserts that nothing with `prefix` is left once all removals have ended.
pub(crate) async fn assert_nothing_left(prefix: &str) {
    wait_for_removals(&Setting::of_this_run().folder.join(prefix));
    assert_eq!(engine::containers(prefix).await, Vec::<String>::new());
    assert_eq!(engine::networks(prefix).await, Vec::<String>::new());
}

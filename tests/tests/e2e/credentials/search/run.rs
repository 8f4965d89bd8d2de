//! The searches: a task of the `sandbox` command that uses every kind of secret, and the same task
//! with the real values.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::SystemTime;

use e2e_tests::assert_held;
use e2e_tests::secret::{AwsKey, unique};
use e2e_tests::world::World;
use rustix::process::{Pid, Signal, kill_process};

use super::crash::crash;
use super::needles::Needles;
use super::places::Places;
use crate::command_line::project::{Project, assert_nothing_left};

/// Uses the secrets as intended, and leaves copies wherever it can.
pub(super) const SCRIPT: &str = r#"
env > /root/env; env > /tmp/env; env > /workspace/env
env | gzip > /root/env.gz
curl -sS -H "Authorization: Bearer $TOKEN" https://search.test/ > /dev/null
curl -sS -u "user:$TOKEN" https://search.test/mirror/body/gzip > /tmp/body
curl -sS --aws-sigv4 aws:amz:us-east-2:s3 --user "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY" \
    -H "x-amz-security-token: $AWS_SESSION_TOKEN" https://search.us-east-2.amazonaws.com/headers > /tmp/headers
curl -sS "https://search.test/?token=$TOKEN" > /dev/null
echo "$TOKEN" >&2
printf '%s\n' "$TOKEN" ready
exec -a "$TOKEN" sleep 600
"#;

pub(super) const MASKED: &str = "
masked_secrets:
  TOKEN: {scopes: [search.test], headers: [authorization]}
signing_credentials:
  key: {preset: aws, scopes: ['*.amazonaws.com']}
";
const UNMASKED: &str = "
pass_env: [TOKEN, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN]
";

/// A run of [`SCRIPT`], which uses secrets and leaves copies of them.
pub(super) struct Run {
    pub(super) project: Project,
    pub(super) prefix: &'static str,
    state: PathBuf,
    pub(super) begun: SystemTime,
    token: String,
    pub(super) needles: Needles,
    pub(super) child: Child,
    stdout: Option<BufReader<std::process::ChildStdout>>,
    output: Vec<u8>,
}

impl Run {
    /// Starts it with `settings`, and waits until it is ready.
    fn start(prefix: &'static str, settings: &str) -> Self {
        Self::start_in(Project::with_prefix(prefix), prefix, settings, SCRIPT)
    }

    /// The same in `project`, with another script.
    pub(super) fn start_in(project: Project, prefix: &'static str, settings: &str, script: &str) -> Self {
        let (token, key) = (unique("ghp_", 36), AwsKey::generate(true));
        let values = [Some(token.clone()), Some(key.secret.clone()), key.token.clone(), Some(key.id.clone())];
        project.append(".sandbox/sandbox.yaml", settings);
        project.write(".sandbox/network-allowlist.yaml", "domains: [search.test, '*.amazonaws.com']\n");
        let begun = SystemTime::now();
        let mut child = project
            .sandbox(&[
                "run",
                "-vv",
                "--network-log-live",
                "--network-log",
                "net.log",
                "--",
                "bash",
                "-c",
                script,
            ])
            .env("RUST_BACKTRACE", "full")
            .env("TOKEN", &token)
            .envs(key.variables())
            .stdout(Stdio::piped())
            .stderr(File::create(project.path().join("stderr")).expect("a file"))
            .spawn()
            .expect("the sandbox command");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut run = Self {
            state: project.state().to_owned(),
            project,
            prefix,
            begun,
            token,
            needles: Needles::new(&values.into_iter().flatten().collect::<Vec<_>>()),
            child,
            stdout: Some(stdout),
            output: Vec::new(),
        };
        run.await_ready();
        run
    }

    fn await_ready(&mut self) {
        let mut stdout = self.stdout.take().expect("once");
        let mut line = Vec::new();
        while stdout.read_until(b'\n', &mut line).expect("output") > 0 && line != b"ready\n" {
            self.output.append(&mut line);
        }
        assert_eq!(line, b"ready\n", "{}", self.stderr());
        self.stdout = Some(stdout);
    }

    /// Searches everything that exists only while it runs, and the host.
    pub(super) async fn search(&mut self) -> Places {
        let places = Places::of(self.prefix, self.begun).await;
        places.search_living(&mut self.needles).await;
        self.search_host(&places).await;
        places
    }

    pub(super) async fn search_host(&mut self, places: &Places) {
        let (project, state) = (self.project.path().to_owned(), self.state.clone());
        places.search_host(&mut self.needles, &[&project, &state]).await;
        self.needles.look("output", "stderr", self.stderr().as_bytes());
        self.needles.look("output", "stdout", &self.output.clone());
    }

    /// Ends it, and searches the remains.
    pub(super) async fn end(&mut self, places: &Places) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).expect("our own child");
        assert_eq!(self.await_end(), Some(143));
        assert_nothing_left(self.prefix).await;
        self.search_host(places).await;
    }

    /// Waits until the command has ended; returns its exit code.
    pub(super) fn await_end(&mut self) -> Option<i32> {
        let mut stdout = self.stdout.take().expect("once");
        stdout.read_to_end(&mut self.output).expect("output");
        self.child.wait().expect("our own child").code()
    }

    /// The stderr of the command so far.
    pub(super) fn stderr(&self) -> String {
        fs::read_to_string(self.project.path().join("stderr")).expect("text")
    }

    #[track_caller]
    pub(super) fn assert_nothing_found(&self) {
        assert_held!(self.needles.found().is_empty(), "{:#?}", self.needles.found());
    }

    /// Asserts that the proxy has the real values and has used them.
    pub(super) fn assert_used(&mut self, places: &Places) {
        let seen = format!("{:?}", World::shared().seen("search.test"));
        assert!(seen.contains(&self.token), "the real value was used");
        self.needles.look_into_memory("memory of the proxy", places.proxy.pid);
        assert!(!self.needles.found().is_empty(), "the control: a search of memory finds what is there");
        self.needles.forget();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_value_is_found_during_and_after_a_task() {
    let mut run = Run::start("e2e-search", MASKED);
    let places = run.search().await;
    run.assert_nothing_found();
    run.assert_used(&places);
    run.end(&places).await;
    run.assert_nothing_found();
}

#[tokio::test(flavor = "multi_thread")]
async fn control_real_values_in_the_environment_are_found_everywhere() {
    let mut run = Run::start("e2e-search-control", UNMASKED);
    let places = run.search().await;
    let found: BTreeSet<&str> = run.needles.found().keys().copied().collect();
    let everywhere = [
        "engine",
        "environment",
        "export",
        "file system",
        "folders",
        "inspection",
        "memory of the task",
        "output",
        "process list",
        "temporary files",
    ];
    assert_eq!(found, everywhere.into(), "{:#?}", run.needles.found());
    let files = &run.needles.found()["file system"];
    assert!(files.iter().any(|file| file.contains("/env.gz unpacked at ")), "{files:#?}");
    run.end(&places).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn crashed_proxy_leaves_no_value_and_no_core_file() {
    let mut run = Run::start("e2e-search-death", MASKED);
    let places = Places::of(run.prefix, run.begun).await;
    run.assert_used(&places);
    let limits = fs::read_to_string(format!("/proc/{}/limits", places.proxy.pid)).expect("a process");
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).expect("a limit");
    let numbers: Vec<&str> = core.split_whitespace().skip(4).take(2).collect();
    assert_held!(numbers == ["0", "0"], "{core}");
    // The sandbox is stopped, so that it removes nothing before the search.
    let sandbox = Pid::from_child(&run.child);
    kill_process(sandbox, Signal::STOP).expect("our own child");
    let layer = places.proxy_layer().await;
    crash(places.proxy.pid);
    let ended = places.await_end_of_the_proxy().await;
    assert_eq!(ended, 128 + Signal::ILL.as_raw(), "it crashed");
    assert_held!(cores(&layer).is_empty(), "{:?}", cores(&layer));
    run.needles.look_into_files("layer of the proxy", [layer.as_path()]);
    run.search_host(&places).await;
    run.assert_nothing_found();
    kill_process(sandbox, Signal::CONT).expect("our own child");
    run.end(&places).await;
    run.assert_nothing_found();
}

#[tokio::test(flavor = "multi_thread")]
async fn control_crash_with_core_files_enabled_leaves_secrets_in_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let value = unique("core-", 30);
    let mut child = Command::new("bash")
        .args(["-c", "ulimit -c unlimited; exec cat"])
        .env("TOKEN", &value)
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("bash");
    let (mut stdin, mut stdout) = child.stdin.take().zip(child.stdout.take()).expect("pipes");
    stdin.write_all(b"x").expect("it reads");
    stdout.read_exact(&mut [0]).expect("bash has become cat");
    crash(child.id());
    // Unlike a wait for events, a read resumes by itself: only a byte ends it.
    stdin.write_all(b"x").expect("it reads");
    let status = child.wait().expect("our own child");
    assert_eq!(status.signal(), Some(Signal::ILL.as_raw()), "{status}");
    assert_eq!(cores(folder.path()).len(), 1);
    let mut needles = Needles::new(&[value]);
    needles.look_into_files("core", [folder.path()]);
    assert!(!needles.found().is_empty());
}

/// The core files below `folder`.
fn cores(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(entry.path());
            } else if entry.file_name().to_string_lossy().starts_with("core") {
                found.push(entry.path());
            }
        }
    }
    found
}

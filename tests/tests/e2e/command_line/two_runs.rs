//! The first run changes the work tree at random; then each command runs in the result. Nothing
//! outside of the work tree is read, written or run, and no command hangs.

use std::fs::{self, FileTimes};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use e2e_tests::assert_held;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use tempfile::TempDir;

use super::project::{Ended, Project};

/// The number of changes that a task makes.
const CHANGES: usize = 60;
/// Seconds; far longer than any command takes.
const TIMEOUT: &str = "150";

/// Names that commands look for in a work tree, and names that are special to programs or
/// terminals.
const NAMES: &[&str] = &[
    ".sandbox",
    ".sandbox/sandbox.yaml",
    ".sandbox/network-allowlist.yaml",
    ".sandbox/container",
    ".sandbox/container/Dockerfile",
    ".sandbox/roots.pem",
    ".airut",
    ".airut/sandbox.yaml",
    "policy.yaml",
    "net.log",
    "net.log.jsonl",
    "own.log",
    "cache",
    "app",
    "app/Dockerfile",
    "app/setup.sh",
    "archive",
    "archive/images.tar",
    "archive/images.tar.unfinished",
    "session",
    "session/context.json",
    "man",
    "man/sandbox.1",
    ".git",
    ".git/hooks",
    ".git/hooks/post-checkout",
    ".git/config",
    ".git/HEAD",
    ".envrc",
    "src/lib.rs",
    "a b",
    "-n",
    "$'x\\ny'",
    "$'\\xff\\xfe'",
    "$'\\e[2J'",
    "x:y,z",
];

/// Commands, in which `{n}` is a name and `{h}` is the host's folder.
const CHANGES_OF_A_TASK: &[&str] = &[
    "rm -rf {n}; ln -s {h} {n}",
    "rm -rf {n}; ln -s {h}/key {n}",
    "rm -rf {n}; ln -s {h}/missing {n}",
    "rm -rf {n}; mkfifo {n}",
    "rm -rf {n}; python3 -c \"import socket,sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])\" {n}",
    "rm -rf {n}; mknod {n} c 1 9",
    "rm -rf {n}; mkdir -p {n}; ln -s {h}/key {n}/key",
    "rm -rf {n}; mkdir -p {n}; chmod 000 {n}",
    "rm -rf {n}; truncate -s 1T {n}",
    "printf 'mounts: [\"%s:/h\"]\\nnetwork_sandbox: false\\n' {h} > {n}",
    "printf 'domains: [\"*\"]\\n' > {n}",
    "printf 'FROM scratch\\nCOPY . /\\n' > {n}",
    "head -c 300000 /dev/urandom > {n}",
    "ln -f src/lib.rs {n}",
    "chmod 6777 {n}",
];

/// A folder of the host. Reading the file in it changes the file's access time.
struct Host {
    folder: TempDir,
}

impl Host {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let host = Self { folder };
        fs::write(host.key(), "host-only\n").expect("a file");
        let old = SystemTime::now() - Duration::from_hours(48);
        let file = fs::File::options().write(true).open(host.key()).expect("a file");
        file.set_times(FileTimes::new().set_accessed(old).set_modified(old)).expect("times");
        host
    }

    fn key(&self) -> std::path::PathBuf {
        self.folder.path().join("key")
    }

    /// How the folder differs from its initial state.
    fn difference(&self) -> Option<String> {
        let entries = fs::read_dir(self.folder.path()).expect("a folder").count();
        let facts = fs::symlink_metadata(self.key()).expect("the file");
        let is_old = |time: std::io::Result<SystemTime>| {
            time.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > Duration::from_hours(47)))
        };
        if entries != 1 || facts.len() != 10 || !is_old(facts.modified()) {
            return Some(format!("it was written to: {entries} entries, {facts:?}"));
        }
        (!is_old(facts.accessed())).then(|| "it was read".to_owned())
    }
}

fn mutations(random: &mut StdRng, host: &Path) -> String {
    let mut script = "mkdir -p src app archive session man cache; echo x > src/lib.rs\n".to_owned();
    for _ in 0..CHANGES {
        let name = NAMES.choose(random).expect("a name");
        // `./` protects a leading dash; a name with escapes is already quoted by `$'…'`.
        let name = if name.starts_with('$') { format!("./{name}") } else { format!("'./{name}'") };
        let change = CHANGES_OF_A_TASK.choose(random).expect("a change");
        let change = change.replace("{n}", &name).replace("{h}", &host.display().to_string());
        // Writing to a pipe that an earlier change created would block.
        let removed = format!("( [ -p {name} ] && rm {name}; ");
        script.extend([removed.as_str(), change.as_str(), " ) 2>/dev/null\n"]);
        if random.random_bool(0.2) {
            script
                .push_str("mv cache \"cache-$RANDOM\" 2>/dev/null; mv .sandbox/container app 2>/dev/null\n");
        }
    }
    script
}

fn bounded(command: &Command) -> Ended {
    let mut timed = Command::new("timeout");
    timed
        .args(["--signal=KILL", TIMEOUT])
        .arg(command.get_program())
        .args(command.get_args())
        .current_dir(command.get_current_dir().expect("a folder"));
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => timed.env(name, value),
            None => timed.env_remove(name),
        };
    }
    timed.stdin(Stdio::null()).output().expect("the command").into()
}

#[test]
fn random_changes_with_seed_0_do_not_reach_the_host() {
    assert_contained_after(0);
}

#[test]
fn random_changes_with_seed_1_do_not_reach_the_host() {
    assert_contained_after(1);
}

#[test]
fn random_changes_with_seed_2_do_not_reach_the_host() {
    assert_contained_after(2);
}

/// After any first run, no later command reads, writes or runs a file of the host.
fn assert_contained_after(seed: u64) {
    let (project, host) = (Project::new(), Host::new());
    assert_eq!(bounded(&project.wary(&["trust"])).code, Some(0));
    let mut random = StdRng::seed_from_u64(seed);
    let script = mutations(&mut random, host.folder.path());
    let first = bounded(&project.wary(&["run", "--unprotected", "--", "bash", "-c", &script]));
    let difference = host.difference();
    assert_held!(difference.is_none(), "{seed} {difference:?}: {first:?}");
    assert!(first.code.is_some_and(|code| code != 137), "{seed} hangs: {first:?}");
    // With and without trust: the containment does not depend on it.
    for trust in [false, true] {
        // A trusted configuration of the task may mount the host's folder.
        let asks = ["sandbox.yaml", "../policy.yaml", "../.airut/sandbox.yaml"].iter().any(|name| {
            let path = project.path().join(".sandbox").join(name);
            fs::symlink_metadata(&path).is_ok_and(|facts| facts.is_file() && facts.len() < 4096)
                && fs::read_to_string(path).is_ok_and(|text| text.contains("mounts:"))
        });
        if trust && asks {
            continue;
        }
        for arguments in COMMANDS {
            let command = if trust { project.sandbox(arguments) } else { project.wary(arguments) };
            let ended = bounded(&command);
            let difference = host.difference();
            assert_held!(difference.is_none(), "{seed} {arguments:?} {difference:?}: {ended:?}");
            assert_held!(
                !ended.stdout.contains("host-only") && !ended.stderr.contains('\u{1b}'),
                "{seed} {arguments:?}: {ended:?}"
            );
            assert!(ended.code.is_some_and(|code| code != 137), "{seed} {arguments:?} hangs: {ended:?}");
        }
    }
    drop(Command::new("chmod").args(["-R", "u+rwX"]).arg(project.path()).output());
}

#[test]
fn control_read_of_the_host_file_is_detected() {
    let host = Host::new();
    assert_eq!(fs::read_to_string(host.key()).expect("a file"), "host-only\n");
    assert_eq!(host.difference().as_deref(), Some("it was read"));
}

const COMMANDS: &[&[&str]] = &[
    &["config", "check"],
    &["trust", "--show"],
    &["allowlist", "lint"],
    &["allowlist", "lint", "--allowlist", "policy.yaml"],
    &["logs"],
    &["logs", "--file", "net.log"],
    &["status"],
    &["diff"],
    &["diff", "--patch"],
    &["apply"],
    &["discard"],
    &["image", "hash"],
    &["image", "hash", "--dockerfile", "app/Dockerfile", "--context", "app"],
    &["image", "load", "archive"],
    &["man", "man"],
    &["run", "--network-log", "net.log", "--log", "own.log", "--", "true"],
    &["run", "--config", "policy.yaml", "--", "true"],
    &["run", "--allowlist", "policy.yaml", "--mount", "cache:/cache:ro", "--", "cat", "/cache/key"],
    &["run", "--workspace", "copy", "--", "bash", "-c", "cat cache/key src/lib.rs; echo x >> src/lib.rs"],
    &["diff", "--patch"],
    &["apply", "--force", "--include-protected"],
    &["exec", "--", "true"],
    &["agent", "--session-dir", "session", "--claude-bin", "app/setup.sh", "hello"],
    &["clean"],
];

//! A full disk: a clear error, a readable session, and no leftovers.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use sandbox::session::{SessionMetadata, SessionStore};
use tempfile::TempDir;

use super::engine::Engine;
use crate::command_line::project::{Ended, Project, assert_nothing_left, wait_for_removals};

/// The initial size of the disk: enough for a short execution.
const LITTLE: &str = "2m";

/// A small file system that the engine sees, too.
struct Disk {
    folder: TempDir,
    engine: Engine,
}

impl Disk {
    fn new() -> Self {
        let disk = Self { folder: tempfile::tempdir().expect("a folder"), engine: Engine::of_this_run() };
        disk.mount(&["-t", "tmpfs", "-o", &format!("size={LITTLE}"), "tmpfs"]);
        disk
    }

    /// Its path in the engine's mount namespace.
    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Its path in the namespace of the test.
    fn local_path(&self) -> PathBuf {
        let path = self.path().strip_prefix("/").expect("an absolute path");
        PathBuf::from(format!("/proc/{}/root", self.engine.pid)).join(path)
    }

    /// A program in the engine's mount namespace.
    fn in_engine_namespace(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.engine.pid.to_string(), "--mount", "--", program]);
        command
    }

    fn mount(&self, arguments: &[&str]) {
        let mut mount = self.in_engine_namespace("mount");
        let status = mount.args(arguments).arg(self.path()).status();
        assert!(status.expect("nsenter").success(), "mount {arguments:?}");
    }

    fn grow(&self) {
        self.mount(&["-o", "remount,size=64m"]);
    }

    /// The `sandbox` command in the engine's mount namespace, with its state on the disk.
    fn sandbox(&self, project: &Project, arguments: &[&str]) -> Ended {
        let outer = project.sandbox(arguments);
        let mut command = self.in_engine_namespace("sh");
        command
            .args(["-c", "cd \"$0\" && exec \"$@\""])
            .arg(project.path())
            .arg(outer.get_program())
            .args(outer.get_args());
        for (name, value) in outer.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.env("XDG_STATE_HOME", self.path().join("state"));
        let ended = command.output().expect("nsenter").into();
        wait_for_removals(&self.local_path().join("state"));
        ended
    }

    fn session(&self) -> SessionMetadata {
        let folder = self.local_path().join("session");
        let text = fs::read_to_string(folder.join("context.json")).expect("a session");
        serde_json::from_str::<serde_json::Value>(&text).expect("whole JSON");
        let store = SessionStore::open(folder, "agent").expect("a session folder");
        store.load().expect("a session that can be read").expect("a session")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let folder = self.path().to_owned();
        let _ = self.in_engine_namespace("umount").arg("--lazy").arg(folder).status();
    }
}

/// Prints enough to fill the disk, if the prompt asks for it.
const AGENT: &str = r#"#!/bin/bash
read -r prompt
text=$(printf 'x%.0s' {1..20000})
echo '{"type":"system","subtype":"init","session_id":"a-b-c"}'
[[ $prompt = *short* ]] || for i in {1..400}; do echo "{\"type\":\"x\",\"text\":\"$text\"}"; done
echo '{"type":"result","subtype":"success","is_error":false,"result":"hi","session_id":"a-b-c","num_turns":1,"duration_ms":1,"duration_api_ms":1,"total_cost_usd":0}'
"#;

#[tokio::test(flavor = "multi_thread")]
async fn agent_on_a_full_disk_leaves_a_session_and_resumes_with_free_space() {
    let prefix = "e2e-full-agent";
    let (disk, project) = (Disk::new(), Project::with_prefix(prefix));
    let program = project.path().join("claude");
    fs::write(&program, AGENT).expect("a script");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("our own file");
    let (program, session) = (program.display().to_string(), disk.path().join("session"));
    let session = session.display().to_string();
    let agent = |prompt| {
        disk.sandbox(&project, &["agent", "--claude-bin", &program, "--session-dir", &session, prompt])
    };
    let fits = agent("short");
    assert_eq!((fits.code, fits.stdout.as_str()), (Some(0), "hi\n"), "the control: {fits:?}");
    let full = agent("long");
    assert_eq!(full.code, Some(125), "{full:?}");
    assert!(
        full.stderr.contains("failed to write") && full.stderr.contains("No space left on device"),
        "{full:?}"
    );
    assert_nothing_left(prefix).await;
    let cut = disk.session().replies;
    assert_eq!(cut.len(), 2);
    let kept = cut.last().expect("a reply").events.len();
    assert!((1..400).contains(&kept), "events written before are kept: {kept}");

    disk.grow();
    let next = agent("long");
    assert_eq!((next.code, next.stdout.as_str()), (Some(0), "hi\n"), "{next:?}");
    let replies = disk.session().replies;
    let facts: Vec<_> = replies.iter().map(|reply| (reply.is_error, reply.events.len())).collect();
    assert_eq!(facts, [(false, 2), (true, kept), (false, 402)]);
    assert_nothing_left(prefix).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn run_on_a_full_disk_reports_the_cause_and_leaves_nothing() {
    let prefix = "e2e-full-run";
    let (disk, project) = (Disk::new(), Project::with_prefix(prefix));
    let filling = disk.local_path().join("fill");
    // Fails once the disk is full, as intended.
    let filled = fs::write(&filling, vec![0; 4 << 20]);
    assert!(filled.is_err(), "the disk is small");
    let full = disk.sandbox(&project, &["run", "--", "echo", "it runs"]);
    full.fails(125, "No space left on device");
    assert_nothing_left(prefix).await;
    fs::remove_file(&filling).expect("our own file");
    let next = disk.sandbox(&project, &["run", "--", "echo", "it runs"]);
    assert_eq!((next.code, next.stdout.as_str()), (Some(0), "it runs\n"), "{next:?}");
    assert_nothing_left(prefix).await;
}

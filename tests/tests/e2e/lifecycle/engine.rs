//! An engine that is killed during a run, and restarted.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use e2e_tests::DEADLINE;
use e2e_tests::engine;
use e2e_tests::setting::Setting;
use e2e_tests::world::World;

use crate::command_line::project::{Project, assert_nothing_left, config};

/// The engine of this test run: its process and its state folder.
pub(crate) struct Engine {
    pub(super) pid: u32,
    state: PathBuf,
}

impl Engine {
    /// The process that serves the socket of this test run.
    pub(crate) fn of_this_run() -> Self {
        let socket = Setting::of_this_run().engine.as_str();
        let serves = |pid: &u32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
            words.contains(&b"service".as_slice()) && words.contains(&socket.as_bytes())
        };
        let entries = fs::read_dir("/proc").expect("/proc").flatten();
        let pid = entries
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .find(serves)
            .expect("the engine's process");
        let variables = fs::read(format!("/proc/{pid}/environ")).expect("the engine's environment");
        let state = variables
            .split(|byte| *byte == 0)
            .find_map(|variable| variable.strip_prefix(b"STATE="))
            .expect("the engine's state");
        Self { pid, state: String::from_utf8_lossy(state).into_owned().into() }
    }

    /// Starts a second service on the same storage, for one project, that a test may kill.
    pub(crate) fn second(&self, project: &Project) -> Service {
        let socket = socket(project);
        fs::create_dir_all(project.state()).expect("a folder");
        // A killed service leaves its socket.
        let _ = fs::remove_file(&socket);
        let child = Command::new(self.state.join("podman"))
            .args(["system", "service", "--time=0"])
            .arg(format!("unix://{}", socket.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the engine's client");
        let deadline = Instant::now() + DEADLINE;
        while UnixStream::connect(&socket).is_err() {
            assert!(Instant::now() < deadline, "the second service does not listen");
            std::thread::sleep(Duration::from_millis(50));
        }
        Service(child)
    }
}

/// The socket of a project's own service, where no task can be given it.
fn socket(project: &Project) -> PathBuf {
    project.state().join("second.sock")
}

/// A project whose engine is a [second service](Engine::second).
pub(crate) fn project_with_second_engine(prefix: &str) -> Project {
    let project = Project::with_prefix(prefix);
    let setting = Setting::of_this_run();
    let second = format!("unix://{}", socket(&project).display());
    project.write(".sandbox/sandbox.yaml", &config(prefix, &setting.image).replace(&setting.engine, &second));
    project
}

/// Our own service, which ends with the test.
pub(crate) struct Service(Child);

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_engine_fails_the_run_and_the_next_start_leaves_nothing() {
    let prefix = "e2e-restart";
    let engine = Engine::of_this_run();
    let project = project_with_second_engine(prefix);
    let service = engine.second(&project);
    project.write(".sandbox/network-allowlist.yaml", "domains: [restart.test]\n");

    let (child, stdout) = project
        .start("echo ready; while true; do curl -s --max-time 2 https://restart.test/; sleep 0.1; done");
    assert_eq!(engine::containers(prefix).await.len(), 2, "the control: it runs");
    let deadline = Instant::now() + DEADLINE;
    while World::shared().seen("restart.test").is_empty() {
        assert!(Instant::now() < deadline, "the control: there is traffic");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    drop(service);
    // Its stdout has no reader from here on, which must not keep it from ending.
    let ended = tokio::task::spawn_blocking(move || {
        drop(stdout);
        child.wait_with_output().expect("our own child")
    });
    let ended = tokio::time::timeout(DEADLINE, ended).await.expect("it ends by itself").expect("a thread");
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(125), "{stderr}");
    assert!(stderr.contains("error: "), "{stderr}");
    let quiet_since = World::shared().seen("restart.test").len();

    let service = engine.second(&project);
    let next = project.run("true");
    assert_eq!(next.code, Some(0), "{next:?}");
    assert_nothing_left(prefix).await;
    assert_eq!(World::shared().seen("restart.test").len(), quiet_since, "no request was sent meanwhile");
    drop(service);
}

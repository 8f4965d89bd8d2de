//! The process that owns an executor, as a separate program: its memory, and its leftovers when
//! killed.

use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use e2e_tests::fixture;
use e2e_tests::setting::Setting;
use sandbox::Sandbox;
use tempfile::TempDir;

use super::fixture::{marker, processes, until_processes};

/// The running example `run_executor`.
pub(super) struct Example {
    child: Child,
    state: TempDir,
}

/// Its result.
pub(super) struct Ended {
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) peak_kibibytes: u64,
}

impl Example {
    /// Runs `lines` sequentially.
    pub(super) fn start(lines: &[&str]) -> Self {
        let setting = Setting::of_this_run();
        let state = tempfile::tempdir().expect("a folder");
        let child = Command::new(setting.examples.join("run_executor"))
            .arg(&setting.engine)
            .arg(state.path())
            .arg(&setting.proxy_dir)
            .arg(&setting.clients_image)
            .args(lines)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the example was built");
        Self { child, state }
    }

    pub(super) fn finish(mut self) -> Ended {
        let status = format!("/proc/{}/status", self.child.id());
        let is_done = Arc::new(AtomicBool::new(false));
        let watching = thread::spawn({
            let is_done = Arc::clone(&is_done);
            move || {
                let mut peak = 0;
                while !is_done.load(Ordering::Relaxed) {
                    peak = peak_of(&status).unwrap_or(peak);
                    thread::sleep(Duration::from_millis(100));
                }
                peak
            }
        });
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let mut out = self.child.stdout.take().expect("a pipe");
        out.read_to_end(&mut stdout).expect("output");
        let mut err = self.child.stderr.take().expect("a pipe");
        err.read_to_end(&mut stderr).expect("output");
        is_done.store(true, Ordering::Relaxed);
        assert!(self.child.wait().expect("our own child").success());
        Ended {
            stdout: String::from_utf8_lossy(&stdout).into_owned(),
            stderr: String::from_utf8_lossy(&stderr).into_owned(),
            peak_kibibytes: watching.join().expect("a thread"),
        }
    }
}

/// The peak memory of a process.
fn peak_of(status: &str) -> Option<u64> {
    let text = std::fs::read_to_string(status).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_die_with_the_owning_process() {
    let mark = marker(30);
    let mut example = Example::start(&[&format!("setsid sleep {mark} & sleep {mark}")]);
    // As separate arguments, which the example's own command line does not have.
    let sleeps = format!("sleep\u{0}{mark}");
    until_processes(&sleeps, 2).await;
    example.child.kill().expect("our own child");
    example.child.wait().expect("our own child");
    until_processes(&sleeps, 0).await;
    assert_eq!(processes(&sleeps), 0);
    // Leftovers are labelled, and the next sweep removes them.
    let mut config = fixture::config(example.state.path());
    config.prefix = "sandbox".to_owned();
    let next = Sandbox::start(config.on_demand()).await.expect("an engine");
    next.sweep().await.expect("it is swept");
    let left = next.inventory().await.expect("an inventory");
    let dead: Vec<_> = left.instances.iter().filter(|instance| !instance.alive).collect();
    assert!(dead.is_empty(), "{dead:?}");
}

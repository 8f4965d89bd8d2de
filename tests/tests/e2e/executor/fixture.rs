//! Executors for one test, and the processes as seen from the host.

use std::time::{Duration, Instant};

use e2e_tests::DEADLINE;
use e2e_tests::fixture::Fixture;
use e2e_tests::setting::Setting;
use sandbox::executor::{ExecCommand, ExecOptions, ExecResult, Executor, ExecutorConfig};
use sandbox::{ImageTag, Isolation, ResourceLimits};

/// The defaults, for untrusted commands.
pub(super) fn config(fixture: &Fixture) -> ExecutorConfig {
    image_config(fixture.image.clone())
}

/// The defaults, in another image.
pub(super) fn image_config(image: ImageTag) -> ExecutorConfig {
    let limits = ResourceLimits::untrusted().timeout(DEADLINE);
    ExecutorConfig::new("exec", image).limits(Setting::of_this_run().possible(limits))
}

/// The control: runs as root with a writable root file system.
pub(super) fn weak(fixture: &Fixture) -> ExecutorConfig {
    config(fixture).isolation(Isolation { no_new_privileges: false, ..Isolation::agent() })
}

pub(super) fn executor(fixture: &Fixture, config: ExecutorConfig) -> Executor {
    fixture.sandbox.create_executor(config).expect("a good configuration")
}

pub(super) fn within(timeout: Duration) -> ExecOptions {
    ExecOptions { timeout: Some(timeout), ..ExecOptions::default() }
}

pub(super) async fn run(executor: &Executor, command: impl Into<ExecCommand>) -> ExecResult {
    executor.execute(command, ExecOptions::default()).await.expect("the infrastructure works")
}

/// The stdout of a command, which must succeed.
pub(super) async fn output(executor: &Executor, line: &str) -> String {
    let result = run(executor, line).await;
    assert!(result.is_success(), "{line}: {result:?}");
    result.stdout_text().into_owned()
}

/// Runs `line` with a time limit that ends it after it has printed `begun` and a newline: the limit
/// doubles until that is so.
pub(super) async fn timed_out_once_begun(executor: &Executor, line: &str) -> ExecResult {
    let mut limit = Duration::from_secs(4);
    loop {
        let result = executor.execute(line, within(limit)).await.expect("a result");
        assert!(result.timed_out, "{result:?}");
        if result.stdout_text() == "begun\n" {
            return result;
        }
        limit *= 2;
        assert!(limit < DEADLINE, "it does not begin: {result:?}");
    }
}

/// A number of seconds for which no other process of this machine sleeps.
pub(crate) fn marker(number: u32) -> String {
    format!("{}.{number}", 10_000_000 + std::process::id())
}

/// The number of processes of this machine, including those in containers, with `marker` in their
/// command lines.
pub(super) fn processes(marker: &str) -> usize {
    let read = |entry: std::fs::DirEntry| std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
    let has_marker = |line: &[u8]| line.windows(marker.len()).any(|part| part == marker.as_bytes());
    std::fs::read_dir("/proc").expect("a folder").flatten().map(read).filter(|line| has_marker(line)).count()
}

/// Waits until there are `expected` of them.
pub(super) async fn until_processes(marker: &str, expected: usize) {
    until(marker, |found| found == expected).await;
}

/// Waits until there is at least one.
pub(super) async fn until_some_process(marker: &str) {
    until(marker, |found| found > 0).await;
}

async fn until(marker: &str, is_expected: impl Fn(usize) -> bool) {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let found = processes(marker);
        if is_expected(found) {
            return;
        }
        assert!(Instant::now() < deadline, "{found} processes `{marker}`");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

//! More concurrent commands than the container's first process has file descriptors for.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use e2e_tests::DEADLINE;
use e2e_tests::fixture::Fixture;
use futures_util::future::join_all;
use sandbox::executor::{ExecOptions, Workspace};
use sandbox::isolation::{Ulimit, UlimitKind};
use sandbox::{Input, Isolation};

use super::fixture::{config, executor, marker, output, processes};

const CROWD: usize = 30;

#[tokio::test(flavor = "multi_thread")]
async fn command_beyond_the_descriptor_limit_disturbs_no_other() {
    let fixture = Fixture::new().await;
    // Enough for about a dozen commands.
    let isolation =
        Isolation { ulimits: vec![Ulimit::fixed(UlimitKind::OpenFiles, 48)], ..Isolation::untrusted() };
    // Running commands wait until the test has seen that each command runs or has failed.
    let folder = fixture.folder().join("work");
    fs::create_dir(&folder).expect("a folder");
    let executor = executor(
        &fixture,
        config(&fixture).isolation(isolation).workspace(Workspace::ReadOnly(folder.clone())),
    );
    output(&executor, "touch /tmp/before").await;
    let (mark, refused) = (marker(40), AtomicUsize::new(0));
    let one = async |number: usize| {
        let options = ExecOptions {
            stdin: if number.is_multiple_of(2) { Input::Empty } else { Input::Bytes(b"in\n".to_vec()) },
            timeout: Some(DEADLINE),
            ..ExecOptions::default()
        };
        let line = format!(": {mark}; until [ -e /workspace/go ]; do sleep 0.1; done; echo {number}");
        let result = executor.execute(line, options).await;
        refused.fetch_add(usize::from(result.is_err()), Ordering::Relaxed);
        result
    };
    let deadline = Instant::now() + DEADLINE;
    let release = async {
        while processes(&mark) + refused.load(Ordering::Relaxed) < CROWD {
            assert!(Instant::now() < deadline, "some commands neither run nor fail");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        fs::write(folder.join("go"), "").expect("a file");
    };
    let (results, ()) = tokio::join!(join_all((0..CROWD).map(one)), release);
    let (done, failed): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    assert!(done.len() >= 8 && failed.len() >= 8, "{done:?} {failed:?}");
    for result in done.into_iter().flatten() {
        assert!(result.is_success(), "{result:?}");
    }
    for error in failed.into_iter().filter_map(Result::err) {
        assert!(error.to_string().contains("Too many open files"), "{error}");
    }
    output(&executor, "ls /tmp/before").await;
    fixture.close().await;
}

//! More commands at once than the container's first process has open files for.

use e2e_tests::DEADLINE;
use e2e_tests::bed::Bed;
use futures_util::future::join_all;
use sandbox::executor::ExecOptions;
use sandbox::isolation::{Ulimit, UlimitKind};
use sandbox::{Input, Isolation};

use super::bed::{config, executor, output};

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_finds_no_room_disturbs_no_other() {
    let bed = Bed::new().await;
    // Room for about a dozen.
    let isolation =
        Isolation { ulimits: vec![Ulimit::fixed(UlimitKind::OpenFiles, 48)], ..Isolation::untrusted() };
    let executor = executor(&bed, config(&bed).isolation(isolation));
    output(&executor, "touch /tmp/before").await;
    let one = async |number: u64| {
        let options = ExecOptions {
            stdin: if number.is_multiple_of(2) { Input::Empty } else { Input::Bytes(b"in\n".to_vec()) },
            timeout: Some(DEADLINE),
            ..ExecOptions::default()
        };
        executor.execute(format!("sleep 10.{number}; echo {number}"), options).await
    };
    let results = join_all((10..40).map(one)).await;
    let (done, failed): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    assert!(done.len() >= 8 && failed.len() >= 8, "{done:?} {failed:?}");
    for result in done.into_iter().flatten() {
        assert!(result.is_success(), "{result:?}");
    }
    for error in failed.into_iter().filter_map(Result::err) {
        assert!(error.to_string().contains("Too many open files"), "{error}");
    }
    output(&executor, "ls /tmp/before").await;
    bed.close().await;
}

//! The end of a command ends everything that it started.

use e2e_tests::fixture::Fixture;
use sandbox::executor::{ExecOptions, ExecutorMode};

use super::fixture::{
    config, executor, marker, output, processes, run, timed_out_once_begun, until_processes,
};

/// Starts two processes that leave the command's session, group and parent, and waits until they
/// run.
fn escape(marker: &str) -> String {
    format!(
        "setsid sleep {marker} </dev/null >/dev/null 2>&1 & (setsid bash -c 'sleep {marker} & disown' & ); \
         until [ $({}) -ge 2 ]; do sleep 0.05; done; ",
        count(marker)
    )
}

/// Counts them from inside. The bracket keeps the pattern itself from being counted.
fn count(marker: &str) -> String {
    let (first, rest) = marker.split_at(1);
    format!("cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -cx '[{first}]{rest}'")
}

#[tokio::test(flavor = "multi_thread")]
async fn timeout_ends_orphans_and_processes_of_other_sessions() {
    let fixture = Fixture::new().await;
    for (mode, marker) in [(ExecutorMode::Reuse, marker(1)), (ExecutorMode::Fresh, marker(2))] {
        let executor = executor(&fixture, config(&fixture).mode(mode));
        // The control: ending the main process and its group is not enough.
        let weaker = format!("{marker}9");
        let control = format!(
            "cat > /tmp/main <<'END'\n{}\ntouch /tmp/ready; exec sleep 100\nEND\n\
             set -m; bash /tmp/main & until [ -e /tmp/ready ]; do sleep 0.05; done; kill -9 -- -$!; wait $!; {}",
            escape(&weaker),
            count(&weaker)
        );
        assert_eq!(output(&executor, &control).await, "2\n", "they survive that");
        assert_eq!(processes(&weaker), 0, "they end with the command");

        // The command prints that both run, and its output is kept.
        timed_out_once_begun(&executor, &format!("{}echo begun; exec sleep 600", escape(&marker))).await;
        until_processes(&marker, 0).await;
        executor.cleanup().await.expect("it is removed");
    }
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_outlives_a_command_that_exits() {
    let fixture = Fixture::new().await;
    let executor = executor(&fixture, config(&fixture));
    let mark = marker(3);
    let line = format!("{}echo bye", escape(&mark));
    assert_eq!(output(&executor, &line).await, "bye\n");
    assert_eq!(processes(&mark), 0, "at once");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_execution_ends_its_command() {
    let fixture = Fixture::new().await;
    let executor = executor(&fixture, config(&fixture));
    let mark = marker(4);
    run(&executor, "true").await;
    {
        let dropped = executor.execute(format!("sleep {mark}"), ExecOptions::default());
        tokio::select! {
            result = dropped => panic!("{result:?}"),
            () = until_processes(&mark, 1) => {}
        }
    }
    until_processes(&mark, 0).await;
    assert_eq!(output(&executor, "echo still here").await, "still here\n");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cleanup_ends_everything_and_is_idempotent() {
    let fixture = Fixture::new().await;
    let executor = executor(&fixture, config(&fixture));
    run(&executor, "touch /tmp/before").await;
    let mark = marker(5);
    let sleep = format!("sleep {mark}");
    let (running, ()) = tokio::join!(executor.execute(sleep, ExecOptions::default()), async {
        until_processes(&mark, 1).await;
        executor.cleanup().await.expect("it is removed");
    });
    let error = running.expect_err("its container ended").to_string();
    assert!(error.starts_with("the container of the command ended"), "{error}");
    assert_eq!(processes(&mark), 0);
    executor.cleanup().await.expect("nothing is left to remove");
    let next = run(&executor, "ls /tmp/before").await;
    assert_ne!(next.exit_code, 0, "the next command has a new container");
    drop(executor);
    fixture.close().await;
}

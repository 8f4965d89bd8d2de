//! Concurrent commands in one container.

use std::time::{Duration, Instant};

use e2e_tests::DEADLINE;
use e2e_tests::fixture::Fixture;
use futures_util::future::join_all;
use sandbox::Input;
use sandbox::diagnostics::Role;
use sandbox::executor::{ExecOptions, ExecutorMode};
use tokio::io::AsyncWriteExt as _;

use super::fixture::{config, executor, marker, processes, timed_out_once_begun, until_processes, within};

#[tokio::test(flavor = "multi_thread")]
async fn parallel_commands_have_their_own_streams_exit_codes_and_ends() {
    let fixture = Fixture::new().await;
    let executor = executor(&fixture, config(&fixture));
    let one = async |number: i32| {
        let options = ExecOptions {
            stdin: Input::Bytes(format!("in {number}\n").into_bytes()),
            ..ExecOptions::default()
        };
        let line = format!("cat; sleep 0.$((RANDOM % 5)); echo err {number} >&2; exit {number}");
        let result = executor.execute(line, options).await.expect("a result");
        assert_eq!(result.exit_code, number);
        assert_eq!(result.stdout_text(), format!("in {number}\n"));
        assert_eq!(result.stderr_text(), format!("err {number}\n"));
    };
    join_all((0..12).map(one)).await;
    assert_eq!(containers(&fixture).await, 1, "all in one container");
    let fresh = super::fixture::executor(&fixture, config(&fixture).mode(ExecutorMode::Fresh));
    // The control: in fresh mode, two more containers exist.
    let waiting = || {
        let options = ExecOptions { stdin: Input::Bytes(Vec::new()), ..ExecOptions::default() };
        fresh.execute(format!("exec sleep {}", marker(21)), options)
    };
    tokio::select! {
        ended = join_all([waiting(), waiting()]) => panic!("{ended:?}"),
        () = until_containers(&fixture, 3) => {}
    }
    fixture.close().await;
}

/// Waits until the fixture has `expected` containers, since an engine may list a new one with a
/// delay.
async fn until_containers(fixture: &Fixture, expected: usize) {
    let deadline = Instant::now() + DEADLINE;
    until_processes(&format!("sleep\u{0}{}", marker(21)), 2).await;
    while containers(fixture).await != expected {
        assert!(Instant::now() < deadline, "{} containers", containers(fixture).await);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The number of task containers of the fixture.
async fn containers(fixture: &Fixture) -> usize {
    let inventory = fixture.sandbox.inventory().await.expect("the engine answers");
    let ours =
        |instance: &&sandbox::diagnostics::InventoryInstance| instance.id == fixture.sandbox.instance_id();
    let objects = inventory.instances.iter().filter(ours).flat_map(|instance| &instance.objects);
    objects.filter(|object| object.role == Role::Task).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn end_of_one_command_does_not_end_another() {
    let fixture = Fixture::new().await;
    let executor = executor(&fixture, config(&fixture));
    let own = marker(201);
    let (mut writer, reader) = tokio::io::duplex(16);
    let long = async {
        let line = format!(
            "(setsid sleep {own} &); setsid sleep {own} & read line; \
             cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -cx '[1]{}'",
            own.trim_start_matches('1')
        );
        let options = ExecOptions { stdin: Input::Reader(Box::new(reader)), ..within(DEADLINE) };
        executor.execute(line, options).await.expect("a result")
    };
    let others = async {
        // Including the process of the line itself.
        until_processes(&own, 3).await;
        let sleeps = format!("setsid sleep {} & echo begun", marker(202));
        let line = format!("{sleeps}; sleep 600");
        let quick = executor.execute(sleeps, within(DEADLINE));
        let (_, quick) = tokio::join!(timed_out_once_begun(&executor, &line), quick);
        writer.write_all(b"go on\n").await.expect("it reads");
        quick.expect("a result")
    };
    let (long, quick) = tokio::join!(long, others);
    assert!(quick.is_success(), "{quick:?}");
    assert_eq!(long.stdout_text(), "2\n", "two commands ended, and its own processes survived");
    assert_eq!(processes(&marker(20)), 0);
    fixture.close().await;
}

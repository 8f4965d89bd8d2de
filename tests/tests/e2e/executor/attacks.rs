//! Commands that attack the supervisor and each other.

use std::time::Duration;

use e2e_tests::DEADLINE;
use e2e_tests::assert_held;
use e2e_tests::fixture::Fixture;
use sandbox::executor::{ExecOptions, ExecutorMode};
use sandbox::{ByteSize, Input, ResourceLimits};
use tokio::io::AsyncWriteExt as _;

use super::fixture::{
    config, executor, marker, output, processes, run, timed_out_once_begun, until_some_process, within,
};

#[tokio::test(flavor = "multi_thread")]
async fn supervisor_cannot_be_killed_stopped_or_read() {
    let fixture = Fixture::new().await;
    let executor = executor(&fixture, config(&fixture));
    let script = "kill -9 1; kill -STOP 1; kill -TERM 1; for file in environ fd mem maps; do ls /proc/1/$file/ >/dev/null 2>&1 || \
         cat /proc/1/$file >/dev/null 2>&1 && echo open $file; done; cat /run/sandbox/inside >/dev/null 2>&1 && echo readable; \
         cat /proc/self/environ >/dev/null && ls /proc/self/fd/ >/dev/null && echo control";
    let said = output(&executor, script).await;
    assert_held!(!said.contains("open ") && !said.contains("readable"), "{said}");
    assert_eq!(said, "control\n");
    assert_eq!(output(&executor, "echo next").await, "next\n");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn command_killing_its_subreaper_ends_with_its_descendants() {
    let fixture = Fixture::new().await;
    let executor = executor(&fixture, config(&fixture));
    let mark = marker(10);
    let script = format!("setsid sleep {mark} & echo before; kill -9 $PPID; sleep {mark}");
    let result = run(&executor, script).await;
    assert_eq!((result.exit_code, &*result.stdout_text()), (137, "before\n"));
    assert_held!(processes(&mark) == 0, "{} processes are left", processes(&mark));
    let stopped =
        executor.execute("kill -STOP $PPID; exit 3", within(Duration::from_secs(2))).await.expect("a result");
    assert!(stopped.timed_out, "a subreaper that was stopped reports nothing: {stopped:?}");
    assert_eq!(output(&executor, "echo next").await, "next\n");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fork_bomb_ends_at_its_timeout_and_its_neighbour_survives() {
    let fixture = Fixture::new().await;
    let executor = executor(&fixture, config(&fixture));
    // Each process starts its successors and exits, so killing them one by one never catches up.
    let mark = marker(11);
    let next = format!("setsid bash -c \"$(declare -f f); f {mark}\" &");
    let bomb = format!("f() {{ {next} {next} }}; f; echo begun; exec sleep 600");
    let (mut writer, reader) = tokio::io::duplex(16);
    let waits = marker(12);
    let options = ExecOptions { stdin: Input::Reader(Box::new(reader)), ..within(DEADLINE) };
    let neighbour = executor.execute(format!(": {waits}; read line; echo $line"), options);
    let attack = async {
        until_some_process(&waits).await;
        timed_out_once_begun(&executor, &bomb).await;
        writer.write_all(b"on\n").await.expect("the neighbour reads");
    };
    let (neighbour, ()) = tokio::join!(neighbour, attack);
    let neighbour = neighbour.expect("the container is still there");
    assert_eq!((neighbour.exit_code, &*neighbour.stdout_text()), (0, "on\n"), "{neighbour:?}");
    assert_held!(processes(&mark) == 0, "{} processes are left", processes(&mark));
    assert_eq!(output(&executor, "echo next").await, "next\n");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_limit_ends_the_command_and_not_the_executor() {
    let fixture = Fixture::new().await;
    let eat = "python3 -c 'x = bytearray(700 << 20); print(len(x))'";
    for mode in [ExecutorMode::Reuse, ExecutorMode::Fresh] {
        let executor = executor(&fixture, config(&fixture).mode(mode));
        // Whichever process the kernel kills, the command fails and the next one succeeds.
        match executor.execute(eat, within(Duration::from_mins(2))).await {
            Ok(result) => assert_ne!(result.exit_code, 0, "{result:?}"),
            Err(error) => assert!(error.to_string().contains("container of the command ended"), "{error}"),
        }
        assert_eq!(output(&executor, "echo next").await, "next\n");
    }
    let control =
        executor(&fixture, config(&fixture).limits(ResourceLimits::untrusted().memory(ByteSize::gib(2))));
    assert_eq!(output(&control, eat).await, "734003200\n");
    fixture.close().await;
}

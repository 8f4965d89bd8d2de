//! Limits of one command in addition to those of its container.

use std::time::Duration;

use e2e_tests::DEADLINE;
use e2e_tests::fixture::Fixture;
use sandbox::ByteSize;
use sandbox::executor::{ExceededLimit, ExecOptions, ExecResult, Executor, ExecutorMode};

use super::fixture::{config, executor, marker, output, processes, within};

const MODES: [ExecutorMode; 2] = [ExecutorMode::Reuse, ExecutorMode::Fresh];

async fn limited(executor: &Executor, line: &str, options: ExecOptions) -> ExecResult {
    executor.execute(line, options).await.expect("the infrastructure works")
}

fn processes_up_to(pids: u32) -> ExecOptions {
    ExecOptions { pids: Some(pids), ..within(DEADLINE) }
}

fn memory_up_to(mib: u32) -> ExecOptions {
    ExecOptions { memory: Some(ByteSize::mib(mib)), ..within(DEADLINE) }
}

#[tokio::test(flavor = "multi_thread")]
async fn command_above_its_process_limit_is_killed_with_its_orphans() {
    let fixture = Fixture::new().await;
    for (number, mode) in MODES.into_iter().enumerate() {
        let executor = executor(&fixture, config(&fixture).mode(mode));
        let mark = marker(60 + u32::try_from(number).expect("small"));
        // Each is an orphan in its own session.
        let start =
            format!("for n in $(seq 20); do (setsid sleep {mark} </dev/null >/dev/null 2>&1 &); done");
        let line = format!("echo started; {start}; sleep 600");
        let killed = limited(&executor, &line, processes_up_to(15)).await;
        assert_eq!(killed.exceeded, Some(ExceededLimit::Pids), "{killed:?}");
        assert!(!killed.is_success() && !killed.timed_out, "{killed:?}");
        assert_eq!((killed.exit_code, &*killed.stdout_text()), (ExecResult::KILLED, "started\n"));
        assert_eq!(processes(&mark), 0);
        // The controls: a sufficient limit, and no limit.
        let many = format!("{start}; sleep 2");
        for options in [processes_up_to(40), within(DEADLINE)] {
            let fine = limited(&executor, &many, options).await;
            assert!(fine.is_success() && fine.exceeded.is_none(), "{fine:?}");
        }
        // Threads count as processes.
        let threads = "import threading, time\nfor n in range(20): threading.Thread(target=time.sleep, args=(3,)).start()";
        let python = |options| executor.execute(["python3", "-c", threads], options);
        let killed = python(processes_up_to(10)).await.expect("a result");
        assert_eq!(killed.exceeded, Some(ExceededLimit::Pids), "{killed:?}");
        assert!(python(processes_up_to(40)).await.expect("a result").is_success());
        executor.cleanup().await.expect("it is removed");
    }
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fork_bomb_ends_at_its_own_limit_and_its_neighbour_survives() {
    let fixture = Fixture::new().await;
    let executor = executor(&fixture, config(&fixture));
    // Each process starts its successors and exits.
    let mark = marker(62);
    let next = format!("setsid bash -c \"$(declare -f f); f {mark}\" &");
    let bomb = format!("f() {{ {next} {next} }}; f; sleep 600");
    let (neighbour, bombed) =
        tokio::join!(executor.execute("sleep 12; echo lives", within(DEADLINE)), async {
            limited(&executor, &bomb, processes_up_to(30)).await
        });
    assert_eq!(bombed.exceeded, Some(ExceededLimit::Pids), "{bombed:?}");
    let neighbour = neighbour.expect("the container is still there");
    assert_eq!(neighbour.stdout_text(), "lives\n", "{neighbour:?}");
    assert_eq!(processes(&mark), 0);
    assert_eq!(output(&executor, "echo next").await, "next\n");
    // The control: without the limit it continues.
    let control = limited(&executor, &bomb, within(Duration::from_secs(6))).await;
    assert!(control.timed_out && control.exceeded.is_none(), "{control:?}");
    fixture.close().await;
}

/// Allocates memory, in one process or in children, and holds it for a while.
const EAT: &str = "\
import mmap, os, sys, time
how, mib, children, seconds = sys.argv[1], *map(int, sys.argv[2:])
kind = mmap.MAP_SHARED if how == 'shared' else mmap.MAP_PRIVATE
def take():
    held = mmap.mmap(-1, mib << 20, flags=kind | mmap.MAP_ANONYMOUS)
    for at in range(0, mib << 20, 4096): held[at] = 1
    return held
held = None if how == 'apart' else take()
for n in range(children):
    if os.fork() == 0:
        held = take() if how == 'apart' else held
        if how == 'hidden': __import__('ctypes').CDLL(None).prctl(4, 0)
        time.sleep(seconds); os._exit(0)
time.sleep(seconds)
for n in range(children): os.wait()
print('done')
";

#[tokio::test(flavor = "multi_thread")]
async fn memory_of_all_processes_counts_and_shared_memory_counts_once() {
    let fixture = Fixture::new().await;
    for mode in MODES {
        let executor = executor(&fixture, config(&fixture).mode(mode));
        for (how, mib, children, is_killed) in [
            ("private", "150", "0", true),
            ("apart", "40", "3", true),
            ("shared", "150", "1", true),
            // Children that share the memory of their parent.
            ("shared", "60", "3", false),
            ("private", "60", "3", false),
            // The same where the kernel does not report sharing: the memory counts for each
            // process.
            ("hidden", "60", "3", true),
            ("apart", "10", "3", false),
        ] {
            let eat = |seconds, options| {
                executor.execute(["python3", "-c", EAT, how, mib, children, seconds], options)
            };
            let seconds = if is_killed { "600" } else { "3" };
            let result = eat(seconds, memory_up_to(100)).await.expect("a result");
            let expected = is_killed.then_some(ExceededLimit::Memory);
            assert_eq!(result.exceeded, expected, "{how} {mib} {children}: {result:?}");
            assert_eq!(result.is_success(), !is_killed, "{how} {mib} {children}: {result:?}");
            // The control.
            let result = eat("1", within(DEADLINE)).await.expect("a result");
            assert_eq!(result.stdout_text(), "done\n", "{how} {mib} {children}: {result:?}");
        }
        executor.cleanup().await.expect("it is removed");
    }
    fixture.close().await;
}

/// Each child is started by `vfork`: until it executes its program, it shares the memory of its
/// parent.
#[tokio::test(flavor = "multi_thread")]
async fn memory_of_a_parent_counts_once_during_vfork() {
    let fixture = Fixture::new().await;
    let executor = executor(&fixture, config(&fixture));
    let script = "import subprocess\nheld = bytearray(60 << 20)\nfor n in range(300): subprocess.run(['/bin/true'])\nprint('done')";
    let result = executor.execute(["python3", "-c", script], memory_up_to(100)).await.expect("a result");
    assert_eq!(result.stdout_text(), "done\n", "{result:?}");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn limit_above_the_containers_is_refused() {
    let fixture = Fixture::new().await;
    let limits = sandbox::ResourceLimits::untrusted();
    let executor = executor(&fixture, config(&fixture).limits(limits));
    for (options, named) in [
        (memory_up_to(513), "537919488 bytes exceed the container's limit of 536870912"),
        (processes_up_to(101), "101 processes exceed the container's limit of 100"),
    ] {
        let error = executor.execute("true", options).await.expect_err("it is above").to_string();
        assert!(error.contains(named), "{error}");
    }
    fixture.close().await;
}

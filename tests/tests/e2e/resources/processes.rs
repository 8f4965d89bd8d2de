//! Processes, memory and descriptors.

use std::time::Duration;

use e2e_tests::fixture::{Fixture, read_until};
use sandbox::isolation::{Ulimit, UlimitKind};
use sandbox::{ByteSize, Isolation};

use super::hostile::{PYTHON, hostile, limits, run, still_usable};

/// Starts 300 processes and prints how many started.
const CROWD: &str = "import subprocess\nn = 0\ntry:\n    for _ in range(300):\n        subprocess.Popen(['sleep', '60'])\n        n += 1\n\
    except OSError as error:\n    print(error.errno)\nprint(n)";

#[tokio::test(flavor = "multi_thread")]
async fn fork_bomb_ends_at_the_process_limit() {
    let fixture = Fixture::new().await;
    let ran = run(&fixture, &[PYTHON, "-c", CROWD]).await;
    let (error, count) = ran.stdout.trim().split_once('\n').expect("two lines");
    assert_eq!(error, "11", "EAGAIN");
    assert!((50..100).contains(&count.parse::<u32>().expect("a number")), "{count}");
    let bomb = run(&fixture, &["bash", "-c", "f() { f | f & }; f; sleep 3; echo over"]).await;
    assert!(bomb.stderr.contains("Resource temporarily unavailable"), "{}", bomb.stderr);
    let unlimited =
        hostile(&fixture, &[PYTHON, "-c", CROWD]).limits(limits().pids(None).memory(ByteSize::mib(512)));
    assert_eq!(fixture.run_spec(unlimited).await.stdout, "300\n", "the control");
    still_usable(&fixture).await;
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_balloon_is_killed_at_the_limit() {
    let fixture = Fixture::new().await;
    let balloon = "x = bytearray(256 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1\nprint('inflated')";
    let ran = run(&fixture, &[PYTHON, "-c", balloon]).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (137, ""), "{}", ran.stderr);
    let control = hostile(&fixture, &[PYTHON, "-c", balloon]).limits(limits().memory(None));
    assert_eq!(fixture.run_spec(control).await.stdout, "inflated\n", "the control");
    still_usable(&fixture).await;
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn descriptors_are_limited() {
    let fixture = Fixture::new().await;
    let script = "files = []\ntry:\n    while True: files.append(open('/dev/null'))\nexcept OSError as error:\n    print(error.errno, len(files))";
    let with = |number| {
        let limited = Isolation {
            ulimits: vec![Ulimit::fixed(UlimitKind::OpenFiles, number)],
            ..Isolation::untrusted()
        };
        hostile(&fixture, &[PYTHON, "-c", script]).isolation(limited)
    };
    assert_eq!(fixture.run_spec(with(64)).await.stdout, "24 61\n");
    assert_eq!(fixture.run_spec(with(640)).await.stdout, "24 637\n", "the control");
    // Without our limit, the engine's applies.
    let ran = run(&fixture, &[PYTHON, "-c", script]).await;
    assert!(ran.stdout.starts_with("24 "), "{} {}", ran.stdout, ran.stderr);
    still_usable(&fixture).await;
    fixture.close().await;
}

/// Orphans, each of which ends at once, so that PID 1 has to reap them.
const ORPHANS: &str = "import os\nfor _ in range(3000):\n    pid = os.fork()\n    if pid == 0:\n        if os.fork() == 0: os._exit(0)\n        \
    os._exit(0)\n    os.waitpid(pid, 0)\nprint('done')";

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_zombies_are_reaped() {
    let fixture = Fixture::new().await;
    let with = |init| {
        let isolation = Isolation { init, ..Isolation::untrusted() };
        hostile(&fixture, &["env", PYTHON, "-c", ORPHANS]).isolation(isolation)
    };
    let ran = fixture.run_spec(with(true)).await;
    assert_eq!(ran.stdout, "done\n", "{}", ran.stderr);
    let control = fixture.run_spec(with(false)).await;
    assert!(control.stderr.contains("Resource temporarily unavailable"), "{}", control.stderr);
    still_usable(&fixture).await;
    fixture.close().await;
}

/// Processes of the whole host whose command line contains `mark`, except those that merely contain
/// the script.
fn with_mark(mark: &str) -> usize {
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    entries
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .filter(|line| line.starts_with(b"sleep\0") && String::from_utf8_lossy(line).contains(mark))
        .count()
}

#[tokio::test(flavor = "multi_thread")]
async fn detached_process_ignoring_signals_ends_with_its_container() {
    let fixture = Fixture::new().await;
    let mark = format!("{}.5", 10_000_000 + std::process::id());
    let script = format!(
        "trap '' TERM HUP INT; (trap '' TERM; setsid sleep {mark} </dev/null >/dev/null 2>&1 &); until grep -qs '^sleep' /proc/[0-9]*/comm; do sleep 0.1; done; echo ready; while true; do sleep 0.1; done"
    );
    let isolation = Isolation { stop_timeout: Duration::from_secs(1), ..Isolation::untrusted() };
    let spec = hostile(&fixture, &["bash", "-c", &script]).isolation(isolation);
    let command = fixture.sandbox.create_command(spec).expect("a good command");
    let mut execution = command.execute(sandbox::Input::Empty);
    read_until(&mut execution, |output| output.contains("ready")).await;
    // The process was started before this line was printed.
    let there = with_mark(&mark);
    let (result, stopped) = tokio::join!(execution, command.stop());
    let result = result.expect("the sandbox works");
    assert_eq!(there, 1, "the control: it ran and was visible");
    assert!(stopped && result.exit_code == 137, "{result:?}");
    assert_eq!(with_mark(&mark), 0);
    still_usable(&fixture).await;
    fixture.close().await;
}

//! Limits on processes, signals, PID 1, swap.

use std::time::{Duration, Instant};

use e2e_tests::DEADLINE;
use e2e_tests::fixture::{Fixture, read_until};
use sandbox::isolation::{StopSignal, Ulimit, UlimitKind};
use sandbox::{ByteSize, Input, Isolation, ResourceLimits};

use super::fixture::{output, refusal, spec};

#[tokio::test(flavor = "multi_thread")]
async fn ulimits_hold_and_the_others_remain_the_engines() {
    const LIMITS: &str = "ulimit -Sn; ulimit -Hn; ulimit -Hc; ulimit -Hf; ulimit -Hu";
    let fixture = Fixture::new().await;
    let engines: Vec<String> =
        output(&fixture, Isolation { ulimits: Vec::new(), ..Isolation::agent() }, LIMITS)
            .await
            .lines()
            .map(str::to_owned)
            .collect();
    let limited = Isolation {
        ulimits: vec![
            Ulimit { kind: UlimitKind::OpenFiles, soft: 256, hard: 512 },
            Ulimit::fixed(UlimitKind::Core, 0),
            Ulimit::fixed(UlimitKind::FileSize, 4 << 20),
        ],
        ..Isolation::agent()
    };
    let seen = output(&fixture, limited, LIMITS).await;
    let processes = engines.last().expect("lines");
    assert_eq!(seen, format!("256\n512\n0\n4096\n{processes}\n"), "{engines:?}");
    // With only one limit given, the others are the engine's, on podman 4 too.
    let core = output(&fixture, Isolation::agent(), LIMITS).await;
    let files = engines.get(1).expect("lines");
    assert!(core.contains(&format!("{files}\n0\n")) && core.ends_with(&format!("{processes}\n")), "{core}");
    assert_eq!(engines.get(2).map(String::as_str), Some("unlimited"), "the control");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ulimit_above_the_maximum_of_the_service_is_refused() {
    let fixture = Fixture::new().await;
    let isolation = Isolation {
        // Above the kernel's maximum.
        ulimits: vec![Ulimit::fixed(UlimitKind::OpenFiles, 1 << 40)],
        ..Isolation::agent()
    };
    let (field, text) = refusal(&fixture, isolation).await;
    assert!(field == "isolation.ulimits" && text.contains("nofile"), "{text}");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn swap_is_disabled_by_default() {
    let fixture = Fixture::new().await;
    // Version 1 of control groups counts memory and swap together.
    let script = "cd /sys/fs/cgroup; if [ -e memory.swap.max ]; then cat memory.swap.max; else \
         echo $(($(cat memory/memory.memsw.limit_in_bytes) - $(cat memory/memory.limit_in_bytes))); fi";
    for swap in [0, 32 << 20] {
        let isolation = Isolation { swap, ..Isolation::agent() };
        let spec =
            spec(&fixture, isolation, script).limits(ResourceLimits::default().memory(ByteSize::mib(64)));
        assert_eq!(fixture.run_spec(spec).await.stdout, format!("{swap}\n"));
    }
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_signal_is_sent_first_and_sigkill_after_its_grace_period() {
    let fixture = Fixture::new().await;
    let stopped = async |stop_signal, stop_timeout, script: &str| {
        let isolation = Isolation { stop_signal, stop_timeout, ..Isolation::agent() };
        let command =
            fixture.sandbox.create_command(spec(&fixture, isolation, script)).expect("a good command");
        let mut execution = command.execute(Input::Empty);
        read_until(&mut execution, |output| output.contains("ready")).await;
        let begin = Instant::now();
        let (result, stopped) = tokio::join!(execution, command.stop());
        assert!(stopped);
        (result.expect("a stop is an outcome"), begin.elapsed())
    };
    let script = "trap 'echo usr1; exit 7' USR1; trap 'echo term; exit 8' TERM; echo ready; \
         while true; do sleep 0.1; done";
    let (result, _) = stopped(StopSignal::Usr1, DEADLINE, script).await;
    assert!(result.stopped, "{result:?}");
    assert_eq!((&*String::from_utf8_lossy(&result.stdout), result.exit_code), ("ready\nusr1\n", 7));
    let deaf = "trap '' TERM; echo ready; while true; do sleep 0.1; done";
    let (result, took) = stopped(StopSignal::Term, Duration::from_secs(2), deaf).await;
    assert_eq!(result.exit_code, 137);
    assert!(took >= Duration::from_secs(2), "{took:?}");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pid_1_is_the_engines_init_unless_disabled() {
    let fixture = Fixture::new().await;
    let with = |init| Isolation { init, ..Isolation::agent() };
    let script = "tr '\\0' ' ' < /proc/1/cmdline";
    let own = output(&fixture, with(true), script).await;
    assert!(own.contains("init -- "), "{own}");
    let bare = output(&fixture, with(false), script).await;
    assert!(!bare.contains("init -- ") && bare.contains("bash -c"), "{bare}");
    fixture.close().await;
}

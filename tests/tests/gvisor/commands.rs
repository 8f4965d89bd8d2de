//! Commands: kernel, streams, end, mounts, and the demanded runtime.

use std::fs;
use std::time::{Duration, Instant};

use e2e_tests::DEADLINE;
use e2e_tests::fixture::Fixture;
use sandbox::isolation::Runtime;
use sandbox::{ContainerError, Input, Isolation, Mount, ResourceLimits, SandboxError};

use super::fixture::{run, spec};
use super::hook;

#[tokio::test(flavor = "multi_thread")]
async fn command_has_its_own_kernel_streams_and_exit_code() {
    let _hook = hook::keep();
    let fixture = Fixture::new().await;
    let script = "dmesg | grep -c 'Starting gVisor'; cat /proc/version; cat; echo complaint >&2; exit 3";
    let command = fixture.sandbox.create_command(spec(&fixture, script)).expect("a good command");
    let result = command.execute(Input::Bytes(b"from stdin\n".to_vec())).await.expect("the sandbox works");
    let stdout = String::from_utf8_lossy(&result.stdout);
    let lines: Vec<&str> = stdout.lines().collect();
    let [started, version, input] = lines.as_slice() else { panic!("{stdout}") };
    assert_eq!((*started, *input), ("1", "from stdin"));
    // The control: any other container reports the host's kernel.
    let of_host = fs::read_to_string("/proc/version").expect("a kernel");
    assert_ne!(*version, of_host.trim());
    assert_eq!((result.exit_code, &*result.stderr), (3, &b"complaint\n"[..]));
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn time_limit_ends_a_command_ignoring_signals() {
    let _hook = hook::keep();
    let fixture = Fixture::new().await;
    let script = "trap '' TERM INT; setsid sleep 300 & echo before; while true; do sleep 300; done";
    let spec = spec(&fixture, script)
        .limits(ResourceLimits::default().timeout(Duration::from_secs(3)))
        .isolation(Isolation {
            stop_timeout: Duration::from_secs(1),
            ..super::fixture::in_gvisor(Isolation::agent())
        });
    let begun = Instant::now();
    let ran = fixture.run_spec(spec).await;
    assert!(ran.result.timed_out, "{ran:?}");
    assert_eq!(ran.stdout, "before\n", "output before the timeout is kept");
    assert!(begun.elapsed() < DEADLINE, "{:?}", begun.elapsed());
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mounts_are_as_requested() {
    let _hook = hook::keep();
    let fixture = Fixture::new().await;
    let [kept, shared] = ["kept", "shared"].map(|name| {
        let folder = fixture.folder().join(name);
        fs::create_dir(&folder).expect("a folder");
        fs::write(folder.join("file"), "of the host\n").expect("a file");
        folder
    });
    let script = "cat /kept/file; touch /kept/new && echo written; echo changed > /shared/file; touch /shared/new; \
                  echo x > /run/.containerenv && echo written; true";
    let spec = spec(&fixture, script)
        .mount(Mount::read_only_at(&kept, "/kept"))
        .mount(Mount::read_write(&shared, "/shared"));
    let ran = fixture.run_spec(spec).await;
    assert_eq!(ran.stdout, "of the host\n", "{}", ran.stderr);
    assert!(!kept.join("new").exists());
    assert_eq!(fs::read_to_string(shared.join("file")).expect("a file"), "changed\n");
    assert!(shared.join("new").exists());
    // The control: without the demand, podman's own file on the host's `/run` is accessible there.
    let control = fixture.run("domains: []", "echo x > /run/.containerenv && echo written").await;
    assert_eq!(control.stdout, "written\n", "{}", control.stderr);
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn demanded_gvisor_is_used_and_other_runtimes_are_refused() {
    let _hook = hook::keep();
    let fixture = Fixture::new().await;
    assert_eq!(run(&fixture, "echo ran").await.stdout, "ran\n");
    for other in [Runtime::Crun, Runtime::Runc, Runtime::Krun] {
        let demanding =
            spec(&fixture, "true").isolation(Isolation { runtime: Some(other), ..Isolation::agent() });
        let command = fixture.sandbox.create_command(demanding).expect("a good command");
        let error = command.execute(Input::Empty).await.expect_err("this engine has only gVisor");
        let text = error.to_string();
        assert!(
            matches!(
                error,
                SandboxError::Container(ContainerError::Unsupported { field: "isolation.runtime", .. })
            ),
            "{text}"
        );
        assert!(
            text.contains("runsc") && text.contains(&format!("podman --runtime {other} system service")),
            "{text}"
        );
    }
    fixture.close().await;
}

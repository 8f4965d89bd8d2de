//! Differences of rootless podman; on the other engines these tests are controls.

use e2e_tests::fixture::{self, Fixture};
use e2e_tests::setting::Setting;
use sandbox::{ByteSize, ContainerError, Cpus, Input, ResourceLimits, SandboxError};

#[tokio::test(flavor = "multi_thread")]
async fn limit_holds_or_its_error_names_the_missing_support() {
    let fixture = Fixture::new().await;
    let none = ResourceLimits::default;
    // The kernel's view inside, from the files of version 1 of control groups or from the one of
    // version 2.
    let limits = [
        (
            "resource_limits.memory",
            none().memory(ByteSize::mib(64)),
            "cat memory/memory.limit_in_bytes || cat memory.max",
            "67108864\n",
        ),
        (
            "resource_limits.cpus",
            none().cpus(Cpus::new(0.5).unwrap()),
            "echo $(cat cpu/cpu.cfs_quota_us cpu/cpu.cfs_period_us || cat cpu.max)",
            "50000 100000\n",
        ),
        ("resource_limits.pids_limit", none().pids(50), "cat pids/pids.max || cat pids.max", "50\n"),
    ];
    for (expected, limits, script, in_force) in limits {
        let script = format!("cd /sys/fs/cgroup && {{ {script}; }} 2> /dev/null");
        let spec = fixture.command("domains: []", &["bash", "-c", &script]).limits(limits);
        let command = fixture.sandbox.create_command(spec).expect("a good specification");
        match command.execute(Input::Empty).await {
            Ok(result) => assert_eq!(String::from_utf8_lossy(&result.stdout), in_force, "{expected}"),
            Err(SandboxError::Container(ContainerError::Unsupported { field, .. })) if field == expected => {
                assert!(Setting::of_this_run().is_rootless(), "an engine of root has control groups");
            }
            other => panic!("{expected}: {other:?}"),
        }
    }
    // Without requested limits it runs, and its ulimits apply.
    let ran = fixture.run("domains: [open.test]", "ulimit -Hc; curl -sS https://open.test/x").await;
    assert!(ran.stdout.starts_with("0\nhello from open.test"), "{} {}", ran.stdout, ran.stderr);
    fixture.close().await;
}

/// The proxy of a rootless engine can reach the host under special names. It connects only to
/// addresses that the operator allows.
#[tokio::test(flavor = "multi_thread")]
async fn proxy_refuses_addresses_of_the_host_unless_allowed() {
    let mut config = fixture::config(&fixture::state_dir());
    config.upstream.allow_addresses =
        vec!["203.0.113.0/27".parse().expect("the test network without the host")];
    let fixture = Fixture::with(config).await;
    let policy = "domains: [open.test, host-of-pasta.test, host-of-slirp.test]";
    let script = "for name in host-of-pasta host-of-slirp open; do \
                  curl -s -o /dev/null -w '%{http_code}\\n' http://$name.test/; done";
    let ran = fixture.run(policy, script).await;
    assert_eq!(ran.stdout, "403\n403\n200\n", "{}", ran.log);
    assert_eq!(ran.log_lines("[reason: address]").len(), 2, "{}", ran.log);
    fixture.close().await;
}

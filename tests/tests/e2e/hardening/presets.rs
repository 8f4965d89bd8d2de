//! The two presets.

use e2e_tests::engine;
use e2e_tests::fixture::{self, Fixture};
use sandbox::{Cpus, Isolation, ResourceLimits};
use serde_json::json;

use super::fixture::{output, run, spec};

const LOOK: &str = "id -u; id -g; grep -E '^(CapBnd|CapEff|NoNewPrivs|Seccomp):' /proc/self/status | tr '\\t' ' '; \
     touch /etc/x 2>&1; touch /usr/x 2>&1; echo ~; cat /proc/1/comm; ls /sys/class/net; ulimit -Hc; ulimit -Sc";

#[tokio::test(flavor = "multi_thread")]
async fn writable_paths_of_the_untrusted_are_small_and_noexec() {
    let fixture = Fixture::new().await;
    let script = "for place in /tmp /home/sandbox /var/tmp /run /dev/shm; do \
         df -k --output=size $place | tail -1 | tr -d ' '; cp /bin/true $place/t && $place/t 2>/dev/null; echo $?; \
         findmnt -no OPTIONS $place 2>/dev/null || grep \" $place \" /proc/mounts; done";
    let seen = output(&fixture, Isolation::untrusted(), script).await;
    let lines: Vec<&str> = seen.lines().collect();
    for (place, kibibytes) in lines.chunks(3).zip([65_536, 65_536, 32_768, 16_384, 16_384]) {
        let [size, executed, options] = place else { panic!("{seen}") };
        assert_eq!((*size, *executed), (kibibytes.to_string().as_str(), "126"), "{seen}");
        assert!(["nosuid", "nodev", "noexec"].iter().all(|flag| options.contains(flag)), "{options}");
    }
    assert_eq!(lines.len(), 15, "{seen}");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn control_agent_writes_executes_and_is_root() {
    let fixture = Fixture::new().await;
    let seen = output(
        &fixture,
        Isolation::agent(),
        &format!("{LOOK}; cp /bin/true /tmp/t && /tmp/t && echo executed"),
    )
    .await;
    assert!(
        seen.starts_with(
            "0\n0\nCapEff: 00000000000000eb\nCapBnd: 00000000000000eb\nNoNewPrivs: 1\nSeccomp: 2\n/root\n"
        ),
        "{seen}"
    );
    assert!(seen.ends_with("lo\n0\n0\nexecuted\n"), "{seen}");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn control_podman_alone_grants_more() {
    let seen = engine::unverified(
        "grep -E '^NoNewPrivs' /proc/self/status | tr '\\t' ' '; ulimit -Hc; df --output=size /tmp | tail -1",
        &json!({"ReadonlyRootfs": true}),
    )
    .await;
    assert!(seen.starts_with("NoNewPrivs: 0\nunlimited\n"), "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_for_the_untrusted_hold() {
    let fixture = Fixture::new().await;
    let limited =
        |script: &str| spec(&fixture, Isolation::untrusted(), script).limits(ResourceLimits::untrusted());
    // Both versions of control groups, which report swap with or without memory.
    let script = "cd /sys/fs/cgroup; cat memory/memory.limit_in_bytes memory.max 2>/dev/null; \
         cat memory/memory.memsw.limit_in_bytes 2>/dev/null || { [ $(cat memory.swap.max) = 0 ] && echo 536870912; }; \
         cat pids/pids.max pids.max 2>/dev/null; true";
    let ran = fixture.run_spec(limited(script)).await;
    assert_eq!(ran.stdout, "536870912\n536870912\n100\n", "{}", ran.stderr);
    // Microseconds of processor time per period.
    let share = "cd /sys/fs/cgroup; if [ -e cpu.max ]; then cat cpu.max; else \
         echo $(cat cpu/cpu.cfs_quota_us) $(cat cpu/cpu.cfs_period_us) | sed s/^-1/max/; fi";
    for (cpus, expected) in [
        (ResourceLimits::untrusted().cpus, "100000 100000\n"),
        (Cpus::new(0.5).ok(), "50000 100000\n"),
        (None, "max 100000\n"),
    ] {
        let spec =
            spec(&fixture, Isolation::untrusted(), share).limits(ResourceLimits::untrusted().cpus(cpus));
        let ran = fixture.run_spec(spec).await;
        assert_eq!(ran.stdout, expected, "{cpus:?}: {}", ran.stderr);
    }
    let bomb = "for i in $(seq 200); do sleep 20 & done 2>&1 | tail -1; jobs -p | wc -l";
    let ran = fixture.run_spec(limited(bomb)).await;
    assert!(
        format!("{}{}", ran.stdout, ran.stderr).contains("Resource temporarily unavailable"),
        "{} {}",
        ran.stdout,
        ran.stderr
    );
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn untrusted_with_a_network_reach_permitted_hosts() {
    let fixture = Fixture::new().await;
    let spec = fixture
        .command("domains: [open.test]", &["curl", "-sS", "https://open.test/x"])
        .isolation(Isolation::untrusted())
        .network(fixture::network("domains: [open.test]"));
    let ran = fixture.run_spec(spec).await;
    assert!(ran.stdout.contains("hello from open.test"), "{}", ran.stderr);
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_command_leaves_nothing() {
    let fixture = Fixture::new().await;
    let before = run(&fixture, Isolation::agent(), "true").await;
    assert_eq!(before.code, 0);
    let isolation = Isolation {
        seccomp: sandbox::isolation::Seccomp::Profile("/no/such/profile.json".into()),
        ..Isolation::agent()
    };
    super::fixture::refusal(&fixture, isolation).await;
    // It fails if a container is left.
    fixture.close().await;
}

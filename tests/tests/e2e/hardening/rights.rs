//! Capabilities, system calls, users, runtimes, devices.

use std::fs;

use e2e_tests::fixture::{self, Fixture};
use e2e_tests::setting::Setting;
use sandbox::isolation::{Capability, Device, Runtime, Seccomp, UserNamespace};
use sandbox::{Isolation, Mount};

use super::fixture::{output, refusal, run, spec};

const STATUS: &str = "grep -E '^(CapBnd|NoNewPrivs|Seccomp):' /proc/self/status | tr '\\t' ' '";

#[tokio::test(flavor = "multi_thread")]
async fn capabilities_and_no_new_privileges_are_as_requested() {
    let fixture = Fixture::new().await;
    let more = Isolation {
        capabilities: [Capability::NET_RAW, Capability::NET_BIND_SERVICE].into(),
        no_new_privileges: false,
        ..Isolation::agent()
    };
    assert_eq!(
        output(&fixture, more.clone(), STATUS).await,
        "CapBnd: 0000000000002400\nNoNewPrivs: 0\nSeccomp: 2\n"
    );
    // Only root has capabilities.
    let user = Isolation { user: Some("1000".to_owned()), ..more };
    assert_eq!(output(&fixture, user, STATUS).await, "CapBnd: 0000000000000000\nNoNewPrivs: 0\nSeccomp: 2\n");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn seccomp_profile_filters_calls_and_a_missing_one_is_refused() {
    let fixture = Fixture::new().await;
    let profile = fixture.folder().join("profile.json");
    fs::write(
        &profile,
        r#"{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1}]}"#,
    )
    .expect("a profile");
    let with = |seccomp| Isolation { seccomp, ..Isolation::agent() };
    let ran = run(&fixture, with(Seccomp::Profile(profile)), "mkdir /tmp/x").await;
    assert!(ran.stderr.contains("Operation not permitted"), "{}", ran.stderr);
    let unfiltered = output(&fixture, with(Seccomp::Unconfined), &format!("mkdir /tmp/x; {STATUS}")).await;
    assert!(unfiltered.contains("Seccomp: 0"), "{unfiltered}");
    let filtered = output(&fixture, Isolation::agent(), &format!("mkdir /tmp/x; {STATUS}")).await;
    assert!(filtered.contains("Seccomp: 2"), "{filtered}");
    let (field, text) = refusal(&fixture, with(Seccomp::Profile("/no/such/profile.json".into()))).await;
    assert!(field == "isolation.seccomp" && text.contains("/no/such/profile.json"), "{text}");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn apparmor_profile_that_cannot_be_enforced_is_refused() {
    let fixture = Fixture::new().await;
    let profile = "no-such-profile-of-the-tests".parse().expect("a good name");
    let confined = Isolation { apparmor: Some(profile), ..Isolation::agent() };
    let (field, text) = refusal(&fixture, confined).await;
    // The fix depends on the machine.
    let enabled = fs::read_to_string("/sys/module/apparmor/parameters/enabled").unwrap_or_default();
    let fix = match (enabled.trim(), Setting::of_this_run().is_rootless()) {
        ("Y", false) => "apparmor_parser --replace",
        ("Y", true) => "a service that runs as root",
        _ => "the kernel has no AppArmor",
    };
    assert!(field == "isolation.apparmor" && text.contains(fix), "{text}");
    assert_eq!(output(&fixture, Isolation::agent(), "echo runs").await, "runs\n", "the control");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn user_is_set_by_name_or_number() {
    let fixture = Fixture::new().await;
    let as_user = |user: &str| Isolation { user: Some(user.to_owned()), ..Isolation::agent() };
    for (user, seen) in [("nobody", "65534 65534\n"), ("1234:5678", "1234 5678\n"), ("root", "0 0\n")] {
        let script = "echo $(id -u) $(id -g)";
        assert_eq!(output(&fixture, as_user(user), script).await, seen, "{user}");
    }
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn private_user_namespace_maps_to_unprivileged_host_users() {
    let fixture = Fixture::new().await;
    let isolation = Isolation {
        user_namespace: UserNamespace::Private { first: 300_000, size: 65_536 },
        ..Isolation::agent()
    };
    let shared = fixture.folder().join("shared");
    fs::create_dir(&shared).expect("a folder");
    fs::write(shared.join("file"), "of the host\n").expect("a file");
    let script = "echo $(cat /proc/self/uid_map); id -u; touch /etc/mine && stat -c %u /etc/mine; cat /shared/file; \
         stat -c %u /shared/file; touch /shared/x 2>&1; curl -sS https://open.test/";
    let spec = spec(&fixture, isolation, script)
        .network(fixture::network("domains: [open.test]"))
        .mount(Mount::read_write(&shared, "/shared"));
    let ran = fixture.run_spec(spec).await;
    assert!(
        ran.stdout.starts_with(
            "0 300000 65536\n0\n0\nof the host\n65534\ntouch: cannot touch '/shared/x': Permission denied\n"
        ),
        "{} {}",
        ran.stdout,
        ran.stderr
    );
    assert!(ran.stdout.contains("hello from open.test"), "{} {}", ran.stdout, ran.stderr);
    // The control: root in the container is the host's root.
    let control = output(&fixture, Isolation::agent(), "echo $(cat /proc/self/uid_map)").await;
    assert!(control.starts_with("0 0 "), "{control}");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requested_runtime_is_used_or_refused() {
    let fixture = Fixture::new().await;
    let facts = fixture.sandbox.engine_facts().await.expect("the engine answers");
    let own: Runtime = facts.runtime.parse().expect("a runtime that we know");
    let with = |runtime| Isolation { runtime: Some(runtime), ..Isolation::agent() };
    assert_eq!(output(&fixture, with(own), "echo ran").await, "ran\n");
    for other in [Runtime::Crun, Runtime::Runc, Runtime::Runsc, Runtime::Krun] {
        if other == own {
            continue;
        }
        let (field, text) = refusal(&fixture, with(other)).await;
        assert_eq!(field, "isolation.runtime");
        assert!(
            text.contains(own.as_str()) && text.contains(&format!("podman --runtime {other} system service")),
            "{text}"
        );
    }
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_requested_device_nodes_exist() {
    let fixture = Fixture::new().await;
    let isolation = Isolation {
        devices: vec![Device::Node { host: "/dev/zero".into(), container: "/dev/another".to_owned() }],
        ..Isolation::agent()
    };
    let script = "head -c 3 /dev/another 2>&1 | od -An -tx1";
    assert_eq!(output(&fixture, isolation, script).await, " 00 00 00\n");
    let control = run(&fixture, Isolation::agent(), "ls /dev/another").await;
    assert_ne!(control.code, 0, "{}", control.stdout);
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cdi_device_is_present_or_refused() {
    let fixture = Fixture::new().await;
    let with = |name: &str| Isolation { devices: vec![Device::Cdi(name.to_owned())], ..Isolation::agent() };
    let (field, text) = refusal(&fixture, with("sandbox.test/no-such=all")).await;
    assert!(field == "isolation.devices" && text.contains("sandbox.test/no-such=all"), "{text}");
    // The engine's host has a description of this device.
    let described = output(&fixture, with("sandbox.test/device=zero"), "ls /dev/described").await;
    assert_eq!(described, "/dev/described\n");
    fixture.close().await;
}

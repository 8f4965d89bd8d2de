//! Each weakening of a container breaks the promises concerned, and no other.

use std::collections::BTreeMap;
use std::os::unix::net::UnixListener;
use std::path::Path;

use e2e_tests::assert_held;
use e2e_tests::fixture::Fixture;
use e2e_tests::setting::Setting;
use sandbox::diagnostics::VerifySpec;
use sandbox::isolation::{Capability, Device, HostEntry, Seccomp, Tmpfs, Ulimit, UlimitKind};
use sandbox::{ByteSize, ImageSource, Isolation, Mount, Network, ResourceLimits};
use tempfile::TempDir;

use super::report::{broken, proxied, untrusted_limits};

type Broken = BTreeMap<&'static str, String>;

async fn untrusted(fixture: &Fixture, made: Isolation) -> Broken {
    let limits = untrusted_limits();
    let spec = VerifySpec::new(fixture.image.clone(), Isolation::untrusted(), limits);
    broken(fixture, spec.made_with(made, limits)).await
}

async fn agent(fixture: &Fixture, made: Isolation) -> Broken {
    let limits = ResourceLimits::default();
    let spec = VerifySpec::new(fixture.image.clone(), Isolation::agent(), limits);
    broken(fixture, spec.made_with(made, limits)).await
}

#[track_caller]
fn assert_only(broken: &Broken, expected: &[&str]) {
    let names: Vec<&str> = broken.keys().copied().collect();
    assert_held!(expected.iter().all(|name| names.contains(name)), "not detected: {names:?} of {expected:?}");
    assert_eq!(names, expected, "{broken:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn added_capabilities_are_detected() {
    let fixture = Fixture::new().await;
    for (capability, refusals) in [
        (Capability::NET_RAW, &["capabilities", "raw_sockets_refused"][..]),
        (Capability::SYS_CHROOT, &["capabilities", "chroot_refused"]),
        (Capability::MKNOD, &["capabilities", "device_nodes_refused"]),
        (Capability::SYSLOG, &["capabilities", "kernel_log_hidden"]),
        (Capability::SYS_BOOT, &["capabilities", "reboot_refused"]),
        (
            Capability::SYS_ADMIN,
            &["capabilities", "mount_refused", "pivot_root_refused", "user_namespace_refused"],
        ),
        (Capability::SYS_TIME, &["capabilities", "clock_refused"]),
        // It also permits access to the packet filter.
        (Capability::NET_ADMIN, &["capabilities", "foreign_sockets_refused"]),
        // `modules_refused` has no control: the kernels of the tests may have no modules and refuse
        // them to everybody.
    ] {
        let mut made = Isolation::agent();
        made.capabilities.insert(capability);
        let broken = agent(&fixture, made).await;
        assert_only(&broken, refusals);
    }
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn new_privileges_and_unfiltered_calls_are_detected() {
    let fixture = Fixture::new().await;
    for (promised, made, expected) in [
        (
            Isolation::agent(),
            Isolation { no_new_privileges: false, ..Isolation::agent() },
            &["no_new_privileges", "setuid_blocked"][..],
        ),
        (
            Isolation::untrusted(),
            Isolation { no_new_privileges: false, ..Isolation::untrusted() },
            &["no_new_privileges", "setuid_blocked"],
        ),
        (
            Isolation::agent(),
            Isolation { seccomp: Seccomp::Unconfined, ..Isolation::agent() },
            &["foreign_sockets_refused", "seccomp_filter", "user_namespace_refused"],
        ),
        // Podman's default profile permits everybody to create a user namespace and to talk to the
        // machine's hypervisor.
        (
            Isolation::untrusted(),
            Isolation { seccomp: Seccomp::Default, ..Isolation::untrusted() },
            &["foreign_sockets_refused", "user_namespace_refused"],
        ),
    ] {
        let limits = untrusted_limits();
        let spec = VerifySpec::new(fixture.image.clone(), promised, limits).made_with(made, limits);
        assert_only(&broken(&fixture, spec).await, expected);
    }
    fixture.close().await;
}

/// The check runs `pkexec id -u`; this `pkexec` does not ask for a password.
#[tokio::test(flavor = "multi_thread")]
async fn setuid_root_program_is_detected() {
    let fixture = Fixture::new().await;
    let base = &Setting::of_this_run().image;
    let source = ImageSource::build(
        format!("FROM {base}\nRUN cp /usr/bin/env /usr/bin/pkexec && chmod 4755 /usr/bin/pkexec\n"),
        BTreeMap::new(),
    );
    let image = fixture.sandbox.ensure_image(&source).await.expect("an image");
    let limits = untrusted_limits();
    let promised = || VerifySpec::new(image.clone(), Isolation::untrusted(), limits);
    let made = Isolation { no_new_privileges: false, ..Isolation::untrusted() };
    assert_only(
        &broken(&fixture, promised().made_with(made, limits)).await,
        &["no_new_privileges", "setuid_blocked", "sudo_blocked"],
    );
    assert_only(&broken(&fixture, promised()).await, &[]);
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn filter_that_allows_everything_is_detected() {
    let fixture = Fixture::new().await;
    let profile = fixture.folder().join("profile.json");
    std::fs::write(&profile, r#"{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": []}"#).expect("a profile");
    let made = Isolation { seccomp: Seccomp::Profile(profile), ..Isolation::untrusted() };
    let broken = untrusted(&fixture, made).await;
    assert_only(&broken, &["foreign_sockets_refused", "seccomp_filter", "user_namespace_refused"]);
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_user_and_writable_root_are_detected() {
    let fixture = Fixture::new().await;
    let root = Isolation { user: Some("0:0".to_owned()), ..Isolation::untrusted() };
    let other = Isolation { user: Some("1001:1000".to_owned()), ..Isolation::untrusted() };
    let writable = Isolation { read_only_root: false, ..Isolation::untrusted() };
    assert_only(&untrusted(&fixture, root).await, &["user_is_sandbox", "user_not_root"]);
    assert_only(&untrusted(&fixture, other).await, &["user_is_sandbox"]);
    assert_only(&untrusted(&fixture, writable).await, &["etc_readonly", "root_readonly", "usr_readonly"]);
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn larger_and_executable_tmpfs_are_detected() {
    let fixture = Fixture::new().await;
    let with = |tmpfs: Tmpfs| {
        let mut made = Isolation::untrusted();
        made.tmpfs.retain(|other| other.path != tmpfs.path);
        made.tmpfs.push(tmpfs);
        made
    };
    let executable = Tmpfs { exec: true, ..Tmpfs::new("/tmp", 64 << 20) };
    let large = Isolation { shm_size: 128 << 20, ..Isolation::untrusted() };
    let closed = |path| Tmpfs { mode: 0o755, ..Tmpfs::new(path, 64 << 20) };
    assert_only(&untrusted(&fixture, with(executable)).await, &["scratch_noexec"]);
    assert_only(
        &untrusted(&fixture, with(Tmpfs::new("/var/tmp", 64 << 20))).await,
        &["memory_bounded_files"],
    );
    assert_only(&untrusted(&fixture, large).await, &["memory_bounded_files"]);
    assert_only(
        &untrusted(&fixture, with(closed("/home/sandbox"))).await,
        &["home_writable", "memory_bounded_files", "scratch_noexec"],
    );
    let tmp = untrusted(&fixture, with(closed("/tmp"))).await;
    assert!(tmp.contains_key("tmp_writable") && !tmp.contains_key("home_writable"), "{tmp:#?}");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn added_devices_host_names_and_missing_limits_are_detected() {
    let fixture = Fixture::new().await;
    let device = Isolation {
        devices: vec![Device::Node { host: "/dev/zero".into(), container: "/dev/another".to_owned() }],
        ..Isolation::untrusted()
    };
    let named = Isolation {
        hosts: vec![HostEntry {
            name: "the-host".to_owned(),
            address: "10.0.0.1".parse().expect("an address"),
        }],
        ..Isolation::untrusted()
    };
    let dumping =
        Isolation { ulimits: vec![Ulimit::fixed(UlimitKind::Core, 4096)], ..Isolation::untrusted() };
    assert_only(&untrusted(&fixture, device).await, &["devices_minimal"]);
    assert_only(&untrusted(&fixture, named).await, &["hosts_file_clean"]);
    assert_only(&untrusted(&fixture, dumping).await, &["process_limits"]);
    let unlimited = |limits| {
        let spec = VerifySpec::new(
            fixture.image.clone(),
            Isolation::untrusted(),
            ResourceLimits::untrusted().memory(ByteSize::mib(128)),
        );
        spec.made_with(Isolation::untrusted(), limits)
    };
    let without_memory = ResourceLimits::untrusted().memory(None);
    let without_processes = ResourceLimits::untrusted().pids(None).memory(ByteSize::mib(128));
    assert_only(&broken(&fixture, unlimited(without_memory)).await, &["memory_bounded"]);
    assert_only(&broken(&fixture, unlimited(without_processes)).await, &["processes_bounded"]);
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mounted_engine_socket_is_detected() {
    let fixture = Fixture::new().await;
    let socket = Setting::of_this_run().engine.trim_start_matches("unix://");
    let folder = Path::new(socket).parent().expect("a folder");
    // Only root can access the folder.
    let spec = || VerifySpec::new(fixture.image.clone(), Isolation::agent(), ResourceLimits::default());
    for mount in [Mount::read_only_at(socket, "/control"), Mount::read_only_at(folder, "/shared")] {
        assert_only(&broken(&fixture, spec().mount(mount)).await, &["engine_socket_absent"]);
    }
    // Under any name, and some levels down.
    let renamed = TempDir::new_in(folder).expect("a folder next to the engine's socket");
    let deep = renamed.path().join("a/b");
    std::fs::create_dir_all(&deep).expect("a folder");
    std::fs::hard_link(socket, deep.join("quiet")).expect("another name for it");
    let mount = Mount::read_only_at(renamed.path(), "/shared");
    let seen = broken(&fixture, spec().mount(mount)).await;
    assert_only(&seen, &["engine_socket_absent"]);
    assert_eq!(seen["engine_socket_absent"], "/shared/a/b/quiet answers as an engine does");
    // The caller's own mount is not a violation, nor is a socket of another user in it.
    let _listener = UnixListener::bind(fixture.folder().join("others")).expect("a socket");
    let own = Mount::read_write(fixture.folder(), "/own");
    assert_only(&broken(&fixture, spec().mount(own)).await, &[]);
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn network_without_a_proxy_is_detected() {
    let fixture = Fixture::new().await;
    let spec = |network| {
        VerifySpec::new(fixture.image.clone(), Isolation::agent(), ResourceLimits::default()).network(network)
    };
    let open = broken(&fixture, spec(Network::Unrestricted)).await;
    for id in [
        "interfaces_bounded",
        "no_route_out",
        "tcp_out_refused",
        "udp_out_refused",
        "metadata_refused",
        "resolvers_refused",
        "ipv6_absent",
    ] {
        assert!(open.contains_key(id), "{id}: {open:#?}");
    }
    // Whether unprivileged users may send echo requests depends on the host; raw sockets always
    // may.
    let mut pinging = Isolation::agent();
    pinging.capabilities.insert(Capability::NET_RAW);
    let raw = spec(Network::Unrestricted).made_with(pinging, ResourceLimits::default());
    let raw = broken(&fixture, raw).await;
    assert!(raw.contains_key("ping_out_refused"), "{raw:#?}");
    let of_network = |id: &str| {
        ["interfaces", "no_route", "ipv6", "tcp_", "udp_", "ping_", "metadata", "resolvers"]
            .iter()
            .any(|start| id.starts_with(start))
    };
    assert!(open.keys().all(|id| of_network(id)), "{open:#?}");
    assert_only(&broken(&fixture, spec(proxied())).await, &[]);
    fixture.close().await;
}

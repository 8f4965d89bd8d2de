//! In-memory file systems, masked files, hosts files.

use std::net::Ipv4Addr;

use e2e_tests::engine;
use e2e_tests::fixture::Fixture;
use sandbox::isolation::{HostEntry, Tmpfs};
use sandbox::{Isolation, Mount};
use serde_json::json;

use super::fixture::{output, run, spec};

#[tokio::test(flavor = "multi_thread")]
async fn tmpfs_has_the_requested_size_mode_and_flags() {
    let fixture = Fixture::new().await;
    let small = Tmpfs::new("/small", 1 << 20);
    let open = Tmpfs { mode: 0o700, exec: true, copy_up: true, ..Tmpfs::new("/etc/apt", 1 << 20) };
    let empty = Tmpfs::new("/etc/dpkg", 1 << 20);
    let isolation = Isolation { tmpfs: vec![small, open, empty], ..Isolation::agent() };
    let script = "stat -c %a /small /etc/apt /etc/dpkg; ls /etc/dpkg | wc -l; cp /bin/true /small/t; /small/t 2>/dev/null; echo $?; \
         cp /bin/true /etc/apt/t && /etc/apt/t; echo $?; ls -d /etc/apt/apt.conf.d; \
         head -c 2000000 /dev/zero > /small/full 2>/dev/null; stat -c %s /small/full";
    let seen = output(&fixture, isolation, script).await;
    let (head, filled) = seen.trim_end().rsplit_once('\n').expect("lines");
    assert_eq!(head, "1777\n700\n1777\n0\n126\n0\n/etc/apt/apt.conf.d");
    assert!(filled.parse::<u32>().expect("a size") <= 1 << 20, "{filled}");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writable_paths_of_a_read_only_root_are_bounded() {
    const SIZES: &str = "for place in /tmp /run /var/tmp; do grep \" $place tmpfs\" /proc/mounts | grep -o 'size=[0-9]*k' || echo unbounded; done";
    let fixture = Fixture::new().await;
    let isolation = Isolation { read_only_root: true, ..Isolation::agent() };
    let seen = output(&fixture, isolation.clone(), &format!("{SIZES}; touch /x 2>&1 || true")).await;
    assert_eq!(
        seen,
        "size=65536k\nsize=16384k\nsize=32768k\ntouch: cannot touch '/x': Read-only file system\n"
    );
    let smaller = Isolation { tmpfs: vec![Tmpfs::new("/tmp", 1 << 20)], ..isolation.clone() };
    assert_eq!(output(&fixture, smaller, SIZES).await, "size=1024k\nsize=16384k\nsize=32768k\n");
    let mounted = spec(&fixture, isolation, "touch /tmp/x && grep -c ' /tmp tmpfs' /proc/mounts")
        .mount(Mount::read_write(fixture.folder(), "/tmp"));
    assert_eq!(fixture.run_spec(mounted).await.stdout, "0\n", "the caller's own folder");
    let control = engine::unverified(SIZES, &json!({"ReadonlyRootfs": true})).await;
    assert_eq!(control, "unbounded\nunbounded\nunbounded\n", "podman alone");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shared_memory_has_the_requested_size_or_is_absent() {
    let fixture = Fixture::new().await;
    let with = |shm_size| Isolation { shm_size, ..Isolation::agent() };
    let script = "df -k --output=size /dev/shm 2>/dev/null | tail -1 | tr -d ' '; ls -d /dev/shm";
    assert_eq!(output(&fixture, with(8 << 20), script).await, "8192\n/dev/shm\n");
    let none = run(&fixture, with(0), script).await;
    assert!(none.stdout.is_empty() && none.code != 0, "{}", none.stdout);
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn masked_files_and_folders_are_empty() {
    let fixture = Fixture::new().await;
    let script = "wc -c < /etc/os-release; ls /etc/apt | wc -l; cat /proc/kcore 2>&1 | wc -c";
    let masked = Isolation {
        masked_paths: ["/usr/lib/os-release", "/etc/apt", "/not/in/the/image"].map(str::to_owned).into(),
        ..Isolation::agent()
    };
    let seen = output(&fixture, masked, script).await;
    assert!(seen.starts_with("0\n0\n"), "{seen}");
    let control = output(&fixture, Isolation::agent(), script).await;
    assert!(!control.starts_with("0\n") && !control.contains("\n0\n0\n"), "{control}");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_file_has_the_requested_entries_and_none_of_the_host() {
    let fixture = Fixture::new().await;
    let isolation = Isolation {
        hostname: "box-7".to_owned(),
        hosts: vec![HostEntry::new("db.test", Ipv4Addr::new(10, 0, 0, 7))],
        ..Isolation::agent()
    };
    let script = "hostname; cat /etc/hosts; getent hosts db.test box-7; getent hosts host.containers.internal; \
         echo x >> /etc/hosts";
    let ran = run(&fixture, isolation.clone(), script).await;
    assert_eq!(
        ran.stdout,
        "box-7\n127.0.0.1 localhost box-7\n10.0.0.7 db.test\n10.0.0.7        db.test\n127.0.0.1       localhost box-7\n",
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("Read-only file system"), "{}", ran.stderr);
    // The same with a network, for which podman adds more entries.
    let networked =
        spec(&fixture, isolation, "cat /etc/hosts").network(e2e_tests::fixture::network("domains: []"));
    let ran = fixture.run_spec(networked).await;
    assert_eq!(ran.stdout, "127.0.0.1 localhost box-7\n10.0.0.7 db.test\n");
    let control = engine::unverified("cat /etc/hosts", &json!({})).await;
    assert!(control.contains("host.containers.internal"), "podman alone: {control}");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_file_of_the_caller_is_unchanged() {
    let fixture = Fixture::new().await;
    let hosts = fixture.folder().join("hosts");
    std::fs::write(&hosts, "10.0.0.8 mine.test\n").expect("a file");
    let own =
        spec(&fixture, Isolation::agent(), "cat /etc/hosts").mount(Mount::read_only_at(&hosts, "/etc/hosts"));
    assert_eq!(fixture.run_spec(own).await.stdout, "10.0.0.8 mine.test\n");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_file_of_the_engine_opens_host_memory() {
    // A file that is not a mount is the image's, on the container's own layer.
    const FILL: &str = "for file in /etc/hosts /etc/hostname /etc/resolv.conf /run/.containerenv; do \
         grep -q \" $file \" /proc/mounts || continue; head -c 1000000 /dev/zero >> $file; \
         [ $(stat -c %s $file 2>/dev/null || echo 0) -ge 1000000 ] && echo filled $file; done; true";
    let fixture = Fixture::new().await;
    let networked =
        spec(&fixture, Isolation::agent(), FILL).network(e2e_tests::fixture::network("domains: []"));
    for spec in [spec(&fixture, Isolation::agent(), FILL), networked] {
        let ran = fixture.run_spec(spec).await;
        assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{}", ran.stderr);
    }
    let control = engine::unverified(FILL, &json!({})).await;
    assert!(
        control.contains("filled /etc/hostname") && control.contains("filled /run/.containerenv"),
        "podman alone: {control}"
    );
    fixture.close().await;
}

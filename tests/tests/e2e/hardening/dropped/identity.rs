//! Who a container is: runtime, users, names, devices, filters.

use sandbox::Isolation;
use sandbox::isolation::{Device, Runtime, Seccomp, UserNamespace};

use super::row::Gives::{Ignored, Obeyed, Refused};
use super::row::{Look, Ours, Row, check};

const OWN_USERS: fn() -> Isolation = || Isolation {
    user_namespace: UserNamespace::Private { first: 300_000, size: 65_536 },
    ..Isolation::agent()
};
const DESCRIBED: fn() -> Isolation =
    || Isolation { devices: vec![Device::Cdi("sandbox.test/device=zero".to_owned())], ..Isolation::agent() };
const UID_MAP: &str = "echo $(cat /proc/self/uid_map)";
const OPENS: &str = "mknod /node c 1 11 && { : > /node; } 2>/dev/null && echo opened || echo refused";

pub(super) const ROWS: &[Row] = &[
    Row {
        field: "`Runtime`",
        base: "{}",
        asked: r#"{"HostConfig": {"Runtime": "/no/such/runtime"}}"#,
        look: Look::Inspect("/OCIRuntime"),
        wanted: "/no/such/runtime",
        four: Ignored,
        five: Ignored,
        ours: &[Ours::Refused(
            || Isolation { runtime: Some(Runtime::Krun), ..Isolation::agent() },
            "isolation.runtime",
        )],
    },
    Row {
        field: "`UsernsMode`",
        base: "{}",
        asked: r#"{"HostConfig": {"UsernsMode": "keep-id"}}"#,
        look: Look::Inside(UID_MAP),
        wanted: "0 0 1\n",
        four: Refused,
        five: Ignored,
        ours: &[Ours::Works(OWN_USERS, UID_MAP, "0 300000 65536\n")],
    },
    Row {
        field: "`DeviceRequests` (CDI)",
        base: "{}",
        asked: r#"{"HostConfig": {"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": ["sandbox.test/device=zero"]}]}}"#,
        look: Look::Inside("ls /dev/described 2>/dev/null || echo none"),
        wanted: "/dev/described\n",
        four: Ignored,
        five: Obeyed,
        ours: &[Ours::Works(DESCRIBED, "ls /dev/described", "/dev/described\n")],
    },
    Row {
        field: "`DeviceRequests` (`nvidia`, capabilities)",
        base: "{}",
        asked: r#"{"HostConfig": {"DeviceRequests": [{"Driver": "nvidia", "Count": -1, "Capabilities": [["gpu"]]}]}}"#,
        look: Look::Inside("ls /dev/nvidia0 2>/dev/null || echo none"),
        wanted: "/dev/nvidia0\n",
        four: Ignored,
        five: Ignored,
        ours: &[Ours::Unaskable],
    },
    Row {
        field: "`DeviceCgroupRules`",
        base: r#"{"HostConfig": {"CapAdd": ["MKNOD"]}}"#,
        asked: r#"{"HostConfig": {"DeviceCgroupRules": ["c 1:11 rwm"]}}"#,
        look: Look::Inside(OPENS),
        wanted: "opened\n",
        four: Ignored,
        five: Obeyed,
        ours: &[Ours::Unaskable],
    },
    Row {
        field: "`Annotations`",
        base: "{}",
        asked: r#"{"HostConfig": {"Annotations": {"sandbox.test": "x"}}}"#,
        look: Look::Inspect("/Config/Annotations/sandbox.test"),
        wanted: "x",
        four: Ignored,
        five: Obeyed,
        // Of runs only: `runs::allowed::an_annotation_reaches_the_container` asks for one.
        ours: &[Ours::Unaskable],
    },
    Row {
        field: "`Domainname`",
        base: "{}",
        asked: r#"{"Domainname": "example.test"}"#,
        look: Look::Inside("cat /proc/sys/kernel/domainname"),
        wanted: "example.test\n",
        four: Ignored,
        five: Ignored,
        ours: &[Ours::Unaskable],
    },
    Row {
        field: "`Hostname` with blanks or newlines",
        base: "{}",
        asked: r#"{"Hostname": "a b"}"#,
        look: Look::Inside("hostname"),
        wanted: "a b\n",
        four: Obeyed,
        five: Obeyed,
        ours: &[Ours::Invalid(
            || Isolation { hostname: "a b".to_owned(), ..Isolation::agent() },
            "isolation.hostname",
        )],
    },
    Row {
        field: "`IpcMode: private`",
        base: "{}",
        asked: r#"{"HostConfig": {"IpcMode": "private"}}"#,
        look: Look::Inspect("/HostConfig/IpcMode"),
        wanted: "private",
        four: Ignored,
        five: Obeyed,
        ours: &[Ours::Works(Isolation::agent, "ls -d /dev/shm", "/dev/shm\n")],
    },
    Row {
        field: "`IpcMode: none`",
        base: "{}",
        asked: r#"{"HostConfig": {"IpcMode": "none"}}"#,
        look: Look::Inside("ls -d /dev/shm 2>/dev/null || echo none"),
        wanted: "none\n",
        four: Obeyed,
        five: Obeyed,
        ours: &[Ours::Works(
            || Isolation { shm_size: 0, ..Isolation::agent() },
            "ls -d /dev/shm 2>/dev/null || echo none",
            "none\n",
        )],
    },
    Row {
        field: "`CgroupnsMode` (cgroups v1)",
        base: "{}",
        asked: r#"{"HostConfig": {"CgroupnsMode": "private"}}"#,
        // With version 2 the namespace is the container's own in any case.
        look: Look::Inside(
            "[ -e /sys/fs/cgroup/cgroup.controllers ] || grep -q libpod /proc/self/cgroup && echo not asked || echo own",
        ),
        wanted: "own\n",
        four: Ignored,
        five: Ignored,
        ours: &[Ours::Unaskable],
    },
    Row {
        field: SECCOMP,
        base: "{}",
        asked: r#"{"HostConfig": {"SecurityOpt": ["seccomp=/no/such/profile.json"]}}"#,
        look: Look::Inside(FILTER),
        wanted: "Seccomp:0\n",
        four: Refused,
        five: Refused,
        ours: &[Ours::Refused(
            || Isolation { seccomp: Seccomp::Profile("/no/such/profile.json".into()), ..Isolation::agent() },
            "isolation.seccomp",
        )],
    },
    Row {
        field: SECCOMP,
        base: "{}",
        asked: r#"{"HostConfig": {"SecurityOpt": ["seccomp={\"defaultAction\": \"SCMP_ACT_ALLOW\"}"]}}"#,
        look: Look::Inside(FILTER),
        wanted: "Seccomp:0\n",
        four: Refused,
        five: Refused,
        ours: &[Ours::Unaskable],
    },
];

const SECCOMP: &str = "`SecurityOpt` `seccomp=` with a missing file, or inline";
const FILTER: &str = "grep Seccomp: /proc/self/status | tr -d '\\t'";

#[tokio::test(flavor = "multi_thread")]
async fn names_users_devices_and_filters() {
    check(ROWS).await;
}

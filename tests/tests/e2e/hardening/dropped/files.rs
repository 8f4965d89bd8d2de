//! Files of a container: hidden ones, those in memory, those that podman makes.

use std::net::Ipv4Addr;

use sandbox::Isolation;
use sandbox::isolation::{HostEntry, Tmpfs};

use super::row::Gives::{Ignored, Obeyed, Other, Refused};
use super::row::{Look, Ours, Row, check};

const APT: &str = "ls /etc/apt | wc -l";
const SIZES: &str = "for place in /tmp /run /var/tmp; do grep \" $place tmpfs\" /proc/mounts | grep -o 'size=[0-9]*k' || echo unbounded; done";

pub(super) const ROWS: &[Row] = &[
    Row {
        field: "`MaskedPaths`",
        base: "{}",
        asked: r#"{"HostConfig": {"MaskedPaths": ["/etc/apt"]}}"#,
        look: Look::Inside(APT),
        wanted: "0\n",
        four: Ignored,
        five: Ignored,
        ours: &[Ours::Works(
            || Isolation { masked_paths: vec!["/etc/apt".to_owned()], ..Isolation::agent() },
            APT,
            "0\n",
        )],
    },
    Row {
        field: "`SecurityOpt` `mask=`",
        base: "{}",
        asked: r#"{"HostConfig": {"SecurityOpt": ["mask=/etc/apt"]}}"#,
        look: Look::Inside(APT),
        wanted: "0\n",
        four: Obeyed,
        five: Obeyed,
        ours: &[],
    },
    Row {
        field: "`ReadonlyPaths`",
        base: "{}",
        asked: r#"{"HostConfig": {"ReadonlyPaths": ["/srv"]}}"#,
        look: Look::Inside("touch /srv/x 2>/dev/null && echo written || echo refused"),
        wanted: "refused\n",
        four: Ignored,
        five: Ignored,
        ours: &[Ours::Unaskable],
    },
    Row {
        field: "`Tmpfs` under `ReadonlyRootfs`",
        base: r#"{"HostConfig": {"ReadonlyRootfs": true}}"#,
        asked: r#"{"HostConfig": {"Tmpfs": {"/tmp": "size=1m"}}}"#,
        look: Look::Inside(SIZES),
        wanted: "size=1024k\n",
        four: Other("size=1024k\nunbounded\nunbounded\n"),
        five: Other("size=1024k\nunbounded\nunbounded\n"),
        ours: &[Ours::Works(
            || Isolation {
                read_only_root: true,
                tmpfs: vec![Tmpfs::new("/tmp", 1 << 20)],
                ..Isolation::agent()
            },
            SIZES,
            "size=1024k\nsize=16384k\nsize=32768k\n",
        )],
    },
    refused_option(r#"{"HostConfig": {"Tmpfs": {"/x": "size=1m,uid=7"}}}"#),
    refused_option(r#"{"HostConfig": {"Tmpfs": {"/x": "size=1m,gid=7"}}}"#),
    refused_option(r#"{"HostConfig": {"Tmpfs": {"/x": "size=1m,nr_inodes=7"}}}"#),
    Row {
        field: "`Tmpfs` without a mode",
        base: "{}",
        asked: r#"{"HostConfig": {"Tmpfs": {"/root": "size=1m", "/etc/apt": "size=1m"}}}"#,
        look: Look::Inside(MODES),
        wanted: "1777 0\n",
        four: Other("1777 7\n"),
        five: Other("700 7\n"),
        ours: &[Ours::Works(
            || Isolation {
                tmpfs: vec![Tmpfs::new("/root", 1 << 20), Tmpfs::new("/etc/apt", 1 << 20)],
                ..Isolation::agent()
            },
            MODES,
            "1777 0\n",
        )],
    },
    Row {
        field: "`ExtraHosts`, `/etc/hosts`",
        base: "{}",
        asked: r#"{"HostConfig": {"ExtraHosts": ["db.test:10.0.0.7"]}}"#,
        look: Look::Inside(NAMES),
        wanted: "db.test\n",
        four: Other("db.test\nhost.containers.internal\n"),
        five: Other("db.test\nhost.containers.internal\n"),
        ours: &[Ours::Works(
            || Isolation {
                hosts: vec![HostEntry::new("db.test", Ipv4Addr::new(10, 0, 0, 7))],
                ..Isolation::agent()
            },
            NAMES,
            "db.test\n",
        )],
    },
    Row {
        field: "`/etc/hostname`, `/etc/resolv.conf`, `/run/.containerenv`",
        base: r#"{"HostConfig": {"NetworkMode": "default"}}"#,
        asked: "{}",
        look: Look::Inside(FILLED),
        wanted: "",
        four: Other(ALL_FILLED),
        five: Other(ALL_FILLED),
        ours: &[Ours::Works(Isolation::agent, FILLED, "")],
    },
    Row {
        field: "`StorageOpt` `size`",
        base: "{}",
        asked: r#"{"HostConfig": {"StorageOpt": {"size": "10m"}}}"#,
        look: Look::Inside("df -m --output=size / | tail -n 1 | tr -d ' '"),
        wanted: "10\n",
        four: Refused,
        five: Refused,
        // `resources::disk` asks for it, and on storage with quotas `tests/quota`.
        ours: &[],
    },
];

/// The files of the engine's that root in the container can fill.
const FILLED: &str = "for file in /etc/hostname /etc/resolv.conf /run/.containerenv; do \
     grep -q \" $file \" /proc/mounts || continue; head -c 1000000 /dev/zero >> $file; \
     [ $(stat -c %s $file 2>/dev/null || echo 0) -ge 1000000 ] && echo filled $file; done 2>/dev/null; true";
const ALL_FILLED: &str = "filled /etc/hostname\nfilled /etc/resolv.conf\nfilled /run/.containerenv\n";
const MODES: &str = "echo $(stat -c %a /root) $(ls /etc/apt | wc -l)";
const NAMES: &str = "grep -o -e 'db[.]test' -e 'host[.]containers[.]internal' /etc/hosts | sort -u";

const fn refused_option(asked: &'static str) -> Row {
    Row {
        field: "`Tmpfs` `uid=`, `gid=`, `nr_inodes=`",
        base: "{}",
        asked,
        look: Look::Inside("ls -d /x 2>/dev/null || echo none"),
        wanted: "/x\n",
        four: Refused,
        five: Refused,
        ours: &[Ours::Unaskable],
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_hidden_in_memory_and_of_the_engine() {
    check(ROWS).await;
}

//! Recorded reports of engines and the kernel, for tests.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::stages::attached;
use crate::container::kernel::{self, Filter, KernelFacts};
use crate::container::plan::{Attachment, ContainerPlan, Detachment, Networks, PlannedNetwork};
use crate::labels::Labels;
use crate::spec::{ContainerEnv, Isolation, Mount, Tmpfs, UlimitKind};
use sandbox_podman::ImageFacts;

/// Reports of both tested engines about containers of [`plan`]: podman 4.3.1 and 5.4.2, after the
/// attach.
pub(super) const INSPECTIONS: [&str; 2] =
    [include_str!("../fixtures/podman-4.3.1.json"), include_str!("../fixtures/podman-5.4.2.json")];

/// The kernel's report of the mounts of such containers.
pub(super) const MOUNTS: [&str; 2] =
    [include_str!("../fixtures/podman-4.3.1.mountinfo"), include_str!("../fixtures/podman-5.4.2.mountinfo")];

pub(super) fn isolation() -> Isolation {
    Isolation {
        tmpfs: vec![Tmpfs { mode: 0o700, ..Tmpfs::new("/scratch", 1 << 20) }],
        masked_paths: vec!["/srv".to_owned(), "/not-in-the-image".to_owned()],
        ..Isolation::agent()
    }
}

pub(super) fn plan() -> ContainerPlan {
    let labels = [
        ("sandbox.owner", "sandbox"),
        ("sandbox.instance", "2d2d2d2d2d2d2d2d"),
        ("sandbox.context", "conversation-42"),
        ("sandbox.role", "task"),
        ("sandbox.lock", "/state/instances/2d2d2d2d2d2d2d2d.lock"),
        ("sandbox.view", "2d.4026531840"),
    ];
    let sysctls = [
        ("net.ipv6.conf.all.disable_ipv6", "1"),
        ("net.ipv6.conf.default.disable_ipv6", "1"),
        ("net.ipv4.ip_forward", "0"),
    ];
    let owned = |pairs: &[(&str, &str)]| pairs.iter().map(|&(a, b)| (a.to_owned(), b.to_owned())).collect();
    ContainerPlan {
        name: "sandbox-task-x".to_owned(),
        image: "localhost/base:1".to_owned(),
        entrypoint: None,
        command: vec!["sleep".to_owned(), "100".to_owned()],
        env: ContainerEnv::default().with("FOO", "bar baz"),
        working_dir: Some("/tmp".to_owned()),
        mounts: vec![
            Mount::read_only_at("/srv/data", "/data/"),
            Mount::read_write("/srv/data", "/rw"),
            Mount::read_only_at("/state/hosts/0f", "/etc/hosts"),
            Mount::read_only_at("/state/hosts/1f", "/etc/hostname"),
        ],
        network: PlannedNetwork {
            networks: Networks::Attached(vec![Attachment {
                network: "sandbox-conv-x".to_owned(),
                address: Some([10, 199, 0, 3].into()),
            }]),
            dns: Some([10, 199, 0, 2].into()),
            sysctls: owned(&sysctls),
            confines_itself: false,
        },
        isolation: isolation(),
        memory: Some(64 << 20),
        nano_cpus: Some(500_000_000),
        pids: Some(64),
        disk: None,
        labels: Labels::from_map(&owned(&labels)).unwrap(),
        stdin: true,
        terminal: None,
        detachment: Detachment::default(),
    }
}

pub(super) fn image() -> ImageFacts {
    ImageFacts {
        id: "1e".repeat(32),
        created: std::time::UNIX_EPOCH,
        labels: BTreeMap::new(),
        entrypoint: Vec::new(),
        command: vec!["/bin/bash".to_owned()],
        env: std::collections::BTreeMap::new(),
        working_dir: String::new(),
        user: String::new(),
        architecture: "amd64".to_owned(),
    }
}

pub(super) fn kernel() -> KernelFacts {
    KernelFacts {
        bounding: 0xeb,
        no_new_privileges: true,
        oom_score_adj: 0,
        interfaces: ["eth0", "lo"].map(str::to_owned).into(),
        has_ipv6: false,
        forwards_ipv4: false,
        shared_namespaces: BTreeSet::new(),
        user: 0,
        users: vec![(0, 0, u32::MAX)],
        groups: vec![(0, 0, u32::MAX)],
        limits: BTreeMap::from([(UlimitKind::Core, (Some(0), Some(0)))]),
        controlled: BTreeSet::from(["memory", "cpu", "pids"]),
        mounts: kernel::parse(MOUNTS[0]).unwrap(),
        absent: BTreeSet::from(["/not-in-the-image".to_owned()]),
        roots: BTreeMap::new(),
        nodes: BTreeMap::new(),
        planned_nodes: BTreeMap::new(),
        disk: None,
        filter: Some(filter("read")),
        profile: Some(Ok(filter("read"))),
        apparmor: None,
    }
}

/// A filter that permits only `call`.
pub(super) fn filter(call: &str) -> Filter {
    let text = serde_json::json!({"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [{"names": [call], "action": "SCMP_ACT_ALLOW"}]});
    serde_json::from_value(text).unwrap()
}

pub(super) fn differences(plan: &ContainerPlan, inspection: Value, kernel: &KernelFacts) -> Vec<String> {
    attached(plan, &image(), &serde_json::from_value(inspection).unwrap(), kernel)
}

/// The inspection with a changed value at `field` (a JSON pointer, whose last step may be new).
pub(super) fn changed(inspection: &str, field: &str, value: Value) -> Value {
    let mut answer: Value = serde_json::from_str(inspection).unwrap();
    let (parent, name) = field.rsplit_once('/').unwrap();
    match answer.pointer_mut(parent).unwrap() {
        Value::Array(list) => {
            let index: usize = name.parse().unwrap();
            list[index] = value;
        }
        parent => {
            parent.as_object_mut().unwrap().insert(name.to_owned(), value);
        }
    }
    answer
}

/// A line of the kernel's report, changed or removed.
pub(super) fn mounts(from: &str, to: &str) -> KernelFacts {
    let text = MOUNTS[1];
    assert!(text.contains(from), "{from}");
    KernelFacts { mounts: kernel::parse(&text.replace(from, to)).unwrap(), ..kernel() }
}

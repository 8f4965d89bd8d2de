//! The plan of a proxy's container.

use std::net::Ipv4Addr;

use crate::container::{Attachment, ContainerPlan, Detachment, Networks, PlannedNetwork};
use crate::reap::{Labels, Role};
use crate::spec::{ContainerEnv, Isolation};

/// Measured: about 10 MB at work, 75 MB under the worst attack that `crates/proxy/tests/proxy/abuse.rs` knows; a full queue of records
/// comes on top. Without memory the proxy ends, and with it this task's egress.
const MEMORY: u64 = 192 * 1024 * 1024;
const PIDS: u32 = 64;
/// It never routes between its two networks, has no IPv6 address that a task could reach, and needs no privilege for its ports.
const SYSCTLS: [(&str, &str); 4] = [
    ("net.ipv4.ip_forward", "0"),
    ("net.ipv4.ip_unprivileged_port_start", "0"),
    ("net.ipv6.conf.all.disable_ipv6", "1"),
    ("net.ipv6.conf.default.disable_ipv6", "1"),
];

/// Where a proxy stands.
pub(in crate::egress) struct Place<'a> {
    /// The container's name.
    pub(in crate::egress) name: String,
    /// The proxy image's tag.
    pub(in crate::egress) image: &'a str,
    /// The network to the world.
    pub(in crate::egress) egress_network: &'a str,
    /// The task's network.
    pub(in crate::egress) task_network: &'a str,
    /// The proxy's address on the task's network.
    pub(in crate::egress) address: Ipv4Addr,
}

/// Nothing of what the proxy is told is in here: it all comes over its stdin.
pub(in crate::egress) fn proxy_plan(place: Place<'_>, labels: &Labels) -> ContainerPlan {
    let egress = Attachment {
        network: place.egress_network.to_owned(),
        address: None,
    };
    let task = Attachment {
        network: place.task_network.to_owned(),
        address: Some(place.address),
    };
    ContainerPlan {
        name: place.name,
        image: place.image.to_owned(),
        entrypoint: Some(vec![super::image::PROGRAM.to_owned()]),
        command: vec![super::stderr::level().to_owned()],
        env: ContainerEnv::default(),
        working_dir: None,
        mounts: Vec::new(),
        network: PlannedNetwork {
            networks: Networks::Attached(vec![egress, task]),
            dns: None,
            sysctls: SYSCTLS
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
        },
        isolation: Isolation::proxy(),
        memory: Some(MEMORY),
        nano_cpus: None,
        pids: Some(PIDS),
        disk: None,
        labels: labels.with_role(Role::Proxy),
        stdin: true,
        detachment: Detachment::default(),
    }
}

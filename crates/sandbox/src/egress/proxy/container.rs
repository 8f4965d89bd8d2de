//! The plan of a proxy's container.

use sandbox_proxy_protocol::Reach;

use crate::container::{Attachment, ContainerPlan, Detachment, Networks, PlannedNetwork};
use crate::labels::{Labels, Role};
use crate::spec::{ContainerEnv, Isolation, Mount};

/// Measured: about 10 MB in use, 75 MB under the worst attack in
/// `crates/proxy/tests/proxy/abuse.rs`, plus a full queue of records. If memory runs out, the proxy
/// ends, and with it this task's egress.
const MEMORY: u64 = 192 * 1024 * 1024;
const PIDS: u32 = 64;
/// It never routes between its two networks, has no IPv6 address that a task could reach, and needs
/// no privilege for its ports.
const SYSCTLS: [(&str, &str); 4] = [
    ("net.ipv4.ip_forward", "0"),
    ("net.ipv4.ip_unprivileged_port_start", "0"),
    ("net.ipv6.conf.all.disable_ipv6", "1"),
    ("net.ipv6.conf.default.disable_ipv6", "1"),
];

/// Name, image and networks of a proxy.
pub(in crate::egress) struct ProxyPlacement<'a> {
    /// The container's name.
    pub(in crate::egress) name: String,
    /// The proxy image's tag.
    pub(in crate::egress) image: &'a str,
    /// The egress network and the task's.
    pub(in crate::egress) networks: Vec<Attachment>,
    /// The destinations that remain reachable for it.
    pub(in crate::egress) reach: Reach,
    /// The relay's sockets, if any.
    pub(in crate::egress) mounts: Vec<Mount>,
}

/// The plan contains only what the proxy may reach; the rest of its configuration comes over its
/// stdin, once it reaches nothing else.
pub(in crate::egress) fn proxy_plan(placement: ProxyPlacement<'_>, labels: &Labels) -> ContainerPlan {
    ContainerPlan {
        name: placement.name,
        image: placement.image.to_owned(),
        entrypoint: Some(vec![super::image::PROGRAM.to_owned()]),
        command: vec![super::stderr::level().to_owned(), placement.reach.to_argument()],
        env: ContainerEnv::default(),
        working_dir: None,
        mounts: placement.mounts,
        network: PlannedNetwork {
            networks: Networks::Attached(placement.networks),
            dns: None,
            sysctls: SYSCTLS.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            confines_itself: true,
        },
        isolation: Isolation::proxy(),
        memory: Some(MEMORY),
        nano_cpus: None,
        pids: Some(PIDS),
        disk: None,
        labels: labels.with_role(Role::Proxy),
        stdin: true,
        terminal: None,
        detachment: Detachment::default(),
    }
}

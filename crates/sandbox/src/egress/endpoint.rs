//! What a container has to be given, so that its traffic reaches its proxy and nothing else.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use crate::container::{Networks, PlannedNetwork};
use crate::spec::{Mount, Network};

/// All that a container is given for its egress, and all that the rest of this crate knows of it:
/// whatever the topology, a launch hands this to the plan of its container as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// Networks, name server and kernel settings without which the networks would have holes.
    pub(crate) network: PlannedNetwork,
    /// What `/etc/resolv.conf` says. `None`: what the engine writes.
    pub(crate) resolver: Option<String>,
    /// Public certificates, read-only.
    pub(crate) mounts: Vec<Mount>,
    /// Variables that make tools read those certificates. The caller's win over them.
    pub(crate) env: BTreeMap<String, String>,
    /// Settings of git, as keys and values.
    pub(crate) git_settings: Vec<(String, String)>,
}

impl Endpoint {
    /// Of a container without a proxy: what `network` says, with the name server `dns`.
    pub(crate) fn without_proxy(network: &Network, dns: Option<Ipv4Addr>) -> Self {
        let networks = match network {
            Network::Unrestricted => Networks::Default,
            Network::Sandboxed(_) | Network::Disabled => Networks::None,
        };
        Self { network: PlannedNetwork { networks, dns, ..PlannedNetwork::default() }, ..Self::default() }
    }
}

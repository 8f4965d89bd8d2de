//! The container's settings that lead its traffic to its proxy and nowhere else.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use crate::container::{Networks, PlannedNetwork};
use crate::spec::{Mount, Network};

/// All settings of a container for its egress, and all that the rest of this crate knows about it:
/// for any topology, a launch passes this to the plan of its container unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// Networks, name server, and kernel settings that close holes of the networks.
    pub(crate) network: PlannedNetwork,
    /// The content of `/etc/resolv.conf`. `None`: written by the engine.
    pub(crate) resolver: Option<String>,
    /// Public certificates, read-only.
    pub(crate) mounts: Vec<Mount>,
    /// Variables that make tools read those certificates. The caller's override them.
    pub(crate) env: BTreeMap<String, String>,
    /// Git settings, as keys and values.
    pub(crate) git_settings: Vec<(String, String)>,
}

impl Endpoint {
    /// The endpoint of a container without a proxy: `network` with the name server `dns`.
    pub(crate) fn without_proxy(network: &Network, dns: Option<Ipv4Addr>) -> Self {
        let networks = match network {
            Network::Unrestricted => Networks::Default,
            Network::Sandboxed(_) | Network::Disabled => Networks::None,
        };
        Self { network: PlannedNetwork { networks, dns, ..PlannedNetwork::default() }, ..Self::default() }
    }
}

//! What a task container has to be given, so that its traffic reaches its proxy and nothing else.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use crate::spec::Mount;

/// All that the rest of this crate knows about a task's way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// The network to attach to.
    pub(crate) network: String,
    /// The task's address on it.
    pub(crate) address: Ipv4Addr,
    /// The name server of the container.
    pub(crate) dns: Ipv4Addr,
    /// Public certificates, read-only.
    pub(crate) mounts: Vec<Mount>,
    /// Variables that make tools read those certificates.
    pub(crate) env: BTreeMap<String, String>,
    /// Kernel settings without which the network would have holes.
    pub(crate) sysctls: BTreeMap<String, String>,
}

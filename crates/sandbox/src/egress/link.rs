//! The link between a task and its proxy: a network with only the two of them on it. Nothing
//! outside of this file knows the topology.

use std::net::Ipv4Addr;

use sandbox_proxy_protocol::Listen;

use crate::container::{Attachment, Networks, PlannedNetwork};
use crate::labels::Labels;

use super::subnet::Subnet;
use super::trust::{self, TrustFiles};
use super::{EgressResources, Endpoint, ProxyError, network};

/// Closes the hole of an IPv6 link-local address on the host's bridge.
const TASK_SYSCTLS: [(&str, &str); 2] =
    [("net.ipv6.conf.all.disable_ipv6", "1"), ("net.ipv6.conf.default.disable_ipv6", "1")];

/// The networks of one execution, and its addresses on them.
#[derive(Debug, Clone)]
pub(super) struct Link {
    subnet: Subnet,
    resources: EgressResources,
    /// The name of the egress network.
    egress: String,
}

impl Link {
    /// Creates the networks that `resources` names. After an error some may exist.
    pub(super) async fn create(resources: &EgressResources, labels: &Labels) -> Result<Self, ProxyError> {
        let engine = &resources.engine;
        let own = resources.own_egress.as_deref();
        let (subnet, egress) = tokio::join!(
            network::create_task_network(engine, resources.network.clone(), labels),
            network::create_own_egress(engine, own, labels),
        );
        let subnet = subnet?;
        egress?;
        Ok(Self {
            subnet,
            resources: resources.clone(),
            egress: own.map_or_else(|| network::egress_name(labels.owner()), str::to_owned),
        })
    }

    /// The objects to remove.
    pub(super) fn resources(&self) -> &EgressResources {
        &self.resources
    }

    /// The settings of the task's container.
    pub(super) fn endpoint(&self, trust: &TrustFiles) -> Endpoint {
        let dns = self.subnet.proxy();
        Endpoint {
            network: PlannedNetwork {
                networks: Networks::Attached(vec![self.attachment(self.subnet.task())]),
                dns: Some(dns),
                sysctls: TASK_SYSCTLS.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
                ..PlannedNetwork::default()
            },
            resolver: Some(format!("nameserver {dns}\n")),
            mounts: trust.mounts(),
            env: trust::variables(trust),
            git_settings: Vec::new(),
        }
    }

    /// The networks of the proxy's container.
    pub(super) fn proxy_networks(&self) -> Vec<Attachment> {
        let internet = Attachment { network: self.egress.clone(), address: None };
        vec![internet, self.attachment(self.subnet.proxy())]
    }

    /// The addresses at which the proxy listens.
    pub(super) fn listen(&self) -> Listen {
        Listen::new(self.subnet.proxy())
    }

    fn attachment(&self, address: Ipv4Addr) -> Attachment {
        Attachment { network: self.resources.network.clone(), address: Some(address) }
    }
}

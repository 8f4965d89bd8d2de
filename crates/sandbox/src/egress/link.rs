//! How a task reaches its proxy: over a network that only the two are on. Nothing outside of this
//! file knows the topology.

use std::net::Ipv4Addr;

use sandbox_proxy_protocol::Listen;

use crate::container::{Attachment, Networks, PlannedNetwork};
use crate::labels::Labels;

use super::subnet::Subnet;
use super::trust::{self, TrustFiles};
use super::{EgressResources, Endpoint, ProxyError, network};

/// Closes the hole that an IPv6 link-local address of the host's bridge would be.
const TASK_SYSCTLS: [(&str, &str); 2] =
    [("net.ipv6.conf.all.disable_ipv6", "1"), ("net.ipv6.conf.default.disable_ipv6", "1")];

/// The networks of one execution, and who has which address on them.
#[derive(Debug)]
pub(super) struct Link {
    subnet: Subnet,
    resources: EgressResources,
    /// The egress network.
    egress: String,
}

impl Link {
    /// Makes the networks that `resources` names. On an error some may be there.
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

    /// What there is to remove.
    pub(super) fn resources(&self) -> &EgressResources {
        &self.resources
    }

    /// What the task's container has to be given.
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
        let world = Attachment { network: self.egress.clone(), address: None };
        vec![world, self.attachment(self.subnet.proxy())]
    }

    /// Where the proxy listens.
    pub(super) fn listen(&self) -> Listen {
        Listen::new(self.subnet.proxy())
    }

    fn attachment(&self, address: Ipv4Addr) -> Attachment {
        Attachment { network: self.resources.network.clone(), address: Some(address) }
    }
}

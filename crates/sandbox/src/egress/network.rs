//! The two networks: that of a task, and the egress network that all proxies share.

use crate::labels::{Labels, Role};
use sandbox_podman::{Engine, NetworkRequest};

use super::subnet::Subnet;
use super::{ProxyError, bridge};

/// The name of the egress network.
pub(super) fn egress_name(prefix: &str) -> String {
    format!("{prefix}-egress")
}

/// Creates the egress network if it is missing. Concurrent callers and later instances find it, and
/// verify it as its creator did.
pub(super) async fn ensure_egress(engine: &Engine, labels: &Labels) -> Result<(), ProxyError> {
    let labels = labels.with_role(Role::Egress);
    let plan = NetworkRequest {
        name: egress_name(labels.owner()),
        bridge: bridge::fresh_name(engine),
        subnet: None,
        internal: false,
        labels: labels.to_map(),
    };
    let of_any = NetworkRequest { labels: labels.to_shared_map(), ..plan.clone() };
    if engine.find_network(&of_any).await? {
        return Ok(());
    }
    match engine.create_network(&plan).await {
        Err(error) if error.is_name_in_use() && engine.find_network(&of_any).await? => Ok(()),
        created => Ok(created?),
    }
}

/// Creates the network `name` through which a single proxy reaches the internet; without a name it
/// does nothing.
pub(super) async fn create_own_egress(
    engine: &Engine,
    name: Option<&str>,
    labels: &Labels,
) -> Result<(), ProxyError> {
    let Some(name) = name else { return Ok(()) };
    let labels = labels.with_role(Role::Network).to_map();
    let plan = NetworkRequest {
        name: name.to_owned(),
        bridge: bridge::fresh_name(engine),
        subnet: None,
        internal: false,
        labels,
    };
    Ok(engine.create_network(&plan).await?)
}

/// Recreates the egress network if it is missing, and returns whether it was: `podman network
/// prune`, or an instance with another state directory, may have removed it as unused.
pub(super) async fn restore_egress(engine: &Engine, labels: &Labels) -> Result<bool, ProxyError> {
    let gone = !engine.network_exists(&egress_name(labels.owner())).await?;
    if gone {
        ensure_egress(engine, labels).await?;
    }
    Ok(gone)
}

/// Creates the network `name` of a task, without a name server and without an address of the host.
pub(super) async fn create_task_network(
    engine: &Engine,
    name: String,
    labels: &Labels,
) -> Result<Subnet, ProxyError> {
    let mut plan = NetworkRequest {
        name,
        bridge: bridge::fresh_name(engine),
        subnet: None,
        internal: true,
        labels: labels.with_role(Role::Network).to_map(),
    };
    for subnet in Subnet::candidates(rand::random()) {
        plan.subnet = Some(subnet.network());
        match engine.create_network(&plan).await {
            Ok(()) => return Ok(subnet),
            Err(error) if error.is_subnet_in_use() => {
                tracing::debug!(subnet = %subnet.network(), "subnet is in use");
            }
            Err(error) => return Err(error.into()),
        }
    }
    let (range, tried) = Subnet::exhausted();
    Err(ProxyError::NoSubnet { range, tried })
}

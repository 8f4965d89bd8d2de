//! The two networks: the one of a task, and the egress network that all proxies share.

use crate::labels::{Labels, Role};
use crate::reap::others_alive;
use sandbox_podman::{Engine, NetworkRequest};

use super::subnet::Subnet;
use super::{ProxyError, bridge};

/// The name of the egress network.
pub(super) fn egress_name(prefix: &str) -> String {
    format!("{prefix}-egress")
}

/// Makes the egress network unless it is there. The second caller finds it.
pub(super) async fn ensure_egress(engine: &Engine, labels: &Labels) -> Result<(), ProxyError> {
    let name = egress_name(labels.owner());
    if engine.network_exists(&name).await? {
        return Ok(());
    }
    let plan = NetworkRequest {
        name: name.clone(),
        bridge: bridge::fresh_name(engine),
        subnet: None,
        internal: false,
        labels: labels.with_role(Role::Egress).to_map(),
    };
    match engine.create_network(&plan).await {
        Err(error) if error.is_name_in_use() && engine.network_exists(&name).await? => Ok(()),
        created => Ok(created?),
    }
}

/// Makes the network `name` through which one proxy alone reaches the internet; nothing where there
/// is no name.
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

/// Makes the egress network again if it is gone, and says whether it was: the sweep of another
/// instance may have taken it for left behind.
pub(super) async fn restore_egress(engine: &Engine, labels: &Labels) -> Result<bool, ProxyError> {
    let gone = !engine.network_exists(&egress_name(labels.owner())).await?;
    if gone {
        ensure_egress(engine, labels).await?;
    }
    Ok(gone)
}

/// Removes the egress network, unless another instance lives that has a state directory of its own.
pub(super) async fn remove_egress(engine: &Engine, labels: &Labels) -> Result<(), ProxyError> {
    if !others_alive(engine, labels).await? {
        engine.remove_network(&egress_name(labels.owner())).await?;
    }
    Ok(())
}

/// Makes the network `name` of a task, on which there is no name server and the host has no
/// address.
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

//! The objects of one task's egress.

use sandbox_podman::Engine;

use super::ProxyError;
use super::network::egress_name;
use crate::spec::ObjectId;

/// The proxy's container, the task's network and, if the proxy has its own, its egress network, by
/// name. Removing a missing object succeeds, so this may be called in any state and more than once.
#[derive(Debug, Clone)]
pub(crate) struct EgressResources {
    pub(super) engine: Engine,
    pub(super) container: String,
    pub(super) network: String,
    /// `None` if all proxies share it.
    pub(super) own_egress: Option<String>,
}

impl EgressResources {
    /// The objects of the execution `id`, before they are created.
    pub(super) fn named(engine: &Engine, prefix: &str, id: &ObjectId) -> Self {
        let stable = engine.capabilities().has_stable_bridges();
        Self {
            engine: engine.clone(),
            container: format!("{prefix}-proxy-{id}"),
            network: format!("{prefix}-conv-{id}"),
            own_egress: (!stable).then(|| format!("{}-{id}", egress_name(prefix))),
        }
    }

    /// Removes all of them. The task's container must be removed before.
    pub(crate) async fn remove(&self) -> Result<(), ProxyError> {
        self.remove_container().await?;
        self.remove_networks().await
    }

    /// Removes the networks. Both containers must be removed before: the engine does not remove a
    /// network with a container on it.
    pub(crate) async fn remove_networks(&self) -> Result<(), ProxyError> {
        if let Some(egress) = &self.own_egress {
            self.engine.remove_network(egress).await?;
        }
        Ok(self.engine.remove_network(&self.network).await?)
    }

    /// Removes the proxy's container.
    pub(crate) async fn remove_container(&self) -> Result<(), ProxyError> {
        Ok(self.engine.remove_container(&self.container).await?)
    }
}

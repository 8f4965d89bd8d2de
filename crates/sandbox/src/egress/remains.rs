//! What is to be removed of one task's egress.

use sandbox_podman::Engine;

use super::ProxyError;

/// The proxy's container, the task's network and, where the proxy has one of its own, that to the world, by name. Removing what is gone is done already, so this may be called in any
/// state and more than once.
#[derive(Debug, Clone)]
pub(crate) struct Remains {
    pub(super) engine: Engine,
    pub(super) container: String,
    pub(super) network: String,
    /// `None` where all proxies share it.
    pub(super) own_egress: Option<String>,
}

impl Remains {
    /// Removes all of it. The task's container must be gone before: the engine does not remove a network that one is on.
    pub(crate) async fn remove(&self) -> Result<(), ProxyError> {
        self.remove_container().await?;
        if let Some(egress) = &self.own_egress {
            self.engine.remove_network(egress).await?;
        }
        Ok(self.engine.remove_network(&self.network).await?)
    }

    pub(super) async fn remove_container(&self) -> Result<(), ProxyError> {
        Ok(self.engine.remove_container(&self.container).await?)
    }
}

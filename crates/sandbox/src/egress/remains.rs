//! What is to be removed of one task's egress.

use crate::engine::{Engine, EngineError};

/// The proxy's container and the task's network, by name. Removing what is gone is done already, so this may be called in any
/// state and more than once.
#[derive(Debug, Clone)]
pub(crate) struct Remains {
    pub(super) engine: Engine,
    pub(super) container: String,
    pub(super) network: String,
}

impl Remains {
    /// Removes both. The task's container must be gone before: the engine does not remove a network that one is on.
    pub(crate) async fn remove(&self) -> Result<(), EngineError> {
        self.remove_container().await?;
        self.engine.remove_network(&self.network).await
    }

    pub(super) async fn remove_container(&self) -> Result<(), EngineError> {
        self.engine.remove_container(&self.container).await
    }
}

//! Taking back what a launch has made.
//!
//! Why the launch failed is worth more than that something of it is left, which a sweep finds by
//! its labels: the one is the error, the other is in the log.

use std::sync::Arc;

use crate::container::ProgramControl;
use crate::egress::{EgressResources, ProxyError, RunningProxy};
use crate::error::SandboxError;
use sandbox_podman::EngineError;

/// Removes the proxy of a removed container, and its network.
pub(crate) async fn close(proxy: Option<RunningProxy>) -> Result<(), SandboxError> {
    match proxy {
        Some(proxy) => Ok(proxy.close().await?),
        None => Ok(()),
    }
}

/// Makes a container and its proxy side by side: both or neither. `remove` takes the container away
/// again.
pub(crate) async fn both<C>(
    container: impl Future<Output = Result<C, SandboxError>>,
    proxy: impl Future<Output = Result<RunningProxy, ProxyError>>,
    resources: &EgressResources,
    remove: impl AsyncFnOnce(C) -> Result<(), EngineError>,
) -> Result<(C, RunningProxy), SandboxError> {
    // Neither is dropped half done when the other fails: both are removed again.
    match tokio::join!(container, proxy) {
        (Ok(container), Ok(proxy)) => Ok((container, proxy)),
        (Err(error), Ok(proxy)) => {
            log_leftover(proxy.close().await);
            Err(error)
        }
        (Ok(container), Err(error)) => {
            log_leftover(remove(container).await);
            log_leftover(resources.remove().await);
            Err(error.into())
        }
        (Err(error), Err(_)) => {
            log_leftover(resources.remove().await);
            Err(error)
        }
    }
}

/// Says what could not be taken back.
pub(crate) fn log_leftover(removal: Result<(), impl Into<SandboxError>>) {
    if let Err(error) = removal {
        let error: SandboxError = error.into();
        tracing::warn!(%error, "not removed after a launch that failed; the next sweep removes it");
    }
}

/// Removes everything of an execution.
pub(crate) async fn tear_down(
    handle: Arc<dyn ProgramControl>,
    proxy: Option<RunningProxy>,
) -> Result<(), SandboxError> {
    // The network goes with the proxy, and the engine does not remove a network that a container is
    // still on.
    handle.remove().await?;
    close(proxy).await
}

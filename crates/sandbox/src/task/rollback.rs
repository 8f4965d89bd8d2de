//! Rollback of a failed launch.
//!
//! The cause of the failure is the error of the launch. Objects that could not be removed are only
//! logged: the next sweep finds them by their labels.

use sandbox_podman::EngineError;
use sandbox_proxy_protocol::Traffic;
use tokio::sync::oneshot;

use crate::container::Handle;
use crate::egress::{EgressResources, ProxyError, RunningProxy};
use crate::error::SandboxError;

/// Removes the proxy of a removed container, and its network.
pub(crate) async fn close(proxy: Option<RunningProxy>) -> Result<(), SandboxError> {
    match proxy {
        Some(proxy) => Ok(proxy.close().await?),
        None => Ok(()),
    }
}

/// Creates a container and its proxy concurrently: both or neither. `remove` removes the container
/// again.
pub(crate) async fn both<C>(
    container: impl Future<Output = Result<C, SandboxError>>,
    proxy: impl Future<Output = Result<RunningProxy, ProxyError>>,
    resources: &EgressResources,
    remove: impl AsyncFnOnce(C) -> Result<(), EngineError>,
) -> Result<(C, RunningProxy), SandboxError> {
    // Both run to completion even if the other fails, and are removed again.
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

/// Logs a failed removal.
pub(crate) fn log_leftover(removal: Result<(), impl Into<SandboxError>>) {
    if let Err(error) = removal {
        let error: SandboxError = error.into();
        tracing::warn!(%error, "not removed after a failed launch; the next sweep removes it");
    }
}

/// Removes all objects of an execution whose process has ended: `removal` removes its container. The
/// traffic is sent when the proxy has ended.
pub(crate) async fn tear_down(
    removal: impl Future<Output = Result<(), SandboxError>>,
    proxy: Option<RunningProxy>,
    traffic: oneshot::Sender<Option<Traffic>>,
) -> Result<(), SandboxError> {
    let Some(proxy) = proxy else {
        // The receiver does not wait for the removal.
        drop(traffic);
        return removal.await;
    };
    let end = async {
        let (resources, _) = end(proxy, traffic).await;
        resources.remove_container().await.map(|()| resources)
    };
    // The containers at once, then their networks.
    let (removed, ended) = tokio::join!(removal, end);
    removed?;
    Ok(ended?.remove_networks().await?)
}

/// Ends the proxy of an execution whose process has ended. The traffic is missing if the proxy had
/// ended before; the log has the reason.
pub(super) async fn end(
    proxy: RunningProxy,
    traffic: oneshot::Sender<Option<Traffic>>,
) -> (EgressResources, Handle) {
    let total = proxy.control().traffic().await.ok();
    let ended = proxy.end().await;
    let _ = traffic.send(total);
    ended
}

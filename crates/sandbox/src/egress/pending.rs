//! The egress of one task during its set-up.

use futures_util::future::BoxFuture;

use super::{EgressResources, Endpoint, ProxyError, RunningProxy};

/// The network is set up and its proxy must be started. The task's container can be created
/// concurrently.
///
/// Dropping it leaves labelled objects only. When the proxy or the task's container fails,
/// [`PendingEgress::resources`] removes the rest, after the task's container is removed.
pub(crate) struct PendingEgress {
    /// The settings of the task's container.
    pub(crate) endpoint: Endpoint,
    /// Starts the proxy when polled. The task must not start before this has succeeded.
    pub(crate) proxy: BoxFuture<'static, Result<RunningProxy, ProxyError>>,
    /// The objects to remove on failure.
    pub(crate) resources: EgressResources,
}

//! Egress of one task while it is being set up.

use futures_util::future::BoxFuture;

use super::{EgressResources, Endpoint, ProxyError, RunningProxy};

/// The network is set up and its proxy is to be started. The task's container can be made
/// meanwhile.
///
/// Dropping it leaves labelled objects only. Where either the proxy or the task's container fails,
/// [`PendingEgress::resources`] removes what there is, after the task's container is gone.
pub(crate) struct PendingEgress {
    /// What the task's container has to be given.
    pub(crate) endpoint: Endpoint,
    /// Starts the proxy when it is polled. The task must not start before this has succeeded.
    pub(crate) proxy: BoxFuture<'static, Result<RunningProxy, ProxyError>>,
    /// What to remove on failure.
    pub(crate) resources: EgressResources,
}

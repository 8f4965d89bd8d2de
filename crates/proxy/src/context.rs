//! The state that all connections of a proxy share.

use std::sync::Arc;

use sandbox_proxy_protocol::{Limits, Listen};
use tokio::sync::watch;

use crate::accounting::Spending;
use crate::dns::{AddressGuard, Resolver};
use crate::policy::{LivePolicy, Questions};
use crate::record::Recorder;
use crate::services::Services;
use crate::tls::LeafIssuer;

/// The state that all connections share.
pub(crate) struct Context {
    /// Limits on the task's use of resources.
    pub(crate) limits: Limits,
    /// Where the proxy listens.
    pub(crate) listen: Listen,
    /// The policy and the credentials in force.
    pub(crate) policy: watch::Receiver<LivePolicy>,
    /// How much of its budget the task has used.
    pub(crate) spending: Arc<Spending>,
    /// The questions to the operator.
    pub(crate) questions: Questions,
    /// Sends records to the host.
    pub(crate) recorder: Recorder,
    /// The services of the host that the task may reach.
    pub(crate) services: Services,
    /// Resolves names to addresses.
    pub(crate) resolver: Resolver,
    /// Decides which addresses may be connected to.
    pub(crate) guard: AddressGuard,
    /// Issues the certificates that clients see.
    pub(crate) authority: LeafIssuer,
    /// Verifies the certificates of upstreams.
    pub(crate) upstream_tls: Arc<rustls::ClientConfig>,
}

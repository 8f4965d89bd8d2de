//! What every connection of a proxy works with.

use std::sync::Arc;

use sandbox_proxy_protocol::{Limits, Listen};
use tokio::sync::watch;

use crate::accounting::Spending;
use crate::dns::{AddressGuard, Resolver};
use crate::policy::{LivePolicy, Questions};
use crate::record::Recorder;
use crate::services::Services;
use crate::tls::LeafIssuer;

/// What every connection works with.
pub(crate) struct Context {
    /// Bounds on what the task may use.
    pub(crate) limits: Limits,
    /// Where the proxy listens.
    pub(crate) listen: Listen,
    /// The policy and the credentials in force.
    pub(crate) policy: watch::Receiver<LivePolicy>,
    /// What the task has used of its budget.
    pub(crate) spending: Arc<Spending>,
    /// What the operator is asked.
    pub(crate) questions: Questions,
    /// Where records go.
    pub(crate) recorder: Recorder,
    /// What of the host the task may reach.
    pub(crate) services: Services,
    /// Names to addresses.
    pub(crate) resolver: Resolver,
    /// Which of them are fit to connect to.
    pub(crate) guard: AddressGuard,
    /// Mints what clients see.
    pub(crate) authority: LeafIssuer,
    /// Verifies what upstreams show.
    pub(crate) upstream_tls: Arc<rustls::ClientConfig>,
}

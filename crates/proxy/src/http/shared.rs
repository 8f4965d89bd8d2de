//! State shared by all connections.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::accounting::LimitCounter;
use crate::context::Context;
use crate::policy::Gate;
use crate::record::LogBudget;
use crate::upload::ROOM;
use crate::upstream::{Dialer, Pool};

/// HTTP/2 connections that may have many streams at once; later ones have few while these are open.
const WIDE_CONNECTIONS: usize = 16;

/// State shared by all connections.
pub(crate) struct Shared {
    pub(crate) context: Arc<Context>,
    pub(crate) gate: Gate,
    pub(crate) pool: Arc<Pool>,
    /// A permit for each request in progress.
    pub(super) requests: Arc<Semaphore>,
    /// The room left in the network log for permitted requests.
    pub(crate) log: LogBudget,
    pub(crate) refused_requests: LimitCounter,
    pub(crate) refused_questions: LimitCounter,
    /// A permit for each HTTP/2 connection that may have many streams.
    pub(super) wide_connections: Arc<Semaphore>,
    /// A permit for each byte of a body that waits to be signed.
    pub(super) signing_room: Arc<Semaphore>,
}

impl Shared {
    /// Shared state of which nothing is in use yet.
    pub(crate) fn new(context: Arc<Context>) -> Self {
        let limits = &context.limits;
        Self {
            gate: Gate::new(context.policy.clone()).asking(context.questions.is_on()),
            pool: Pool::new(Dialer::new(Arc::clone(&context)), limits.pooled_connections),
            requests: Arc::new(Semaphore::new(limits.requests)),
            log: LogBudget::new(limits.log_bytes),
            refused_requests: LimitCounter::new("requests"),
            refused_questions: LimitCounter::new("questions"),
            wide_connections: Arc::new(Semaphore::new(WIDE_CONNECTIONS)),
            signing_room: Arc::new(Semaphore::new(ROOM)),
            context,
        }
    }
}

//! What a task has used of the network so far.

use std::sync::atomic::{AtomicU64, Ordering};

use sandbox_proxy_protocol::{Tokens, Traffic};

/// What one task has used so far.
#[derive(Debug, Default)]
pub(crate) struct Used {
    pub(crate) requests: AtomicU64,
    pub(crate) sent: AtomicU64,
    pub(crate) received: AtomicU64,
    pub(crate) input_tokens: AtomicU64,
    pub(crate) output_tokens: AtomicU64,
}

impl Used {
    /// The numbers of the moment.
    pub(crate) fn traffic(&self) -> Traffic {
        let load = |used: &AtomicU64| used.load(Ordering::Relaxed);
        Traffic {
            requests: load(&self.requests),
            bytes_up: load(&self.sent),
            bytes_down: load(&self.received),
            tokens: Tokens { input: load(&self.input_tokens), output: load(&self.output_tokens) },
        }
    }
}

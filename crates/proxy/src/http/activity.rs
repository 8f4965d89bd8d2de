//! Tracks the requests in progress on a connection.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

/// Whether a connection is in use and, if not, since when.
#[derive(Debug)]
pub(super) struct Activity {
    /// The number of requests in progress, and when the last one ended.
    state: Mutex<(usize, Instant)>,
}

impl Activity {
    pub(super) fn new() -> Self {
        Self { state: Mutex::new((0, Instant::now())) }
    }

    pub(super) fn idle_since(&self) -> Option<Instant> {
        let (active, since) = *self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (active == 0).then_some(since)
    }
}

/// A request in progress.
#[derive(Debug)]
pub(super) struct Active {
    activity: Arc<Activity>,
}

impl Active {
    pub(super) fn new(activity: Arc<Activity>) -> Self {
        activity.state.lock().unwrap_or_else(PoisonError::into_inner).0 += 1;
        Self { activity }
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        let mut state = self.activity.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state = (state.0.saturating_sub(1), Instant::now());
    }
}

//! Proxies that are started before their task is known. They have no policy, key or name of a task,
//! and reach nothing until their start document comes.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::task::JoinSet;
use tracing::Instrument as _;

use crate::container::Running;

use super::ProxyError;
use super::link::Link;

/// A task's network and its proxy, which may still be starting. Dropping it ends the proxy, and
/// leaves labelled objects.
#[derive(Debug)]
pub(crate) struct Spare {
    pub(super) link: Link,
    pub(super) proxy: Starting,
}

/// A proxy that is being started, or waits for its start document. Dropping it ends both.
#[derive(Debug)]
pub(super) struct Starting(JoinSet<Result<Running, ProxyError>>);

/// The spares of one sandbox. Each is taken once.
#[derive(Debug, Default)]
pub(crate) struct Spares {
    /// Locked for single operations only.
    waiting: Mutex<Waiting>,
    /// How many were begun and not taken, or failed. Their objects are found by label.
    untaken: AtomicUsize,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Oldest first. Each set has one member, and aborts it when it is dropped.
    spares: VecDeque<JoinSet<Result<Spare, ProxyError>>>,
    has_ended: bool,
}

impl Starting {
    pub(super) fn new(start: impl Future<Output = Result<Running, ProxyError>> + Send + 'static) -> Self {
        let mut starting = JoinSet::new();
        starting.spawn(start.in_current_span());
        Self(starting)
    }

    /// The started proxy.
    pub(super) async fn started(mut self) -> Result<Running, ProxyError> {
        let started = self.0.join_next().await.and_then(Result::ok);
        // It panicked.
        started.unwrap_or(Err(ProxyError::ProxyGone))
    }
}

impl Spares {
    /// Begins to make spares until `count` wait or are being made.
    pub(super) fn fill<F>(&self, count: usize, make: impl Fn() -> F)
    where
        F: Future<Output = Result<Spare, ProxyError>> + Send + 'static,
    {
        let mut waiting = self.waiting();
        while !waiting.has_ended && waiting.spares.len() < count {
            self.untaken.fetch_add(1, Ordering::Relaxed);
            let mut making = JoinSet::new();
            making.spawn(make().in_current_span());
            waiting.spares.push_back(making);
        }
    }

    /// The oldest spare whose network exists.
    pub(super) async fn take(&self) -> Option<Spare> {
        loop {
            let oldest = self.waiting().spares.pop_front();
            match oldest?.join_next().await {
                Some(Ok(Ok(spare))) => {
                    self.untaken.fetch_sub(1, Ordering::Relaxed);
                    return Some(spare);
                }
                Some(Ok(Err(error))) => tracing::warn!(%error, "failed to start a proxy ahead"),
                // The message of a panic may hold secrets.
                Some(Err(_)) | None => tracing::warn!("failed to start a proxy ahead"),
            }
        }
    }

    /// Whether objects of a spare may be left that no execution removes.
    pub(crate) fn may_be_left(&self) -> bool {
        self.untaken.load(Ordering::Relaxed) > 0
    }

    /// Ends all of them; from now on none is begun. Their objects are left.
    pub(crate) async fn end(&self) {
        self.waiting().has_ended = true;
        // They come to an end first: no call to the engine continues when their objects are removed.
        loop {
            let oldest = self.waiting().spares.pop_front();
            let Some(mut oldest) = oldest else { return };
            if let Some(Ok(Ok(spare))) = oldest.join_next().await {
                let _ = spare.proxy.started().await;
            }
        }
    }

    /// Code that holds this lock cannot panic.
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn failed_spares_are_skipped_and_none_is_begun_after_the_end() {
        let (spares, begun) = (Spares::default(), Cell::new(0));
        let fill = |count| {
            spares.fill(count, || {
                begun.set(begun.get() + 1);
                std::future::ready(Err(ProxyError::ProxyGone))
            });
        };
        fill(2);
        fill(3);
        assert_eq!(begun.get(), 3, "those that are being made count");
        assert!(spares.take().await.is_none());
        assert!(spares.may_be_left());
        fill(1);
        assert_eq!(begun.get(), 4, "those that failed do not, once a task was to get them");
        spares.end().await;
        fill(1);
        assert_eq!(begun.get(), 4);
        assert!(spares.take().await.is_none());
    }
}

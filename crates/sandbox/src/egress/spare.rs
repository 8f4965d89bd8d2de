//! Proxies that are started before their task is known. They have no policy, key or name of a task,
//! and reach nothing until their start document comes.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::task::{JoinHandle, spawn};
use tracing::Instrument as _;

use crate::container::Running;

use super::ProxyError;
use super::link::Link;

/// A task's network and its proxy, which may still be starting. Dropping it ends the proxy, and
/// leaves labelled objects.
#[derive(Debug)]
pub(crate) struct Spare {
    pub(super) link: Link,
    pub(super) proxy: JoinHandle<Result<Running, ProxyError>>,
}

/// The spares of one sandbox. Each is taken once.
#[derive(Debug, Default)]
pub(crate) struct Spares {
    /// Locked for single operations only.
    waiting: Mutex<VecDeque<JoinHandle<Result<Spare, ProxyError>>>>,
    /// How many were begun and not taken. Their objects are found by label.
    untaken: AtomicUsize,
}

impl Spares {
    /// Begins to make spares until `count` wait or are being made.
    pub(super) fn fill<F>(&self, count: usize, make: impl Fn() -> F)
    where
        F: Future<Output = Result<Spare, ProxyError>> + Send + 'static,
    {
        let mut waiting = self.waiting();
        while waiting.len() < count {
            self.untaken.fetch_add(1, Ordering::Relaxed);
            waiting.push_back(spawn(make().in_current_span()));
        }
    }

    /// The oldest spare.
    pub(super) async fn take(&self) -> Option<Spare> {
        let spare = self.waiting().pop_front()?;
        match spare.await {
            Ok(Ok(spare)) => {
                self.untaken.fetch_sub(1, Ordering::Relaxed);
                return Some(spare);
            }
            Ok(Err(error)) => tracing::warn!(%error, "failed to start a proxy ahead"),
            // The message of a panic may hold secrets.
            Err(_panic) => tracing::warn!("failed to start a proxy ahead"),
        }
        None
    }

    /// Whether objects of a spare may be left that no execution removes.
    pub(crate) fn may_be_left(&self) -> bool {
        self.untaken.load(Ordering::Relaxed) > 0
    }

    /// Ends all of them. Their objects are left.
    pub(crate) async fn end(&self) {
        let waiting = std::mem::take(&mut *self.waiting());
        for spare in waiting {
            if let Ok(Ok(spare)) = spare.await {
                drop(spare.proxy.await);
            }
        }
    }

    /// Code that holds this lock cannot panic.
    fn waiting(&self) -> MutexGuard<'_, VecDeque<JoinHandle<Result<Spare, ProxyError>>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

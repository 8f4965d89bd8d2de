//! Callbacks of the caller for the stages of a run's life.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::error::{HookError, HookStage, RunError};
use crate::spec::RunName;

type Callback = Arc<dyn Fn(RunName) -> BoxFuture<'static, Result<(), HookError>> + Send + Sync>;

/// Callbacks for the stages of a run's life. Each is optional, gets the run's name, and is called
/// at most once for a run.
///
/// A failed `pre_start` prevents the run's creation; a failed `post_start` rolls the run back:
/// process, container, proxy and network are removed. The error of the other two is returned by the
/// method that called them, and nothing is rolled back.
///
/// After a successful `pre_start`, `post_stop` is always called: after a rolled back launch, by the
/// first [`Runs::wait_for_exit`](crate::runs::Runs::wait_for_exit) that observes the end, or by
/// [`Runs::stop`](crate::runs::Runs::stop). Only the sandbox that created the run has the
/// callbacks; when its process ends, they are no longer called.
///
/// ```
/// use sandbox::runs::LifecycleHooks;
///
/// let hooks = LifecycleHooks::default()
///     .pre_start(async |name| Ok(println!("{name} is about to be created")))
///     .post_stop(async |name| Ok(println!("{name} is gone")));
/// ```
#[derive(Clone, Default)]
pub struct LifecycleHooks {
    pre_start: Option<Callback>,
    post_start: Option<Callback>,
    post_ready: Option<Callback>,
    post_stop: Option<Callback>,
}

macro_rules! setters {
    ($($(#[$doc:meta])* $stage:ident,)*) => {
        $(
            $(#[$doc])*
            #[must_use]
            pub fn $stage<F, Called>(mut self, callback: F) -> Self
            where
                F: Fn(RunName) -> Called + Send + Sync + 'static,
                Called: Future<Output = Result<(), HookError>> + Send + 'static,
            {
                self.$stage = Some(Arc::new(move |name| Box::pin(callback(name))));
                self
            }
        )*
    };
}

impl LifecycleHooks {
    setters! {
        /// Called before anything is created.
        pre_start,
        /// Called when the process was started.
        post_start,
        /// Called when [`Runs::stream_logs`](crate::runs::Runs::stream_logs) first observes that
        /// the run is ready.
        post_ready,
        /// Called when the run has ended, or its launch was rolled back.
        post_stop,
    }

    /// Calls the callback of `stage`, if there is one and it was not called before.
    pub(super) async fn fire(&mut self, stage: HookStage, run: &RunName) -> Result<(), RunError> {
        let callback = match stage {
            HookStage::PreStart => &mut self.pre_start,
            HookStage::PostStart => &mut self.post_start,
            HookStage::PostReady => &mut self.post_ready,
            HookStage::PostStop => &mut self.post_stop,
        };
        match callback.take() {
            Some(callback) => callback(run.clone()).await.map_err(|source| RunError::Hook {
                run: run.clone(),
                stage,
                source,
            }),
            None => Ok(()),
        }
    }

    /// Takes the callback of `stage` out, to call it without holding the rest.
    pub(super) fn only(&mut self, stage: HookStage) -> Self {
        let mut one = Self::default();
        match stage {
            HookStage::PreStart => one.pre_start = self.pre_start.take(),
            HookStage::PostStart => one.post_start = self.post_start.take(),
            HookStage::PostReady => one.post_ready = self.post_ready.take(),
            HookStage::PostStop => one.post_stop = self.post_stop.take(),
        }
        one
    }
}

impl fmt::Debug for LifecycleHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LifecycleHooks")
            .field("pre_start", &self.pre_start.is_some())
            .field("post_start", &self.post_start.is_some())
            .field("post_ready", &self.post_ready.is_some())
            .field("post_stop", &self.post_stop.is_some())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test]
    async fn callback_is_called_once_and_named_in_its_error() {
        let calls = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&calls);
        let mut hooks = LifecycleHooks::default()
            .post_stop(move |_| {
                counted.fetch_add(1, Ordering::SeqCst);
                async { Ok(()) }
            })
            .pre_start(async |_| Err("no room".into()));
        let run: RunName = "r".parse().unwrap();
        let mut one = hooks.only(HookStage::PostStop);
        one.fire(HookStage::PostStop, &run).await.unwrap();
        one.fire(HookStage::PostStop, &run).await.unwrap();
        hooks.fire(HookStage::PostStop, &run).await.unwrap();
        assert_eq!(calls.load(Ordering::SeqCst), 1);
        let error = hooks.fire(HookStage::PreStart, &run).await.unwrap_err();
        assert_eq!(error.to_string(), "the pre_start hook of run `r` failed");
        assert_eq!(error.source().map(ToString::to_string).as_deref(), Some("no room"));
    }
}

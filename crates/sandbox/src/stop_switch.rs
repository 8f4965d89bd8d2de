//! Stopping an execution from another task.

use std::sync::Arc;

use tokio::sync::watch;

use crate::error::SandboxError;

/// The state of the current or last execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Idle,
    Running,
    Stopping,
}

/// Permits one execution at a time, and lets any other task stop it.
#[derive(Debug)]
pub(crate) struct StopSwitch(watch::Sender<Current>);

/// The number distinguishes executions: the next may start before a waiter for the end of this one
/// has looked.
#[derive(Debug, Clone, Copy)]
struct Current {
    number: u64,
    phase: Phase,
}

impl StopSwitch {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(Current { number: 0, phase: Phase::Idle }))
    }

    /// Begins an execution, which ends when the guard is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> Result<RunGuard, SandboxError> {
        let begun = self.0.send_if_modified(|current| {
            let idle = current.phase == Phase::Idle;
            if idle {
                current.number += 1;
                current.phase = Phase::Running;
            }
            idle
        });
        if begun { Ok(RunGuard(Arc::clone(self))) } else { Err(SandboxError::Busy) }
    }

    /// Asks a running execution to stop and waits until it has ended. Returns whether there was
    /// one.
    pub(crate) async fn stop(&self) -> bool {
        let mut stopped = 0;
        let running = self.0.send_if_modified(|current| {
            stopped = current.number;
            let running = current.phase == Phase::Running;
            if running {
                current.phase = Phase::Stopping;
            }
            running
        });
        let mut changes = self.0.subscribe();
        let has_ended = |current: &Current| current.phase == Phase::Idle || current.number != stopped;
        // The sender is a field of `self`: it cannot be gone.
        let _ = changes.wait_for(has_ended).await;
        running
    }

    /// Ends when the execution was asked to stop.
    pub(crate) async fn requested(&self) {
        let mut changes = self.0.subscribe();
        let _ = changes.wait_for(|current| current.phase == Phase::Stopping).await;
    }
}

/// An execution that holds the switch.
#[derive(Debug)]
pub(crate) struct RunGuard(Arc<StopSwitch>);

impl Drop for RunGuard {
    fn drop(&mut self) {
        self.0.0.send_modify(|current| current.phase = Phase::Idle);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn second_execution_is_refused_while_one_runs() {
        let switch = Arc::new(StopSwitch::new());
        let guard = switch.begin().unwrap();
        assert!(matches!(switch.begin(), Err(SandboxError::Busy)));
        drop(guard);
        assert!(switch.begin().is_ok());
    }

    #[tokio::test]
    async fn stop_waits_for_the_end_and_returns_whether_one_ran() {
        let switch = Arc::new(StopSwitch::new());
        assert!(!switch.stop().await);
        let guard = switch.begin().unwrap();
        let execution = async {
            switch.requested().await;
            drop(guard);
        };
        let (stopped, ()) = tokio::join!(switch.stop(), execution);
        assert!(stopped);
    }

    #[tokio::test]
    async fn stop_does_not_wait_for_the_next_execution() {
        let switch = Arc::new(StopSwitch::new());
        let guard = switch.begin().unwrap();
        let mut stop = std::pin::pin!(switch.stop());
        assert!(stop.as_mut().now_or_never().is_none());
        drop(guard);
        let _next = switch.begin().unwrap();
        assert_eq!(stop.now_or_never(), Some(true));
    }
}

//! Stopping an execution from another task.

use std::sync::Arc;

use tokio::sync::watch;

use crate::error::SandboxError;

/// Where an execution stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Idle,
    Running,
    Stopping,
}

/// Lets one execution run at a time, and lets any other task stop it.
#[derive(Debug)]
pub(crate) struct StopSwitch(watch::Sender<Phase>);

impl StopSwitch {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(Phase::Idle))
    }

    /// Begins an execution; the guard ends it, whatever becomes of it.
    pub(crate) fn begin(self: &Arc<Self>) -> Result<RunGuard, SandboxError> {
        let begun = self.0.send_if_modified(|phase| {
            let idle = *phase == Phase::Idle;
            if idle {
                *phase = Phase::Running;
            }
            idle
        });
        if begun {
            Ok(RunGuard(Arc::clone(self)))
        } else {
            Err(SandboxError::Busy)
        }
    }

    /// Asks a running execution to stop and waits until it has ended. Tells whether there was one.
    pub(crate) async fn stop(&self) -> bool {
        let running = self.0.send_if_modified(|phase| {
            let running = *phase == Phase::Running;
            if running {
                *phase = Phase::Stopping;
            }
            running
        });
        let mut phases = self.0.subscribe();
        // The sender is our own field: it cannot be gone.
        let _ = phases.wait_for(|phase| *phase == Phase::Idle).await;
        running
    }

    /// Ends when someone asked the execution to stop.
    pub(crate) async fn requested(&self) {
        let mut phases = self.0.subscribe();
        let _ = phases.wait_for(|phase| *phase == Phase::Stopping).await;
    }
}

/// An execution that has the switch.
#[derive(Debug)]
pub(crate) struct RunGuard(Arc<StopSwitch>);

impl Drop for RunGuard {
    fn drop(&mut self) {
        self.0.0.send_replace(Phase::Idle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_execution_at_a_time() {
        let switch = Arc::new(StopSwitch::new());
        let guard = switch.begin().unwrap();
        assert!(matches!(switch.begin(), Err(SandboxError::Busy)));
        drop(guard);
        assert!(switch.begin().is_ok());
    }

    #[tokio::test]
    async fn stopping_waits_for_the_end_and_tells_whether_there_was_something_to_stop() {
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
}

//! Teardown of containers: removes their objects, inspects their mounts, and collects tampered
//! paths.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle as Runtime;
use tokio::sync::{Mutex as Turn, oneshot, watch};

use crate::container::ProgramControl;
use crate::context::Shared;
use crate::egress::RunningProxy;
use crate::error::SandboxError;
use crate::ssh::RunningAgent;
use crate::task::{close, log_git};
use sandbox_workspace::{Findings, WorkspaceGuard};

/// A container that is set up, its proxy, and its hold on folders of the host.
#[derive(Debug)]
pub(super) struct ActiveContainer {
    pub(super) handle: Arc<dyn ProgramControl>,
    pub(super) proxy: Option<RunningProxy>,
    pub(super) hold: WorkspaceGuard,
    /// Serves as long as the container can be used.
    pub(super) agent: Option<RunningAgent>,
}

/// Removes the containers of an executor. It continues when nothing waits for it, and keeps its
/// findings until they are taken.
#[derive(Debug)]
pub(super) struct Teardown {
    pub(super) shared: Arc<Shared>,
    /// Findings that were not reported yet. Locked for single operations only.
    findings: Mutex<Findings>,
    /// Containers that could not be removed: their processes may still write, so their mounts stay
    /// held. Locked for single operations only.
    stuck: Mutex<Vec<ActiveContainer>>,
    /// How many containers are being removed.
    pending: watch::Sender<usize>,
    /// One inspection at a time: two of one folder would both move the same files.
    turn: Turn<()>,
}

impl Teardown {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            findings: Mutex::default(),
            stuck: Mutex::default(),
            pending: watch::Sender::new(0),
            turn: Turn::default(),
        }
    }

    /// Removes `active` in the background. Outside of a runtime, its objects are removed by label,
    /// and tampered paths stay.
    pub(super) fn begin(
        self: &Arc<Self>,
        active: ActiveContainer,
    ) -> oneshot::Receiver<Result<(), SandboxError>> {
        let (sender, receiver) = oneshot::channel();
        if Runtime::try_current().is_err() {
            tracing::warn!(
                "a container is not removed and not searched for tampered paths; the next sweep removes it"
            );
            return receiver;
        }
        self.pending.send_modify(|pending| *pending += 1);
        let teardown = Arc::clone(self);
        self.shared.in_background(async move {
            let pending = Pending(&teardown.pending);
            let done = teardown.tear_down(active).await;
            drop(pending);
            // An error that nothing waits for is reported to a caller that waits for the whole
            // sandbox.
            match sender.send(done) {
                Err(done) => done,
                Ok(()) => Ok(()),
            }
        });
        receiver
    }

    /// Waits until no container is being removed.
    pub(super) async fn settled(&self) {
        // The sender is a field of `self`: it cannot be gone.
        let _ = self.pending.subscribe().wait_for(|pending| *pending == 0).await;
    }

    /// Like [`settled`](Self::settled), and retries failed removals.
    pub(super) async fn finish(&self) -> Result<(), SandboxError> {
        self.settled().await;
        let stuck = std::mem::take(&mut *lock(&self.stuck));
        let mut ended = Ok(());
        for active in stuck {
            let done = self.tear_down(active).await;
            ended = ended.and(done);
        }
        ended
    }

    /// The findings that were not reported yet.
    pub(super) fn take_findings(&self) -> Findings {
        std::mem::take(&mut *lock(&self.findings))
    }

    async fn tear_down(&self, active: ActiveContainer) -> Result<(), SandboxError> {
        let ActiveContainer { handle, proxy, hold, agent } = active;
        drop(agent);
        if let Err(error) = handle.remove().await {
            // Without its proxy it reaches nothing, and without its agent it signs nothing.
            let (proxy, agent) = (None, None);
            lock(&self.stuck).push(ActiveContainer { handle, proxy, hold, agent });
            return Err(error.into());
        }
        let ((), closed) = tokio::join!(self.look_through(hold), close(proxy));
        closed
    }

    async fn look_through(&self, hold: WorkspaceGuard) {
        let _turn = self.turn.lock().await;
        let Findings { tampered, git, .. } = hold.release(true).await;
        log_git(&git);
        for thing in &tampered {
            tracing::warn!(path = %thing.path.display().to_string().escape_debug(), "a command tampered with a path");
        }
        let mut findings = lock(&self.findings);
        findings.tampered.extend(tampered);
        findings.git = std::mem::take(&mut findings.git).and(git);
    }
}

/// One removal. It is also over when it panics: otherwise a caller would wait for it forever.
struct Pending<'a>(&'a watch::Sender<usize>);

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|pending| *pending -= 1);
    }
}

/// Code that holds one of these locks cannot panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

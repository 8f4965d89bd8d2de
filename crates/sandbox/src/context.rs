//! State that the tasks of one sandbox share.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::OnceCell;
use tokio::task::{JoinError, JoinSet};
use tracing::Instrument as _;

use crate::config::SandboxConfig;
use crate::container::{Launcher, OwnFiles};
use crate::egress::{self, Egress};
use crate::error::SandboxError;
use crate::instance::{HandedOver, InstanceLock, LockError};
use crate::labels::Labels;
use crate::socket_folder;
use crate::spec::{ImageTag, ObjectId};
use crate::stop_switch::StopSwitch;
use sandbox_podman::Engine;

/// Launches the programs of a sandbox.
pub(crate) enum Backend {
    /// Podman, verified by this crate.
    Engine(Engine),
    /// A launcher that the caller provides instead.
    Injected(Arc<dyn Launcher>),
}

/// The state of a sandbox that its tasks use.
pub(crate) struct Shared {
    config: SandboxConfig,
    backend: Backend,
    instance: InstanceLock,
    egress: OnceCell<Egress>,
    /// The switches of existing tasks, for a shutdown to stop them. Locked for single operations
    /// only.
    switches: Mutex<Vec<Weak<StopSwitch>>>,
    /// How often something began that may leave objects on the engine, and was not removed since.
    unsettled: Arc<AtomicUsize>,
    /// How many of these have ended, left only dead objects, and are removed at the shutdown.
    left: Arc<AtomicUsize>,
    /// Background removals of executions. Locked for single operations only.
    cleanups: Mutex<JoinSet<Result<(), SandboxError>>>,
}

impl Shared {
    pub(crate) fn new(config: SandboxConfig, backend: Backend, instance: InstanceLock) -> Self {
        Self {
            config,
            backend,
            instance,
            egress: OnceCell::new(),
            switches: Mutex::default(),
            unsettled: Arc::default(),
            left: Arc::default(),
            cleanups: Mutex::default(),
        }
    }

    /// To be called before anything that creates labelled objects on the engine.
    pub(crate) fn begin(&self) {
        self.unsettled.fetch_add(1, Ordering::Relaxed);
    }

    /// To be called when all objects of something that [began](Self::begin) are removed.
    pub(crate) fn settle(&self) {
        self.unsettled.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether objects of this instance may be left: something that [began](Self::begin) runs, was
    /// abandoned, or was not removed.
    pub(crate) fn is_unsettled(&self) -> bool {
        self.unsettled.load(Ordering::Relaxed) > 0 || self.has_spares()
    }

    fn has_spares(&self) -> bool {
        self.egress.get().is_some_and(|egress| egress.spares().may_be_left())
    }

    /// The lock of this instance, if it left only dead objects.
    pub(crate) fn hand_over(&self) -> Result<Option<HandedOver>, LockError> {
        let unsettled = self.unsettled.load(Ordering::Relaxed);
        let is_all_dead =
            unsettled > 0 && unsettled == self.left.load(Ordering::Relaxed) && !self.has_spares();
        is_all_dead.then(|| self.instance.hand_over()).transpose()
    }

    pub(crate) fn config(&self) -> &SandboxConfig {
        &self.config
    }

    pub(crate) fn engine(&self) -> Result<&Engine, SandboxError> {
        match &self.backend {
            Backend::Engine(engine) => Ok(engine),
            Backend::Injected(_) => Err(SandboxError::NoEngine),
        }
    }

    /// The launcher that replaces the engine.
    pub(crate) fn launcher(&self) -> Option<&Arc<dyn Launcher>> {
        match &self.backend {
            Backend::Engine(_) => None,
            Backend::Injected(launcher) => Some(launcher),
        }
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.config.prefix
    }

    pub(crate) fn state_dir(&self) -> &Path {
        &self.config.state_dir
    }

    /// The id of this instance.
    pub(crate) fn instance_id(&self) -> &str {
        self.instance.id()
    }

    /// The egress; started on first use.
    pub(crate) async fn egress(&self) -> Result<&Egress, SandboxError> {
        let start = async || Ok(Egress::start(self.engine()?, &self.config, self.labels("")).await?);
        self.egress.get_or_try_init(start).await
    }

    pub(crate) fn labels(&self, context: &str) -> Labels {
        Labels::new(&self.config.prefix, &self.instance, context)
    }

    pub(crate) fn object_name(&self, kind: &str, id: &ObjectId) -> String {
        format!("{}-{kind}-{id}", self.config.prefix)
    }

    /// The folder that files planted by the execution `id` are moved to.
    pub(crate) fn quarantine(&self, id: &ObjectId) -> PathBuf {
        self.config.state_dir.join("quarantine").join(id.to_string())
    }

    /// The folder of the repository views of all executions.
    pub(crate) fn all_views(&self) -> PathBuf {
        self.config.state_dir.join("views").join(&self.config.prefix)
    }

    /// The folder of the repository views of the execution `id`.
    pub(crate) fn views(&self, id: &ObjectId) -> PathBuf {
        self.all_views().join(id.to_string())
    }

    /// This instance no longer uses the egress network.
    pub(crate) fn release_egress(&self) {
        if let Some(egress) = self.egress.get() {
            egress.release();
        }
    }

    pub(crate) async fn image_id(&self, tag: &ImageTag) -> Result<String, SandboxError> {
        let id = match &self.backend {
            Backend::Engine(engine) => engine.image(tag.as_str()).await?.map(|facts| facts.id),
            Backend::Injected(launcher) => {
                launcher.has_image(tag.as_str()).await?.then(|| tag.as_str().to_owned())
            }
        };
        id.ok_or_else(|| SandboxError::NoImage(tag.clone()))
    }

    /// The files that give a container its host name, hosts and name server.
    pub(crate) fn own_files(&self) -> OwnFiles {
        OwnFiles::new(&self.config.state_dir)
    }

    /// Removes files of earlier starts that no later start uses.
    pub(crate) fn remove_old_files(&self) {
        if let Err(error) = socket_folder::remove_dead(self.state_dir()) {
            tracing::warn!(%error, "failed to remove the sockets of dead instances");
        }
        if let Err(error) = self.own_files().remove_old() {
            tracing::warn!(%error, "failed to remove the files of earlier starts");
        }
    }

    /// Removes the egress network if no instance uses it, and returns its name.
    pub(crate) async fn remove_unused_network(&self) -> Result<Option<String>, SandboxError> {
        let Ok(engine) = self.engine() else {
            return Ok(None);
        };
        Ok(egress::remove_unused_network(engine, &self.config, &self.labels("")).await?)
    }

    pub(crate) fn new_switch(&self) -> Arc<StopSwitch> {
        let switch = Arc::new(StopSwitch::new());
        let mut switches = lock(&self.switches);
        switches.retain(|known| known.strong_count() > 0);
        switches.push(Arc::downgrade(&switch));
        switch
    }

    /// Runs `work` for an execution that has ended. A shutdown waits for it.
    pub(crate) fn in_background(
        &self,
        work: impl Future<Output = Result<(), SandboxError>> + Send + 'static,
    ) {
        let mut cleanups = lock(&self.cleanups);
        while let Some(done) = cleanups.try_join_next() {
            log_failure(done);
        }
        // Its log entries belong to the span of this execution.
        cleanups.spawn(work.in_current_span());
    }

    /// Like [`in_background`](Self::in_background), for work that removes all objects of something
    /// that [began](Self::begin).
    pub(crate) fn settle_in_background(
        &self,
        work: impl Future<Output = Result<(), SandboxError>> + Send + 'static,
    ) {
        let unsettled = Arc::clone(&self.unsettled);
        self.in_background(async move {
            work.await?;
            unsettled.fetch_sub(1, Ordering::Relaxed);
            Ok(())
        });
    }

    /// Like [`in_background`](Self::in_background), for work that ends something that
    /// [began](Self::begin) and returns whether all its objects are dead. They are left to the
    /// shutdown.
    pub(crate) fn leave_in_background(&self, work: impl Future<Output = bool> + Send + 'static) {
        let left = Arc::clone(&self.left);
        self.in_background(async move {
            if work.await {
                left.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        });
    }

    /// Stops every execution and waits for them to end.
    pub(crate) async fn stop_all(&self) {
        let switches: Vec<_> = lock(&self.switches).iter().filter_map(Weak::upgrade).collect();
        futures_util::future::join_all(switches.iter().map(|switch| switch.stop())).await;
    }

    /// Ends the spare proxies, and waits for the background work of ended executions.
    pub(crate) async fn wait_for_cleanups(&self) {
        if let Some(egress) = self.egress.get() {
            egress.spares().end().await;
        }
        let mut running = std::mem::take(&mut *lock(&self.cleanups));
        while let Some(done) = running.join_next().await {
            log_failure(done);
        }
    }
}

/// Logs when background work of an ended execution failed.
fn log_failure(done: Result<Result<(), SandboxError>, JoinError>) {
    let error = match done {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error,
        // The message of a panic, which tokio's error contains, may hold secrets.
        Err(_panic) => SandboxError::TeardownFailed,
    };
    tracing::warn!(%error, "failed to remove an execution; its objects are removed by label");
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("prefix", &self.config.prefix)
            .field("engine", &self.config.engine)
            .finish_non_exhaustive()
    }
}

/// Code that holds one of these locks cannot panic.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::EngineAddress;
    use crate::launcher::ScriptedEngine;

    fn shared(folder: &Path) -> Shared {
        let config = SandboxConfig::new(EngineAddress::unix("/none"), folder);
        let instance = InstanceLock::acquire(folder).unwrap();
        Shared::new(config, Backend::Injected(Arc::new(ScriptedEngine::new())), instance)
    }

    #[tokio::test]
    async fn only_dead_objects_are_handed_over() {
        let folder = tempfile::tempdir().unwrap();
        let shared = shared(folder.path());
        assert!(shared.hand_over().unwrap().is_none(), "nothing began");
        for (dead, is_handed_over) in [(true, true), (true, true), (false, false), (true, false)] {
            shared.begin();
            assert!(shared.hand_over().unwrap().is_none(), "it runs, or was abandoned");
            shared.leave_in_background(async move { dead });
            shared.wait_for_cleanups().await;
            assert!(shared.is_unsettled());
            assert_eq!(shared.hand_over().unwrap().is_some(), is_handed_over);
        }
    }

    #[tokio::test]
    async fn what_was_removed_at_once_does_not_prevent_a_hand_over() {
        let folder = tempfile::tempdir().unwrap();
        let shared = shared(folder.path());
        for settled in [false, true] {
            shared.begin();
            shared.leave_in_background(async { true });
            shared.wait_for_cleanups().await;
            if settled {
                shared.settle();
            } else {
                shared.begin();
            }
            assert_eq!(shared.hand_over().unwrap().is_some(), settled);
        }
    }

    #[tokio::test]
    async fn only_successful_removals_settle_what_began() {
        let folder = tempfile::tempdir().unwrap();
        let shared = shared(folder.path());
        assert!(!shared.is_unsettled(), "nothing began");
        for (removed, is_left) in [(Ok(()), false), (Err(SandboxError::Busy), true)] {
            shared.begin();
            assert!(shared.is_unsettled(), "it runs, or was abandoned");
            shared.settle_in_background(async { removed });
            shared.wait_for_cleanups().await;
            assert_eq!(shared.is_unsettled(), is_left);
        }
        shared.settle();
        assert!(!shared.is_unsettled());
    }
}

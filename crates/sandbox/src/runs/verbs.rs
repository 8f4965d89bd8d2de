//! The operations on runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use allowlist::Allowlist;
use sandbox_credentials::SecretReplacements;

use super::copy::{self, Covered};
use super::hooks::LifecycleHooks;
use super::launch::{self, Live};
use super::output::{self, READY_MARKER, Readiness};
use super::registry::{Registry, Stage};
use super::{StopResult, found, stop, task_dir};
use crate::container::{Exit, ProgramControl};
use crate::context::Shared;
use crate::egress::ShieldState;
use crate::error::HookStage;
use crate::error::RunError;
use crate::error::SandboxError;
use crate::reap;
use crate::spec::{RunName, RunSpec};
use crate::task;
use sandbox_podman::Owner;

/// Containers that outlive this process, from [`Sandbox::runs`](crate::Sandbox::runs). Clones are
/// cheap and equivalent.
///
/// Each method is one step of a run's life, from its creation to its removal. A table at the end
/// maps those of terok-sandbox.
///
#[doc = include_str!("guide.md")]
///
/// # Example
///
/// ```no_run
/// use std::time::Duration;
///
/// use sandbox::runs::{LifecycleHooks, RunName, RunSpec, VolumeSpec};
/// use sandbox::{ByteSize, ResourceLimits, Sandbox};
///
/// # async fn example(sandbox: Sandbox, image: sandbox::ImageTag) -> Result<(), Box<dyn std::error::Error>> {
/// let name: RunName = "build-7".parse()?;
/// let spec = RunSpec::new(name.clone(), image, ["sh", "-c", "./prepare && echo '>> init complete' && make"])
///     .volume(VolumeSpec::new("/srv/work/7", "/workspace"))
///     .working_dir("/workspace")
///     .limits(ResourceLimits::default().memory(ByteSize::gib(4)))
///     .sealed();
/// println!("$ {spec}");
/// let hooks = LifecycleHooks::default().post_stop(async |name| Ok(println!("{name} is gone")));
///
/// let runs = sandbox.runs();
/// runs.run(spec, hooks).await?;
/// let ready = runs.wait_until_ready(&name, Some(Duration::from_mins(1))).await?;
/// if ready.is_ready() {
///     let exit = runs.wait_for_exit(&name, None).await?;
///     println!("exit code {}", exit.code);
/// }
/// for result in runs.stop(&[name]).await {
///     println!("{}: removed {}", result.name, result.removed);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Runs {
    shared: Arc<Shared>,
    registry: Arc<Registry>,
}

impl Runs {
    pub(crate) fn new(shared: Arc<Shared>, registry: Arc<Registry>) -> Self {
        Self { shared, registry }
    }

    /// Creates and starts a run. Returns when its process has been started and `post_start` was
    /// called.
    ///
    /// # Errors
    ///
    /// As for [`Runs::create`] and [`Runs::start`]. Nothing is left after an error.
    pub async fn run(&self, spec: RunSpec, hooks: LifecycleHooks) -> Result<(), SandboxError> {
        let name = spec.name.clone();
        self.create(spec, hooks).await?;
        self.start(&name).await
    }

    /// Creates a run without starting it: calls `pre_start`, creates the network, proxy and
    /// container, and copies the volumes of a sealed run. Files may be copied to it until
    /// [`Runs::start`].
    ///
    /// # Errors
    ///
    /// When the specification is invalid, the name is taken, a hook fails, or the engine does not
    /// support the specification. Nothing is left then, and `post_stop` was called if `pre_start`
    /// succeeded.
    pub async fn create(&self, spec: RunSpec, mut hooks: LifecycleHooks) -> Result<(), SandboxError> {
        let resolver = task::resolver(self.shared.state_dir(), &spec.mounted_launch().mounts)?;
        let spec = spec.checked(&resolver)?;
        let name = spec.name.clone();
        let reservation = self.registry.reserve(&name)?;
        match found::one(&self.shared, &name).await {
            Err(SandboxError::Run(RunError::NotFound(_))) => {}
            Err(error) => return Err(error),
            Ok(_) => return Err(RunError::NameTaken(name).into()),
        }
        hooks.fire(HookStage::PreStart, &name).await?;
        tracing::debug!(run = %name, command = %spec, "creating");
        match launch::prepare(&self.shared, spec).await {
            Ok(prepared) => {
                reservation.fill(Stage::Created(Box::new(prepared)), hooks);
                Ok(())
            }
            Err(error) => Err(rolled_back(error, hooks, &name).await),
        }
    }

    /// Starts a run that this sandbox created, after comparing the confinement that the kernel
    /// enforces with its specification; then calls `post_start`.
    ///
    /// # Errors
    ///
    /// When it was not created by this sandbox, was started before, is being created, when the
    /// program is not in the image, when the path of a volume leads elsewhere by now, or when a
    /// hook fails. All but the first three remove the run and call `post_stop`.
    pub async fn start(&self, name: &RunName) -> Result<(), SandboxError> {
        let (reservation, prepared, mut hooks) = self.registry.begin_start(name)?;
        let live = match Box::pin(prepared.start()).await {
            Ok(live) => live,
            Err(error) => return Err(rolled_back(error, hooks, name).await),
        };
        if let Err(error) = hooks.fire(HookStage::PostStart, name).await {
            roll_back(live).await;
            return Err(rolled_back(error.into(), hooks, name).await);
        }
        reservation.fill(Stage::Live(Box::new(live)), hooks);
        Ok(())
    }

    /// Copies the file or folder `source` of the host to `target` in a run, started or not, of this
    /// or another process. An existing folder at `target` gets the contents of `source`; missing
    /// folders on the way are created. Links in `source` are copied as links; modes are kept
    /// without the set-id bits; everything belongs to root.
    ///
    /// # Errors
    ///
    /// When there is no such run; when `source` contains a socket, pipe or device, or more than 1
    /// GiB of holes, or changes meanwhile; or when `target` is not on the image's file system
    /// (files of a mount are the host's). A failed copy may be partial.
    pub async fn copy_to(&self, name: &RunName, source: &Path, target: &str) -> Result<(), SandboxError> {
        let container = match self.registry.container(name) {
            Some(container) => container,
            None => found::one(&self.shared, name).await?.summary.id,
        };
        let engine = self.shared.engine()?;
        let covered = Covered::of(&engine.inspect_container(&container).await?);
        copy::copy(engine, &container, name, &covered, Owner::OfArchive, (source, target)).await
    }

    /// Passes each line of a run's output, from the first stored one, to `ready_check`, until that
    /// returns `true`, the run ends, or `timeout` expires (`None`: no limit). The first time that a
    /// run is ready, `post_ready` is called.
    ///
    /// # Errors
    ///
    /// When there is no such run, it was not started, the engine fails, or the hook does.
    pub async fn stream_logs(
        &self,
        name: &RunName,
        timeout: Option<Duration>,
        ready_check: impl FnMut(&str) -> bool,
    ) -> Result<Readiness, SandboxError> {
        let handle = self.started(name).await?;
        let watching = output::wait_for_line(&*handle, ready_check);
        let readiness = match within(timeout, watching).await.transpose()? {
            None => Readiness::TimedOut,
            Some(true) => Readiness::Ready,
            Some(false) => Readiness::Ended,
        };
        if readiness.is_ready() {
            let mut hook = self.registry.take_hook(name, HookStage::PostReady);
            hook.fire(HookStage::PostReady, name).await?;
        }
        Ok(readiness)
    }

    /// Like [`Runs::stream_logs`], until a line contains [`READY_MARKER`].
    ///
    /// # Errors
    ///
    /// As for [`Runs::stream_logs`].
    pub async fn wait_until_ready(
        &self,
        name: &RunName,
        timeout: Option<Duration>,
    ) -> Result<Readiness, SandboxError> {
        self.stream_logs(name, timeout, |line| line.contains(READY_MARKER)).await
    }

    /// Waits for the end of a run, at most for `timeout` (`None`: no limit). The first time that an
    /// end is observed, `post_stop` is called. The container is kept until [`Runs::stop`].
    ///
    /// # Errors
    ///
    /// When there is no such run, it was not started, it did not end in time
    /// ([`RunError::StillRunning`]), or the hook fails.
    pub async fn wait_for_exit(
        &self,
        name: &RunName,
        timeout: Option<Duration>,
    ) -> Result<Exit, SandboxError> {
        let handle = self.started(name).await?;
        let exit = match (within(timeout, handle.wait()).await, timeout) {
            (Some(exit), _) => exit?,
            (None, after) => {
                return Err(
                    RunError::StillRunning { run: name.clone(), after: after.unwrap_or_default() }.into()
                );
            }
        };
        let mut hook = self.registry.take_hook(name, HookStage::PostStop);
        hook.fire(HookStage::PostStop, name).await?;
        Ok(exit)
    }

    /// Stops and removes runs of this or another process, concurrently: asks each process to end,
    /// kills it after its stop timeout, and removes container, proxy, network and folder. Returns
    /// one result each, in the order of `names`; a missing run counts as removed. A run that is
    /// being created or started is not stopped ([`RunError::Busy`]).
    pub async fn stop(&self, names: &[RunName]) -> Vec<StopResult> {
        let stops = names.iter().map(|name| stop::stop(&self.shared, &self.registry, name));
        futures_util::future::join_all(stops).await
    }

    /// Removes the runs whose instance is gone, running or not.
    ///
    /// # Errors
    ///
    /// When the engine fails to list them.
    pub async fn clean(&self) -> Result<Vec<StopResult>, SandboxError> {
        let mut results = Vec::new();
        for found in found::all(&self.shared).await? {
            if reap::is_alive(&found.labels) {
                continue;
            }
            let removed = stop::remove(&self.shared, &found).await;
            results.push(StopResult { name: found.name, removed: removed.is_ok(), error: removed.err() });
        }
        Ok(results)
    }

    /// The names of all runs of this prefix, of this process and others.
    ///
    /// # Errors
    ///
    /// When the engine fails.
    pub async fn names(&self) -> Result<Vec<RunName>, SandboxError> {
        if self.shared.launcher().is_some() {
            return Ok(self.registry.names());
        }
        let found = found::all(&self.shared).await?;
        Ok(found.into_iter().map(|found| found.name).collect())
    }

    /// The folder of a run on the host: `runs/<prefix>/<name>` below the state folder. It is
    /// created with the run and removed when the run is stopped. Without a [`RunSpec::task_dir`] it
    /// holds the network log.
    #[must_use]
    pub fn task_state_dir(&self, name: &RunName) -> PathBuf {
        task_dir::path(self.shared.state_dir(), self.shared.prefix(), name)
    }

    /// Puts `policy` in force for a run with a sandboxed network, from its next request on, like
    /// [`Command::set_policy`](crate::Command::set_policy).
    ///
    /// # Errors
    ///
    /// When this process does not hold such a network of that run, when the run is quarantined, or
    /// when its proxy does not confirm the change within 30 s.
    pub async fn set_policy(&self, name: &RunName, policy: Allowlist) -> Result<(), SandboxError> {
        let control = self.registry.control(name).ok_or(SandboxError::NotRunning)?;
        Ok(control.set_policy(policy).await?)
    }

    /// Replaces the real values behind the surrogates of a run, like
    /// [`Command::set_replacements`](crate::Command::set_replacements).
    ///
    /// # Errors
    ///
    /// As for [`Runs::set_policy`].
    pub async fn set_replacements(
        &self,
        name: &RunName,
        replacements: SecretReplacements,
    ) -> Result<(), SandboxError> {
        let control = self.registry.control(name).ok_or(SandboxError::NotRunning)?;
        Ok(control.set_replacements(replacements).await?)
    }

    /// Lowers the shield of a run with a sandboxed network for `time`, like
    /// [`Command::shield_down`](crate::Command::shield_down).
    ///
    /// # Errors
    ///
    /// As for [`Runs::set_policy`], and when `time` is shorter than a millisecond or longer than 24
    /// hours.
    pub async fn shield_down(&self, name: &RunName, time: Duration) -> Result<(), SandboxError> {
        let control = self.registry.control(name).ok_or(SandboxError::NotRunning)?;
        Ok(control.shield_down(time).await?)
    }

    /// Raises the shield of a run, like [`Command::shield_up`](crate::Command::shield_up).
    ///
    /// # Errors
    ///
    /// As for [`Runs::set_policy`].
    pub async fn shield_up(&self, name: &RunName) -> Result<(), SandboxError> {
        let control = self.registry.control(name).ok_or(SandboxError::NotRunning)?;
        Ok(control.shield_up().await?)
    }

    /// The current state of a run's shield.
    ///
    /// # Errors
    ///
    /// When this process does not hold a sandboxed network of that run.
    pub fn shield_state(&self, name: &RunName) -> Result<ShieldState, SandboxError> {
        let control = self.registry.control(name).ok_or(SandboxError::NotRunning)?;
        Ok(control.shield_state()?)
    }

    /// Cuts a run with a sandboxed network off: its connections are closed, and every further
    /// request is refused. This is irreversible.
    ///
    /// # Errors
    ///
    /// When this process does not hold such a network of that run, or its proxy does not confirm
    /// the change within 30 s.
    pub async fn quarantine(&self, name: &RunName) -> Result<(), SandboxError> {
        let control = self.registry.control(name).ok_or(SandboxError::NotRunning)?;
        Ok(control.quarantine().await?)
    }

    async fn started(&self, name: &RunName) -> Result<Arc<dyn ProgramControl>, SandboxError> {
        if let Some(handle) = self.registry.handle(name)? {
            return Ok(handle);
        }
        let found = found::one(&self.shared, name).await?;
        if !found.was_started() {
            return Err(RunError::NotStarted(name.clone()).into());
        }
        Ok(Arc::new(found.handle(self.shared.engine()?).await?))
    }
}

/// `None` on a timeout.
async fn within<T>(timeout: Option<Duration>, work: impl Future<Output = T>) -> Option<T> {
    match timeout {
        Some(timeout) => tokio::time::timeout(timeout, work).await.ok(),
        None => Some(work.await),
    }
}

/// Calls `post_stop` for a rolled back launch. Returns the first error.
async fn rolled_back(error: SandboxError, mut hooks: LifecycleHooks, name: &RunName) -> SandboxError {
    if let Err(second) = hooks.fire(HookStage::PostStop, name).await {
        tracing::warn!(run = %name, error = %second, "the post_stop hook failed after a failed launch");
    }
    error
}

async fn roll_back(live: Live) {
    if let Err(error) = live.remove().await {
        tracing::warn!(%error, "failed to remove a run after a failed launch; stop it by name");
    }
}

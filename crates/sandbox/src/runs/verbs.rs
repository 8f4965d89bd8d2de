//! The verbs.

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

/// Containers that go on without us; [`Sandbox::runs`](crate::Sandbox::runs) gives it. Cloning is cheap: all clones do the same.
///
/// Each verb is one step of a run's life, from its creation to its removal. A table at the end maps those of terok-sandbox.
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

    /// Creates and starts a run. Returns when its process was started and `post_start` was called.
    ///
    /// # Errors
    ///
    /// As [`Runs::create`] and [`Runs::start`]. Nothing is left then.
    pub async fn run(&self, spec: RunSpec, hooks: LifecycleHooks) -> Result<(), SandboxError> {
        let name = spec.name.clone();
        self.create(spec, hooks).await?;
        self.start(&name).await
    }

    /// Creates a run without starting it: calls `pre_start`, makes network, proxy and container, and copies the volumes of a sealed
    /// run. Files may be copied to it until [`Runs::start`].
    ///
    /// # Errors
    ///
    /// When the specification cannot be used, the name is taken, a hook fails, or the engine cannot do what is asked for. Nothing is left
    /// then, and `post_stop` was called if `pre_start` succeeded.
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

    /// Starts a run that this sandbox created, once what the kernel enforces for it was compared with its specification; then calls
    /// `post_start`.
    ///
    /// # Errors
    ///
    /// When it was not created by this sandbox, was started before or is just being created, the program is not in the image, the
    /// path of a volume leads elsewhere by now, or a hook fails. All but the first three remove the run; `post_stop` was called.
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

    /// Copies the file or folder `source` of the host to `target` in a run, started or not, of this process or another. A folder at
    /// `target` gets what is in `source`; folders on the way are made. Links in `source` are copied as links; access rights are kept, the
    /// set-id bits are not; everything belongs to root.
    ///
    /// # Errors
    ///
    /// When there is no such run, `source` holds a socket, pipe or device, or more than 1 GiB of holes, or is changed meanwhile, or
    /// `target` is not of the image's file system (a mount is not: its files are the host's). Of a copy that fails, a part may be there.
    pub async fn copy_to(&self, name: &RunName, source: &Path, target: &str) -> Result<(), SandboxError> {
        let container = match self.registry.container(name) {
            Some(container) => container,
            None => found::one(&self.shared, name).await?.summary.id,
        };
        let engine = self.shared.engine()?;
        let covered = Covered::of(&engine.inspect_container(&container).await?);
        copy::copy(engine, &container, name, &covered, Owner::OfArchive, (source, target)).await
    }

    /// Gives each line of a run's output, from the first that is kept on, to `ready_check`, until that says that the run is ready, the run
    /// ends, or `timeout` is over (`None`: as long as it takes). The first time that a run is ready, `post_ready` is called.
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

    /// [`Runs::stream_logs`] until a line contains [`READY_MARKER`].
    ///
    /// # Errors
    ///
    /// The same.
    pub async fn wait_until_ready(
        &self,
        name: &RunName,
        timeout: Option<Duration>,
    ) -> Result<Readiness, SandboxError> {
        self.stream_logs(name, timeout, |line| line.contains(READY_MARKER)).await
    }

    /// Waits for the end of a run, at most for `timeout` (`None`: as long as it takes). The first time that an end is seen, `post_stop`
    /// is called. The container stays until [`Runs::stop`].
    ///
    /// # Errors
    ///
    /// When there is no such run, it was not started, it has not ended in time ([`RunError::StillRunning`]), or the hook fails.
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

    /// Stops and removes runs, of this process or another, all at once: asks each process to end, kills it when its time is over, and
    /// removes container, proxy, network and folder. One result each, in the order of `names`; a run that is not there is removed. One
    /// that is just being created or started is not stopped ([`RunError::Busy`]).
    pub async fn stop(&self, names: &[RunName]) -> Vec<StopResult> {
        let stops = names.iter().map(|name| stop::stop(&self.shared, &self.registry, name));
        futures_util::future::join_all(stops).await
    }

    /// Removes the runs whose instance is gone, whether they still run or not.
    ///
    /// # Errors
    ///
    /// When the engine cannot be asked for them.
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

    /// The folder of a run on the host: `runs/<prefix>/<name>` below the state folder. It is made with the run and goes when the run is
    /// stopped; without a [`RunSpec::task_dir`] it holds the log of network events.
    #[must_use]
    pub fn task_state_dir(&self, name: &RunName) -> PathBuf {
        task_dir::path(self.shared.state_dir(), self.shared.prefix(), name)
    }

    /// Puts `policy` in force for a run with a sandboxed network, from its next request on, as
    /// [`Command::set_policy`](crate::Command::set_policy).
    ///
    /// # Errors
    ///
    /// When this process does not hold such a network of that run, it is quarantined, or its proxy does not confirm the change within 30 s.
    pub async fn set_policy(&self, name: &RunName, policy: Allowlist) -> Result<(), SandboxError> {
        let control = self.registry.control(name).ok_or(SandboxError::NotRunning)?;
        Ok(control.set_policy(policy).await?)
    }

    /// Puts other real values in the place of the surrogates that a run has, as
    /// [`Command::set_replacements`](crate::Command::set_replacements).
    ///
    /// # Errors
    ///
    /// As [`Runs::set_policy`].
    pub async fn set_replacements(
        &self,
        name: &RunName,
        replacements: SecretReplacements,
    ) -> Result<(), SandboxError> {
        let control = self.registry.control(name).ok_or(SandboxError::NotRunning)?;
        Ok(control.set_replacements(replacements).await?)
    }

    /// Lowers the shield of a run with a sandboxed network for `time`, as [`Command::shield_down`](crate::Command::shield_down).
    ///
    /// # Errors
    ///
    /// As [`Runs::set_policy`], and when `time` is shorter than a millisecond or longer than 24 hours.
    pub async fn shield_down(&self, name: &RunName, time: Duration) -> Result<(), SandboxError> {
        let control = self.registry.control(name).ok_or(SandboxError::NotRunning)?;
        Ok(control.shield_down(time).await?)
    }

    /// Raises the shield of a run again, as [`Command::shield_up`](crate::Command::shield_up).
    ///
    /// # Errors
    ///
    /// As [`Runs::set_policy`].
    pub async fn shield_up(&self, name: &RunName) -> Result<(), SandboxError> {
        let control = self.registry.control(name).ok_or(SandboxError::NotRunning)?;
        Ok(control.shield_up().await?)
    }

    /// What decides about the requests of a run now.
    ///
    /// # Errors
    ///
    /// When this process does not hold a sandboxed network of that run.
    pub fn shield_state(&self, name: &RunName) -> Result<ShieldState, SandboxError> {
        let control = self.registry.control(name).ok_or(SandboxError::NotRunning)?;
        Ok(control.shield_state()?)
    }

    /// Cuts a run with a sandboxed network off: its connections are closed, and every further request is refused. Nothing ends that.
    ///
    /// # Errors
    ///
    /// When this process does not hold such a network of that run, or its proxy does not confirm the change within 30 s.
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

/// `None` when the time is over.
async fn within<T>(timeout: Option<Duration>, work: impl Future<Output = T>) -> Option<T> {
    match timeout {
        Some(timeout) => tokio::time::timeout(timeout, work).await.ok(),
        None => Some(work.await),
    }
}

/// Calls `post_stop` for a launch that was rolled back. The first failure is the one to report.
async fn rolled_back(error: SandboxError, mut hooks: LifecycleHooks, name: &RunName) -> SandboxError {
    if let Err(second) = hooks.fire(HookStage::PostStop, name).await {
        tracing::warn!(run = %name, error = %second, "after a launch that failed");
    }
    error
}

async fn roll_back(live: Live) {
    if let Err(error) = live.remove().await {
        tracing::warn!(%error, "a run whose launch failed was not removed; stop it by name");
    }
}

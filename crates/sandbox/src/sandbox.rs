//! The façade: all operations of a sandbox.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::config::{EngineAddress, SandboxConfig};
use crate::container::{self, Launcher};
use crate::context::{Backend, Shared};
use crate::egress;
use crate::error::{ImageBuildError, SandboxError};
use crate::executor::{Executor, ExecutorConfig};
use crate::gate;
use crate::image::{self, ImageRequest, ImageTags};
use crate::image_store::{self, ImageSummary};
use crate::instance::{self, HandedOver, InstanceLock};
use crate::reap::{self, Inventory, SweepReport};
use crate::runs::{self, Runs};
use crate::spec::{CommandSpec, ImageSource, ImageTag, TaskSpec};
use crate::ssh;
use crate::task::{self, Command, Task, refuse_untrusted};
use crate::verify::{self, VerifyReport, VerifySpec};
use sandbox_files::FileLock;
use sandbox_gate::Gate;
use sandbox_podman::{Capabilities, Engine, EngineFacts};
use sandbox_ssh::{SshScope, Unlock};
use sandbox_workspace::{Patience, WorkspaceGuard};

/// At most this many processes remove what ended instances left.
const REMOVALS: usize = 4;
/// How long to wait for them. Each takes a second or two unless the engine hangs.
const REMOVAL: Duration = Duration::from_mins(2);

/// Runs tasks in containers of one engine. See the crate's example for its life cycle. A clone is
/// the same sandbox.
#[derive(Debug, Clone)]
pub struct Sandbox {
    shared: Arc<Shared>,
    runs: Arc<runs::Registry>,
}

impl Sandbox {
    /// Connects to the engine, removes leftovers of dead instances, and prepares the resources that
    /// all tasks share: the proxy's image, the root authority and the egress network. With
    /// [`SandboxConfig::on_demand`] it only connects.
    ///
    /// It takes a lock of its own, by which other instances see that this one is alive.
    ///
    /// # Errors
    ///
    /// When the configuration is invalid, the engine is unreachable or too old, `state_dir` is not
    /// writable, or a shared resource cannot be prepared. Only shared resources then remain on the
    /// engine. If the future is dropped, the next sweep removes its leftovers.
    pub async fn start(config: SandboxConfig) -> Result<Self, SandboxError> {
        config.validate()?;
        let on_demand = config.on_demand;
        let engine = Engine::connect(config.engine.socket())
            .await
            .map_err(|error| SandboxError::from(error).or_engine_not_running())?;
        let instance = InstanceLock::acquire(&config.state_dir)?;
        let engine = engine.with_seccomp_profile(&container::write_filter(&config.state_dir)?);
        let shared = Arc::new(Shared::new(config, Backend::Engine(engine), instance));
        let sandbox = Self { shared, runs: Arc::default() };
        if !on_demand {
            // Both run to completion even if the other fails.
            let (swept, prepared) =
                tokio::join!(sandbox.remove_leftovers(Patience::Start), sandbox.prepare());
            // The caller gets no report of this sweep.
            let swept = swept.map(|report| task::log_git(&report.git));
            swept.and(prepared)?;
        }
        Ok(sandbox)
    }

    /// A sandbox whose programs `launcher` launches, without podman: for tests of programs that use
    /// this crate, with a [`ScriptedEngine`](crate::launcher::ScriptedEngine), and for engines that
    /// this crate does not support. `engine`, `proxy_dir` and `upstream` of the configuration are
    /// unused. [`launcher`](crate::launcher) documents what is launched.
    ///
    /// **None of this crate's guarantees about containers and networks hold.** There is no proxy
    /// and no verification, and a program is confined only as far as `launcher` confines it. No
    /// configuration, variable or file leads here: [`Sandbox::start`] always uses podman, verified.
    ///
    /// # Errors
    ///
    /// When the configuration is invalid, or `state_dir` is not writable.
    pub fn with_launcher(
        config: SandboxConfig,
        launcher: impl Launcher + 'static,
    ) -> Result<Self, SandboxError> {
        config.validate()?;
        let instance = InstanceLock::acquire(&config.state_dir)?;
        tracing::warn!("a launcher replaces podman: programs are confined only as far as it confines them");
        let shared = Arc::new(Shared::new(config, Backend::Injected(Arc::new(launcher)), instance));
        Ok(Self { shared, runs: Arc::default() })
    }

    /// Prepares the resources that all tasks share, unless that was done. With
    /// [`SandboxConfig::on_demand`], this spares the first execution that needs a proxy the wait.
    ///
    /// # Errors
    ///
    /// When a shared resource cannot be prepared.
    pub async fn prepare(&self) -> Result<(), SandboxError> {
        if self.shared.launcher().is_some() {
            return Ok(());
        }
        Box::pin(self.shared.egress()).await.map(drop)
    }

    /// Starts proxies until `count` of them wait for a task, and returns without waiting for them.
    /// Each shortens the start of one task, command or executor by most of the time that its proxy
    /// takes. It never serves two; until it has its task, it knows nothing of one and reaches nothing.
    /// Until its task has ended, at the latest until [`shutdown`](Self::shutdown), it holds a
    /// container, a network and a few MiB. Do not call this during a shutdown, or after it.
    ///
    /// [Runs](Self::runs), builds and tasks with services of the host do not use them, nor does a
    /// sandbox [with a launcher](Self::with_launcher).
    ///
    /// # Errors
    ///
    /// As [`prepare`](Self::prepare). A proxy that fails to start counts as waiting until a task was
    /// to get it, which then starts another; the failure is logged.
    pub async fn warm(&self, count: usize) -> Result<(), SandboxError> {
        if self.shared.launcher().is_none() {
            Box::pin(self.shared.egress()).await?.warm(count);
        }
        Ok(())
    }

    /// Finds the image that tasks run in. Builds it unless there is one of the same content that is
    /// recent enough. For the network access of build steps, see [`ImageSource::with_network`].
    ///
    /// # Errors
    ///
    /// When the build fails, the engine has no image of that name, or the network log cannot be
    /// opened.
    pub async fn ensure_image<'a>(
        &self,
        request: impl Into<ImageRequest<'a>>,
    ) -> Result<ImageTag, SandboxError> {
        Box::pin(image::ensure(&self.shared, request.into())).await
    }

    /// A task that runs an agent. Nothing is started yet.
    ///
    /// # Errors
    ///
    /// When the specification is invalid, or the session folder cannot be read or created.
    pub fn create_task(&self, spec: TaskSpec) -> Result<Task, SandboxError> {
        refuse_untrusted(self.shared.state_dir(), "session_dir", &spec.session_dir)?;
        Task::new(Arc::clone(&self.shared), spec)
    }

    /// A command. Nothing is started yet.
    ///
    /// # Errors
    ///
    /// When the specification is invalid.
    pub fn create_command(&self, spec: CommandSpec) -> Result<Command, SandboxError> {
        Command::new(Arc::clone(&self.shared), spec)
    }

    /// An executor of untrusted commands. No container is created yet.
    ///
    /// # Errors
    ///
    /// When the configuration is invalid, or the program `sandbox-inside` is missing.
    pub fn create_executor(&self, config: ExecutorConfig) -> Result<Executor, SandboxError> {
        Executor::new(Arc::clone(&self.shared), config)
    }

    /// The SSH keys of the scope `name`, kept below the state folder;
    /// [`SshSigner`](crate::ssh::SshSigner) uses them. Nothing is read, created or unlocked yet.
    /// Later operations wait for other processes that use the same scope.
    ///
    /// # Errors
    ///
    /// When `name` is not a valid scope name: 1 to 64 characters of `A-Z a-z 0-9 . _ -`, the first
    /// a letter or digit.
    pub fn init_ssh(&self, name: &str, unlock: Unlock) -> Result<SshScope, SandboxError> {
        Ok(ssh::scope(self.shared.state_dir(), name, unlock)?)
    }

    /// The repositories that tasks reach as `http://gate/NAME.git`, kept below the state folder:
    /// see [`NetworkSandboxConfig::gate`](crate::NetworkSandboxConfig::gate).
    #[must_use]
    pub fn gate(&self) -> Gate {
        gate::open(self.shared.state_dir())
    }

    /// Containers that outlive this process.
    #[must_use]
    pub fn runs(&self) -> Runs {
        Runs::new(Arc::clone(&self.shared), Arc::clone(&self.runs))
    }

    /// The id of this instance, as in [`Inventory`] and in the labels of its objects.
    #[must_use]
    pub fn instance_id(&self) -> &str {
        self.shared.instance_id()
    }

    /// The tags that [`Sandbox::ensure_image`] gives `source`, built or not.
    ///
    /// # Errors
    ///
    /// When the engine fails, or has no image with that name.
    pub async fn image_tags(&self, source: &ImageSource) -> Result<ImageTags, SandboxError> {
        let id = match source {
            ImageSource::Build { .. } => String::new(),
            ImageSource::Existing(name) => {
                let image = self.shared.engine()?.image(name).await?;
                image.ok_or_else(|| ImageBuildError::NotFound { name: name.escape_debug().to_string() })?.id
            }
        };
        Ok(image::tags(self.shared.prefix(), source, &id))
    }

    /// The images that were built with this prefix, oldest first.
    ///
    /// # Errors
    ///
    /// When the engine fails.
    pub async fn list_images(&self) -> Result<Vec<ImageSummary>, SandboxError> {
        Ok(image_store::list(self.shared.engine()?, self.shared.prefix()).await?)
    }

    /// Removes the images of this prefix that are older than `age` or were replaced, and returns
    /// them. Images in use are kept; it waits for removals as [`sweep`](Self::sweep) does.
    ///
    /// # Errors
    ///
    /// When the engine fails.
    pub async fn prune_images(&self, age: Duration) -> Result<Vec<ImageSummary>, SandboxError> {
        self.wait_for_removals().await;
        Ok(image_store::prune(self.shared.engine()?, self.shared.prefix(), age).await?)
    }

    /// Removes the images that [`Sandbox::ensure_image`] built for `source`, and returns the tags
    /// that existed. An image that was not built here is kept; only the layer that was added to it
    /// is removed.
    ///
    /// # Errors
    ///
    /// When the engine fails, or a container uses the image.
    pub async fn remove_image(&self, source: &ImageSource) -> Result<Vec<String>, SandboxError> {
        let tags = match self.image_tags(source).await {
            Err(SandboxError::ImageBuild(ImageBuildError::NotFound { .. })) => return Ok(Vec::new()),
            tags => tags?,
        };
        let mut removed = Vec::new();
        self.wait_for_removals().await;
        // An overlay is removed before its base.
        for tag in [Some(tags.overlay), tags.repo].into_iter().flatten() {
            if self.shared.engine()?.image(&tag).await?.is_some() {
                self.shared.engine()?.remove_image(&tag).await?;
                removed.push(tag);
            }
        }
        Ok(removed)
    }

    /// Writes the images `tags` to one archive, for [`Sandbox::load_images`] on another machine.
    ///
    /// # Errors
    ///
    /// When an image is missing, or the engine or `writer` fails.
    pub async fn save_images(
        &self,
        tags: &[&str],
        writer: &mut (dyn AsyncWrite + Send + Unpin),
    ) -> Result<(), SandboxError> {
        Ok(image::save(self.shared.engine()?, tags, writer).await?)
    }

    /// Loads the images of an archive and returns their tags.
    ///
    /// # Errors
    ///
    /// When the engine or `reader` fails, or the input is not such an archive.
    pub async fn load_images(
        &self,
        reader: impl AsyncRead + Send + Unpin + 'static,
    ) -> Result<Vec<String>, SandboxError> {
        Ok(image::load(self.shared.engine()?, reader).await?)
    }

    /// Verifies from inside of containers that the sandbox keeps its guarantees, on this engine and
    /// in the image of `spec`.
    ///
    /// # Errors
    ///
    /// When the specification is invalid, the program `sandbox-inside` is missing, or a container
    /// cannot be launched. A guarantee that does not hold is in the report.
    pub async fn verify(&self, spec: VerifySpec) -> Result<VerifyReport, SandboxError> {
        verify::verify(&self.shared, &spec).await
    }

    /// The capabilities of the engine's version. With a launcher, those of the oldest supported
    /// podman.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        let oldest = || Capabilities::new(Capabilities::OLDEST);
        self.shared.engine().map_or_else(|_| oldest(), |engine| *engine.capabilities())
    }

    /// The engine's report about itself and its host.
    ///
    /// # Errors
    ///
    /// When the engine fails.
    pub async fn engine_facts(&self) -> Result<EngineFacts, SandboxError> {
        Ok(self.shared.engine()?.facts().await?)
    }

    /// The objects on the engine with this prefix, and their owners.
    ///
    /// # Errors
    ///
    /// When the engine fails.
    pub async fn inventory(&self) -> Result<Inventory, SandboxError> {
        Ok(reap::inventory(self.shared.engine()?, self.shared.prefix()).await?)
    }

    /// Bridges that a killed podman service left on the engine's host: their names were chosen by
    /// the sandbox for networks of this engine, and no network uses them. `None` where the host's
    /// interfaces are not visible, as with a rootless engine.
    ///
    /// # Errors
    ///
    /// When the engine fails.
    pub async fn stray_bridges(&self) -> Result<Option<Vec<String>>, SandboxError> {
        Ok(egress::stray_bridges(self.shared.engine()?).await?)
    }

    /// Waits at most two minutes for [removals](Self::remove_handed_over) by other processes, then
    /// removes leftovers of dead instances, and the egress network when no instance uses it: this
    /// one uses it from its first proxy, or [`prepare`](Self::prepare), to its
    /// [`shutdown`](Self::shutdown). [`Sandbox::start`] does not wait, and keeps the network.
    ///
    /// # Errors
    ///
    /// When the engine fails.
    pub async fn sweep(&self) -> Result<SweepReport, SandboxError> {
        self.wait_for_removals().await;
        let mut report = self.remove_leftovers(Patience::Whole).await?;
        report.networks.extend(self.shared.remove_unused_network().await?);
        Ok(report)
    }

    async fn wait_for_removals(&self) {
        // Whether one succeeds or dies, its lock is free then.
        let removals = instance::removals(self.shared.state_dir()).into_iter().map(FileLock::shared_on);
        let _ = tokio::time::timeout(REMOVAL, futures_util::future::join_all(removals)).await;
    }

    /// Removes leftovers of dead instances, bounded in time, for use before other work. Repositories
    /// whose import takes more than 30 seconds, or took more than five to fail before, are left to
    /// [`sweep`](Self::sweep).
    ///
    /// # Errors
    ///
    /// When the engine fails.
    pub async fn sweep_at_start(&self) -> Result<SweepReport, SandboxError> {
        self.remove_leftovers(Patience::Start).await
    }

    /// Removes leftovers of dead instances.
    async fn remove_leftovers(&self, patience: Patience) -> Result<SweepReport, SandboxError> {
        self.shared.remove_old_files();
        let Ok(engine) = self.shared.engine() else {
            return Ok(SweepReport::default());
        };
        let mut report = reap::sweep(engine, self.shared.prefix()).await?;
        // Something may still write where a removal failed; do not import from there.
        if report.failed.is_empty() {
            report.git = WorkspaceGuard::recover(self.shared.all_views(), patience).await?;
        }
        Ok(report)
    }

    /// Removes the resources that all instances share and the next start creates again: the egress
    /// network, the images of proxies and the trust files of images. Returns `false`, without
    /// removing them, while another instance is alive.
    ///
    /// The root authority is kept.
    ///
    /// # Errors
    ///
    /// When the engine fails.
    pub async fn remove_shared(&self) -> Result<bool, SandboxError> {
        let shared = &self.shared;
        Ok(egress::remove_shared(shared.engine()?, shared.config(), &shared.labels("")).await?)
    }

    /// Like [`shutdown`](Self::shutdown), but leaves the removal of dead containers and their networks
    /// to another process, to which the caller passes the returned file, for example as its stdin,
    /// and which calls [`remove_handed_over`](Self::remove_handed_over). As long as either has it
    /// open, this instance counts as alive; if both end before the removal, the next start removes
    /// the objects. Returns `None` when nothing is left: this removes what may not be dead, and also
    /// everything while four other processes with the same `state_dir` are removing.
    ///
    /// Only useful with [`SandboxConfig::remove_at_shutdown`]. Do not use the sandbox afterwards: the
    /// removal would include later executions.
    ///
    /// # Errors
    ///
    /// When something could not be removed; the next start removes it.
    pub async fn hand_over(&self) -> Result<Option<HandedOver>, SandboxError> {
        self.shared.stop_all().await;
        self.shared.wait_for_cleanups().await;
        let is_busy = instance::removals(self.shared.state_dir()).len() >= REMOVALS;
        let handed_over = if is_busy { Ok(None) } else { self.shared.hand_over() };
        if let Err(error) = &handed_over {
            tracing::warn!(%error, "failed to leave the removal to another process; removing now");
        }
        let Ok(Some(handed_over)) = handed_over else {
            return self.shutdown().await.map(|()| None);
        };
        self.runs.release();
        self.shared.release_egress();
        tracing::debug!("handed over");
        Ok(Some(handed_over))
    }

    /// Removes what an instance with this engine and prefix [handed over](Self::hand_over).
    ///
    /// # Errors
    ///
    /// When the engine fails; the next start removes the rest.
    pub async fn remove_handed_over(
        engine: &EngineAddress,
        prefix: &str,
        handed_over: HandedOver,
    ) -> Result<(), SandboxError> {
        let instance = InstanceLock::take_over(handed_over)?;
        let engine = Engine::connect(engine.socket()).await?;
        Ok(reap::remove_instance(&engine, prefix, instance.id()).await?)
    }

    /// Stops all executions of this instance, waits for them to end, and removes everything that it
    /// created, except for the resources that all instances with its prefix share: later ones find
    /// the egress network, which [`sweep`](Self::sweep) removes, and those that
    /// [`remove_shared`](Self::remove_shared) removes. Started runs continue, without the networks
    /// that this instance sandboxed.
    ///
    /// # Errors
    ///
    /// When something could not be removed; the next start removes it.
    pub async fn shutdown(&self) -> Result<(), SandboxError> {
        self.shared.stop_all().await;
        self.shared.wait_for_cleanups().await;
        self.runs.release();
        let removed = match self.shared.engine() {
            Ok(engine) if self.shared.is_unsettled() => {
                reap::remove_instance(engine, self.shared.prefix(), self.shared.instance_id()).await
            }
            _ => Ok(()),
        };
        self.shared.release_egress();
        Ok(removed?)
    }
}

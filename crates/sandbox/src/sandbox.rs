//! The façade: what a caller can do with a sandbox.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::config::SandboxConfig;
use crate::container::{self, Launcher};
use crate::context::{Backend, Shared};
use crate::egress;
use crate::error::{ImageBuildError, SandboxError};
use crate::executor::{Executor, ExecutorConfig};
use crate::gate;
use crate::image::{self, ImageRequest, ImageTags};
use crate::image_store::{self, ImageSummary};
use crate::instance::InstanceLock;
use crate::reap::{self, Inventory, SweepReport};
use crate::runs::{self, Runs};
use crate::spec::{CommandSpec, ImageSource, ImageTag, TaskSpec};
use crate::ssh;
use crate::task::{self, Command, Task, refuse_untrusted};
use crate::verify::{self, VerifyReport, VerifySpec};
use sandbox_gate::Gate;
use sandbox_podman::{Capabilities, Engine, EngineFacts};
use sandbox_ssh::{SshScope, Unlock};
use sandbox_workspace::{Patience, WorkspaceGuard};

/// Runs tasks in containers of one engine. See the crate's example for its life. A clone is the
/// same sandbox.
#[derive(Debug, Clone)]
pub struct Sandbox {
    shared: Arc<Shared>,
    runs: Arc<runs::Registry>,
}

impl Sandbox {
    /// Connects to the engine, removes what dead instances left, and prepares what all tasks share:
    /// the proxy's image, the root authority and the egress network. With
    /// [`SandboxConfig::on_demand`] it only connects.
    ///
    /// It takes a lock of its own, which shows other instances that this one lives.
    ///
    /// # Errors
    ///
    /// When the configuration cannot be used, the engine cannot be reached or is too old,
    /// `state_dir` cannot be written, or something cannot be prepared. Nothing is left on the
    /// engine then but the proxy's image; what a future that was dropped leaves, the next sweep
    /// removes.
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
            // Neither is dropped half done when the other fails.
            let (swept, prepared) = tokio::join!(sandbox.remove_left(Patience::Start), sandbox.prepare());
            // The caller gets no report of it.
            let swept = swept.map(|report| task::log_git(&report.git));
            if let Err(error) = swept.and(prepared) {
                if let Err(left) = sandbox.shared.stop_egress().await {
                    tracing::warn!(error = %left, "the egress network was not removed; the next sweep removes it");
                }
                return Err(error);
            }
        }
        Ok(sandbox)
    }

    /// A sandbox whose programs `launcher` launches, and no podman: for tests of programs that use
    /// this crate, with a [`ScriptedEngine`](crate::launcher::ScriptedEngine), and for engines that
    /// this crate does not know. Of the configuration, `engine`, `proxy_dir` and `upstream` are not
    /// used. What is launched, and what is not, is said in [`launcher`](crate::launcher).
    ///
    /// **It keeps none of the promises of this crate about containers and networks.** It has no
    /// proxy, verifies nothing, and confines a program as far as `launcher` does. No configuration,
    /// variable or file leads here: [`Sandbox::start`] always is podman, verified.
    ///
    /// # Errors
    ///
    /// When the configuration cannot be used, or `state_dir` cannot be written.
    pub fn with_launcher(
        config: SandboxConfig,
        launcher: impl Launcher + 'static,
    ) -> Result<Self, SandboxError> {
        config.validate()?;
        let instance = InstanceLock::acquire(&config.state_dir)?;
        tracing::warn!("a launcher stands in the place of podman: programs are confined as far as it does");
        let shared = Arc::new(Shared::new(config, Backend::Injected(Arc::new(launcher)), instance));
        Ok(Self { shared, runs: Arc::default() })
    }

    /// Prepares what all tasks share, unless that was done: with [`SandboxConfig::on_demand`], the
    /// first execution that needs a proxy need not wait for it then.
    ///
    /// # Errors
    ///
    /// When something cannot be prepared.
    pub async fn prepare(&self) -> Result<(), SandboxError> {
        if self.shared.launcher().is_some() {
            return Ok(());
        }
        Box::pin(self.shared.egress()).await.map(drop)
    }

    /// Finds the image that tasks run in, and builds it unless one of the same content and young
    /// enough is there. What the steps of a build may reach says [`ImageSource::with_network`].
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

    /// A task that runs Claude Code. Nothing is started yet.
    ///
    /// # Errors
    ///
    /// When the specification cannot be used, or the session folder cannot be read or made.
    pub fn create_task(&self, spec: TaskSpec) -> Result<Task, SandboxError> {
        refuse_untrusted(self.shared.state_dir(), "session_dir", &spec.session_dir)?;
        Task::new(Arc::clone(&self.shared), spec)
    }

    /// A command. Nothing is started yet.
    ///
    /// # Errors
    ///
    /// When the specification cannot be used.
    pub fn create_command(&self, spec: CommandSpec) -> Result<Command, SandboxError> {
        Command::new(Arc::clone(&self.shared), spec)
    }

    /// An executor of untrusted commands. No container is made yet.
    ///
    /// # Errors
    ///
    /// When the configuration cannot be used, or the program `sandbox-inside` is missing.
    pub fn create_executor(&self, config: ExecutorConfig) -> Result<Executor, SandboxError> {
        Executor::new(Arc::clone(&self.shared), config)
    }

    /// The SSH keys of the scope `name`, kept below the state folder: see
    /// [`SshSigner`](crate::ssh::SshSigner) for what uses them. Nothing is read, made or unlocked
    /// yet; what another process does with the same scope at the same time is waited for.
    ///
    /// # Errors
    ///
    /// When `name` is not the name of a scope: 1 to 64 characters of `A-Z a-z 0-9 . _ -`, the first
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

    /// Containers that go on without us.
    #[must_use]
    pub fn runs(&self) -> Runs {
        Runs::new(Arc::clone(&self.shared), Arc::clone(&self.runs))
    }

    /// The id of this instance, as [`Inventory`] and the labels of its objects have it.
    #[must_use]
    pub fn instance_id(&self) -> &str {
        self.shared.instance_id()
    }

    /// The tags that [`Sandbox::ensure_image`] gives `source`, built or not.
    ///
    /// # Errors
    ///
    /// When the engine fails, or has no image of that name.
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

    /// The images that were built under this prefix, oldest first.
    ///
    /// # Errors
    ///
    /// When the engine fails.
    pub async fn list_images(&self) -> Result<Vec<ImageSummary>, SandboxError> {
        Ok(image_store::list(self.shared.engine()?, self.shared.prefix()).await?)
    }

    /// Removes the images of this prefix that are older than `age` or were replaced, and returns
    /// which. Images in use stay.
    ///
    /// # Errors
    ///
    /// When the engine fails.
    pub async fn prune_images(&self, age: Duration) -> Result<Vec<ImageSummary>, SandboxError> {
        Ok(image_store::prune(self.shared.engine()?, self.shared.prefix(), age).await?)
    }

    /// Removes what [`Sandbox::ensure_image`] made of `source`, and returns the tags that were
    /// there. An image that was not built here stays; only what was put on it goes.
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
        // An overlay goes before what it is built on.
        for tag in [Some(tags.overlay), tags.repo].into_iter().flatten() {
            if self.shared.engine()?.image(&tag).await?.is_some() {
                self.shared.engine()?.remove_image(&tag).await?;
                removed.push(tag);
            }
        }
        Ok(removed)
    }

    /// Writes one archive of the images `tags`, for [`Sandbox::load_images`] on another machine.
    ///
    /// # Errors
    ///
    /// When an image is not there, the engine fails, or `writer` does.
    pub async fn save_images(
        &self,
        tags: &[&str],
        writer: &mut (dyn AsyncWrite + Send + Unpin),
    ) -> Result<(), SandboxError> {
        Ok(image::save(self.shared.engine()?, tags, writer).await?)
    }

    /// Loads the images of an archive; returns their tags.
    ///
    /// # Errors
    ///
    /// When the engine fails, `reader` does, or it is not such an archive.
    pub async fn load_images(
        &self,
        reader: impl AsyncRead + Send + Unpin + 'static,
    ) -> Result<Vec<String>, SandboxError> {
        Ok(image::load(self.shared.engine()?, reader).await?)
    }

    /// Looks from inside of containers whether the sandbox keeps its promises, on this engine and
    /// in the image of `spec`.
    ///
    /// # Errors
    ///
    /// When the specification cannot be used, the program `sandbox-inside` is missing, or a
    /// container could not be launched. A guarantee that does not hold is in the report.
    pub async fn verify(&self, spec: VerifySpec) -> Result<VerifyReport, SandboxError> {
        verify::verify(&self.shared, &spec).await
    }

    /// What the engine's version can do. With a launcher in its place, what the oldest podman can.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        let oldest = || Capabilities::new(Capabilities::OLDEST);
        self.shared.engine().map_or_else(|_| oldest(), |engine| *engine.capabilities())
    }

    /// What the engine says about itself and its host.
    ///
    /// # Errors
    ///
    /// When the engine fails.
    pub async fn engine_facts(&self) -> Result<EngineFacts, SandboxError> {
        Ok(self.shared.engine()?.facts().await?)
    }

    /// What exists on the engine under this prefix, and whose it is.
    ///
    /// # Errors
    ///
    /// When the engine fails.
    pub async fn inventory(&self) -> Result<Inventory, SandboxError> {
        Ok(reap::inventory(self.shared.engine()?, self.shared.prefix()).await?)
    }

    /// Bridges on the engine's host that a killed podman service left: they have a name that the
    /// sandbox chose for a network of this engine, and no network has them. `None` where the host's
    /// interfaces cannot be seen, as with an engine without root.
    ///
    /// # Errors
    ///
    /// When the engine fails.
    pub async fn stray_bridges(&self) -> Result<Option<Vec<String>>, SandboxError> {
        Ok(egress::stray_bridges(self.shared.engine()?).await?)
    }

    /// Removes what dead instances left, and the egress network when no instance uses it.
    /// [`Sandbox::start`] removes the former too.
    ///
    /// # Errors
    ///
    /// When the engine fails.
    pub async fn sweep(&self) -> Result<SweepReport, SandboxError> {
        self.sweep_with(Patience::Whole).await
    }

    /// The same before something else begins, which does not wait for long: of what tasks did in
    /// repositories, it leaves to [`sweep`](Self::sweep) what takes more than 30 seconds to be
    /// imported, and what took more than five to fail before.
    ///
    /// # Errors
    ///
    /// When the engine fails.
    pub async fn sweep_at_start(&self) -> Result<SweepReport, SandboxError> {
        self.sweep_with(Patience::Start).await
    }

    async fn sweep_with(&self, patience: Patience) -> Result<SweepReport, SandboxError> {
        let mut report = self.remove_left(patience).await?;
        report.networks.extend(self.shared.remove_unused_network().await?);
        Ok(report)
    }

    /// Removes what dead instances left.
    async fn remove_left(&self, patience: Patience) -> Result<SweepReport, SandboxError> {
        self.shared.remove_old_files();
        let Ok(engine) = self.shared.engine() else {
            return Ok(SweepReport::default());
        };
        let mut report = reap::sweep(engine, self.shared.prefix()).await?;
        // What may still be written is not imported.
        if report.failed.is_empty() {
            report.git = WorkspaceGuard::recover(self.shared.all_views(), patience).await?;
        }
        Ok(report)
    }

    /// Removes what all instances share and the next start-up makes again: the egress network, the
    /// images of proxies and the trust files of images. Returns whether it did: it does not while
    /// another instance lives.
    ///
    /// The root authority stays.
    ///
    /// # Errors
    ///
    /// When the engine fails.
    pub async fn remove_shared(&self) -> Result<bool, SandboxError> {
        let shared = &self.shared;
        Ok(egress::remove_shared(shared.engine()?, shared.config(), &shared.labels("")).await?)
    }

    /// Stops all executions of this instance, waits for their ends, and removes everything it made;
    /// the egress network too, when no other instance uses it. Runs that were started go on,
    /// without the networks that this instance sandboxed.
    ///
    /// # Errors
    ///
    /// When something could not be removed; the next start-up removes it.
    pub async fn shutdown(&self) -> Result<(), SandboxError> {
        self.shared.stop_all().await;
        self.shared.wait_for_cleanups().await;
        self.runs.release();
        if let Ok(engine) = self.shared.engine() {
            reap::remove_instance(engine, self.shared.prefix(), self.shared.instance_id()).await?;
        }
        self.shared.stop_egress().await
    }
}

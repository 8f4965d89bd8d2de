//! The façade: what a caller can do with a sandbox.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::config::SandboxConfig;
use crate::container;
use crate::context::Shared;
use crate::egress;
use crate::engine::{Capabilities, Engine, EngineFacts};
use crate::error::{ImageBuildError, SandboxError};
use crate::executor::{Executor, ExecutorConfig};
use crate::image::{self, ImageTags};
use crate::image_store::{self, ImageSummary};
use crate::reap::{self, InstanceLock, Inventory, SweepReport};
use crate::runs::{self, Runs};
use crate::spec::{CommandSpec, ImageSource, ImageTag, TaskSpec};
use crate::task::{Command, Task, refuse_untrusted};
use crate::verify::{self, VerifyReport, VerifySpec};

/// Runs tasks in containers of one engine. See the crate's example for its life. A clone is the same sandbox.
#[derive(Debug, Clone)]
pub struct Sandbox {
    shared: Arc<Shared>,
    runs: Arc<runs::Registry>,
}

impl Sandbox {
    /// Connects to the engine, removes what dead instances left, and prepares what all tasks share: the proxy's image, the root authority
    /// and the egress network.
    ///
    /// # Errors
    ///
    /// When the configuration cannot be used, the engine cannot be reached or is too old, `state_dir` cannot be written, or something cannot
    /// be prepared. Nothing is left on the engine then but the proxy's image.
    pub async fn start(config: SandboxConfig) -> Result<Self, SandboxError> {
        let sandbox = Self::connect(config).await?;
        sandbox.startup().await?;
        Ok(sandbox)
    }

    /// Connects to the engine and prepares nothing: to look at what is there, to clean it, or to build an image while [`Sandbox::startup`]
    /// runs. Executions work all the same; the first that needs a proxy prepares what they share.
    ///
    /// It takes a lock of its own, which tells other instances that this one lives.
    ///
    /// # Errors
    ///
    /// When the configuration cannot be used, the engine cannot be reached or is too old, or `state_dir` cannot be written.
    pub async fn connect(config: SandboxConfig) -> Result<Self, SandboxError> {
        config.validate()?;
        let engine = Engine::connect(&config.engine)
            .await
            .map_err(|error| SandboxError::from(error).or_engine_not_running())?;
        let instance = InstanceLock::acquire(&config.state_dir)?;
        let engine = engine.with_filter(&container::write_filter(&config.state_dir)?);
        Ok(Self {
            shared: Arc::new(Shared::new(config, engine, instance)),
            runs: Arc::default(),
        })
    }

    /// What [`Sandbox::start`] does after [`Sandbox::connect`]; tells what dead instances had left.
    ///
    /// # Errors
    ///
    /// When something cannot be prepared. Nothing is left on the engine then but the proxy's image; after a future that was dropped,
    /// [`Sandbox::shutdown`] sees to that.
    pub async fn startup(&self) -> Result<SweepReport, SandboxError> {
        let shared = &self.shared;
        let swept = async {
            reap::sweep(shared.engine(), shared.prefix())
                .await
                .map_err(SandboxError::from)
        };
        shared.remove_old_files();
        // Neither is dropped half done when the other fails.
        match tokio::join!(swept, Box::pin(shared.egress())) {
            (Ok(swept), Ok(_)) => Ok(swept),
            (Err(error), Ok(egress)) => {
                if let Err(left) = egress.shutdown().await {
                    tracing::warn!(error = %left, "the egress network is left behind; a sweep removes it");
                }
                Err(error)
            }
            (_, Err(error)) => Err(error),
        }
    }

    /// Builds an image for tasks, or finds the one that was built before. What the steps of the build may reach says
    /// [`ImageSource::with_network`].
    ///
    /// # Errors
    ///
    /// When the build fails.
    pub async fn ensure_image(&self, source: &ImageSource) -> Result<ImageTag, SandboxError> {
        self.ensure_image_with(source, |_| {}).await
    }

    /// Likewise; `on_line` gets each line of the build's output as it comes.
    ///
    /// # Errors
    ///
    /// When the build fails.
    pub async fn ensure_image_with(
        &self,
        source: &ImageSource,
        on_line: impl FnMut(&str) + Send,
    ) -> Result<ImageTag, SandboxError> {
        Box::pin(image::ensure(&self.shared, source, None, on_line)).await
    }

    /// Likewise; what the steps of the build do on the network is appended to the log in the folder `network_log_dir`, which
    /// [`NetworkLog`](crate::network::NetworkLog) reads. A build without a proxy does not touch the folder.
    ///
    /// # Errors
    ///
    /// When the build fails, or the log cannot be opened.
    pub async fn ensure_image_logged(
        &self,
        source: &ImageSource,
        network_log_dir: &Path,
        on_line: impl FnMut(&str) + Send,
    ) -> Result<ImageTag, SandboxError> {
        Box::pin(image::ensure(
            &self.shared,
            source,
            Some(network_log_dir),
            on_line,
        ))
        .await
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

    /// An executor of commands that nobody vouches for. No container is made yet.
    ///
    /// # Errors
    ///
    /// When the configuration cannot be used, or the program `sandbox-inside` is missing.
    pub fn create_executor(&self, config: ExecutorConfig) -> Result<Executor, SandboxError> {
        Executor::new(Arc::clone(&self.shared), config)
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
                let image = self.shared.engine().image(name).await?;
                image
                    .ok_or_else(|| ImageBuildError::NotFound {
                        name: name.escape_debug().to_string(),
                    })?
                    .id
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
        Ok(image_store::list(self.shared.engine(), self.shared.prefix()).await?)
    }

    /// Removes the images of this prefix that are older than `age` or were replaced, and tells which. Images in use stay.
    ///
    /// # Errors
    ///
    /// When the engine fails.
    pub async fn prune_images(&self, age: Duration) -> Result<Vec<ImageSummary>, SandboxError> {
        Ok(image_store::prune(self.shared.engine(), self.shared.prefix(), age).await?)
    }

    /// Removes what [`Sandbox::ensure_image`] made of `source`, and tells the tags that were there. An image that was not built here stays;
    /// only what was put on it goes.
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
        // An overlay goes before what it stands on.
        for tag in [Some(tags.overlay), tags.repo].into_iter().flatten() {
            if self.shared.engine().image(&tag).await?.is_some() {
                self.shared.engine().remove_image(&tag).await?;
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
        Ok(image::save(self.shared.engine(), tags, writer).await?)
    }

    /// Loads the images of an archive; returns their tags.
    ///
    /// # Errors
    ///
    /// When the engine fails, `reader` does, or it is no such archive.
    pub async fn load_images(
        &self,
        reader: impl AsyncRead + Send + Unpin + 'static,
    ) -> Result<Vec<String>, SandboxError> {
        Ok(image::load(self.shared.engine(), reader).await?)
    }

    /// Looks from inside of containers whether the sandbox keeps its promises, on this engine and in the image of `spec`.
    ///
    /// # Errors
    ///
    /// When the specification cannot be used, the program `sandbox-inside` is missing, or a container could not be launched. A guarantee that does not hold
    /// is in the report.
    pub async fn verify(&self, spec: VerifySpec) -> Result<VerifyReport, SandboxError> {
        verify::verify(&self.shared, &spec).await
    }

    /// What the engine's version can do.
    #[must_use]
    pub fn capabilities(&self) -> &Capabilities {
        self.shared.engine().capabilities()
    }

    /// What the engine says about itself and its host.
    ///
    /// # Errors
    ///
    /// When the engine fails.
    pub async fn engine_facts(&self) -> Result<EngineFacts, SandboxError> {
        Ok(self.shared.engine().facts().await?)
    }

    /// What exists on the engine under this prefix, and whose it is.
    ///
    /// # Errors
    ///
    /// When the engine fails.
    pub async fn inventory(&self) -> Result<Inventory, SandboxError> {
        Ok(reap::inventory(self.shared.engine(), self.shared.prefix()).await?)
    }

    /// Bridges on the engine's host that a killed podman service left: they have a name that the sandbox chose for a network of this engine,
    /// and no network has them. `None` where the host's interfaces cannot be seen, as with an engine without root.
    ///
    /// # Errors
    ///
    /// When the engine fails.
    pub async fn stray_bridges(&self) -> Result<Option<Vec<String>>, SandboxError> {
        Ok(self.shared.engine().stray_bridges().await?)
    }

    /// Removes what dead instances left, and the egress network when no instance uses it. [`Sandbox::startup`] removes the former too.
    ///
    /// # Errors
    ///
    /// When the engine fails.
    pub async fn sweep(&self) -> Result<SweepReport, SandboxError> {
        let shared = &self.shared;
        shared.remove_old_files();
        let mut report = reap::sweep(shared.engine(), shared.prefix()).await?;
        report.networks.extend(shared.remove_unused_network().await?);
        Ok(report)
    }

    /// Removes what all instances share and the next start-up makes anew: the egress network and the trust files of images. Tells
    /// whether it did: it does not while another instance lives.
    ///
    /// The root authority stays.
    ///
    /// # Errors
    ///
    /// When the engine fails.
    pub async fn remove_shared(&self) -> Result<bool, SandboxError> {
        let shared = &self.shared;
        Ok(egress::remove_shared(shared.engine(), shared.config(), &shared.labels("")).await?)
    }

    /// Stops all executions of this instance, waits for their ends, and removes everything it made; the egress network too,
    /// when no other instance uses it. Runs that were started go on, without the networks that this instance sandboxed.
    ///
    /// # Errors
    ///
    /// When something could not be removed; the next start-up removes it.
    pub async fn shutdown(&self) -> Result<(), SandboxError> {
        self.shared.stop_all().await;
        self.shared.wait_for_take_downs().await;
        self.runs.release();
        reap::remove_instance(
            self.shared.engine(),
            self.shared.prefix(),
            self.shared.instance_id(),
        )
        .await?;
        self.shared.stop_egress().await
    }
}

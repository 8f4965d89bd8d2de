//! The façade: shared infrastructure, and the tasks that use it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::OnceCell;
use tokio::task::{JoinError, JoinSet};

use crate::config::SandboxConfig;
use crate::container::{self, Handle, OwnFiles};
use crate::egress::{self, Egress, RunningProxy};
use crate::engine::{Capabilities, Engine, EngineFacts};
use crate::error::SandboxError;
use crate::executor::{Executor, ExecutorConfig};
use crate::image::{self, ImageBuildError, ImageSummary, ImageTags};
use crate::reap::{self, InstanceLock, Inventory, Labels, Role, SweepReport};
use crate::runs::{self, Runs};
use crate::spec::{CommandSpec, ImageSource, ImageTag, ObjectId, TaskSpec};
use crate::task::{Command, StopSwitch, Task, refuse_untrusted, take_down};
use crate::verify::{self, VerifyReport, VerifySpec};

/// Runs tasks in containers of one engine. See the crate's example for its life.
#[derive(Debug)]
pub struct Sandbox {
    shared: Arc<Shared>,
}

impl Sandbox {
    /// Connects to the engine and takes a lock of its own, which tells other instances that this one lives.
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
        })
    }

    /// Prepares what all tasks share: removes what dead instances left, makes the proxy's image, the root authority and the
    /// egress network. Must come before [`Sandbox::create_task`] with a network.
    ///
    /// # Errors
    ///
    /// When any of these steps fails. Nothing is left on the engine then but the proxy's image; after a future that was dropped,
    /// [`Sandbox::shutdown`] sees to that.
    pub async fn startup(&self) -> Result<SweepReport, SandboxError> {
        let shared = &self.shared;
        let swept = async {
            reap::sweep(&shared.engine, &shared.config.prefix)
                .await
                .map_err(SandboxError::from)
        };
        shared.remove_old_files();
        // Neither is dropped half done when the other fails.
        match tokio::join!(swept, Box::pin(shared.started_egress())) {
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
    /// [`ImageSource::with_network`]; needs no [`Sandbox::startup`].
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
    /// [`NetworkLog`](crate::NetworkLog) reads. A build without a proxy does not touch the folder.
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
        Runs::new(Arc::clone(&self.shared))
    }

    /// The id of this instance, as [`Inventory`] and the labels of its objects have it.
    #[must_use]
    pub fn instance_id(&self) -> &str {
        self.shared.instance.id()
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
                let image = self.shared.engine.image(name).await?;
                image
                    .ok_or_else(|| ImageBuildError::NotFound {
                        name: name.escape_debug().to_string(),
                    })?
                    .id
            }
        };
        Ok(image::tags(&self.shared.config.prefix, source, &id))
    }

    /// The images that were built under this prefix, oldest first.
    ///
    /// # Errors
    ///
    /// When the engine fails.
    pub async fn list_images(&self) -> Result<Vec<ImageSummary>, SandboxError> {
        Ok(image::list(&self.shared.engine, &self.shared.config.prefix).await?)
    }

    /// Removes the images of this prefix that are older than `age` or were replaced, and tells which. Images in use stay.
    ///
    /// # Errors
    ///
    /// When the engine fails.
    pub async fn prune_images(&self, age: Duration) -> Result<Vec<ImageSummary>, SandboxError> {
        Ok(image::prune(&self.shared.engine, &self.shared.config.prefix, age).await?)
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
            if self.shared.engine.image(&tag).await?.is_some() {
                self.shared.engine.remove_image(&tag).await?;
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
        Ok(image::save(&self.shared.engine, tags, writer).await?)
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
        Ok(image::load(&self.shared.engine, reader).await?)
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
        self.shared.engine.capabilities()
    }

    /// What the engine says about itself and its host.
    ///
    /// # Errors
    ///
    /// When the engine fails.
    pub async fn engine_facts(&self) -> Result<EngineFacts, SandboxError> {
        Ok(self.shared.engine.facts().await?)
    }

    /// What exists on the engine under this prefix, and whose it is.
    ///
    /// # Errors
    ///
    /// When the engine fails.
    pub async fn inventory(&self) -> Result<Inventory, SandboxError> {
        Ok(reap::inventory(&self.shared.engine, &self.shared.config.prefix).await?)
    }

    /// Bridges on the engine's host that a killed podman service left: they have a name that the sandbox chose for a network of this engine,
    /// and no network has them. `None` where the host's interfaces cannot be seen, as with an engine without root.
    ///
    /// # Errors
    ///
    /// When the engine fails.
    pub async fn stray_bridges(&self) -> Result<Option<Vec<String>>, SandboxError> {
        Ok(self.shared.engine.stray_bridges().await?)
    }

    /// Removes what dead instances left, and the egress network when no instance uses it. [`Sandbox::startup`] removes the former too.
    ///
    /// # Errors
    ///
    /// When the engine fails.
    pub async fn sweep(&self) -> Result<SweepReport, SandboxError> {
        let shared = &self.shared;
        shared.remove_old_files();
        let mut report = reap::sweep(&shared.engine, &shared.config.prefix).await?;
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
        Ok(egress::remove_shared(&shared.engine, &shared.config, &shared.labels("")).await?)
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
        self.shared.runs.release();
        reap::remove_instance(
            &self.shared.engine,
            &self.shared.config.prefix,
            self.shared.instance.id(),
        )
        .await?;
        match self.shared.egress.get() {
            Some(egress) => egress.shutdown().await?,
            None if self.shared.begun.load(Ordering::Relaxed) => {
                self.shared.remove_unused_network().await?;
            }
            None => {}
        }
        Ok(())
    }
}

/// What tasks need of their sandbox.
pub(crate) struct Shared {
    config: SandboxConfig,
    engine: Engine,
    instance: InstanceLock,
    egress: OnceCell<Egress>,
    /// Whether its start was begun, whatever became of it.
    begun: AtomicBool,
    /// The switches of tasks that exist, so that a shutdown can stop them. Locked for single operations only.
    switches: Mutex<Vec<Weak<StopSwitch>>>,
    /// Executions being taken down in the background. Locked for single operations only.
    take_downs: Mutex<JoinSet<Result<(), SandboxError>>>,
    runs: runs::Registry,
}

impl Shared {
    fn new(config: SandboxConfig, engine: Engine, instance: InstanceLock) -> Self {
        Self {
            config,
            engine,
            instance,
            egress: OnceCell::new(),
            begun: AtomicBool::new(false),
            switches: Mutex::default(),
            take_downs: Mutex::default(),
            runs: runs::Registry::default(),
        }
    }

    pub(crate) fn config(&self) -> &SandboxConfig {
        &self.config
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.config.prefix
    }

    pub(crate) fn state_dir(&self) -> &Path {
        &self.config.state_dir
    }

    pub(crate) fn runs(&self) -> &runs::Registry {
        &self.runs
    }

    pub(crate) fn egress(&self) -> Result<&Egress, SandboxError> {
        self.egress.get().ok_or(SandboxError::NotStarted)
    }

    /// The egress, started now unless it was before.
    pub(crate) async fn started_egress(&self) -> Result<&Egress, SandboxError> {
        self.begun.store(true, Ordering::Relaxed);
        let start = async || {
            let labels = self.labels("").with_role(Role::Egress);
            Ok(Egress::start(&self.engine, &self.config, labels).await?)
        };
        self.egress.get_or_try_init(start).await
    }

    pub(crate) fn labels(&self, context: &str) -> Labels {
        Labels::new(&self.config.prefix, &self.instance, context)
    }

    pub(crate) fn object_name(&self, kind: &str, id: &ObjectId) -> String {
        format!("{}-{kind}-{id}", self.config.prefix)
    }

    /// Where what the execution `id` plants is moved to.
    pub(crate) fn quarantine(&self, id: &ObjectId) -> PathBuf {
        self.config.state_dir.join("quarantine").join(id.to_string())
    }

    pub(crate) async fn image_id(&self, tag: &ImageTag) -> Result<String, SandboxError> {
        let facts = self.engine.image(tag.as_str()).await?;
        facts
            .map(|facts| facts.id)
            .ok_or_else(|| SandboxError::NoImage(tag.clone()))
    }

    /// The files that tell a container its name, its neighbours and its name server.
    pub(crate) fn own_files(&self) -> OwnFiles {
        OwnFiles::new(&self.config.state_dir)
    }

    /// The files of earlier starts that no later one asked for.
    fn remove_old_files(&self) {
        if let Err(error) = self.own_files().remove_old() {
            tracing::warn!(%error, "files of earlier starts could not be removed");
        }
    }

    /// The name of the egress network if no instance used it and it was removed.
    async fn remove_unused_network(&self) -> Result<Option<String>, SandboxError> {
        Ok(egress::remove_unused_network(&self.engine, &self.config, &self.labels("")).await?)
    }

    pub(crate) fn new_switch(&self) -> Arc<StopSwitch> {
        let switch = Arc::new(StopSwitch::new());
        let mut switches = lock(&self.switches);
        switches.retain(|known| known.strong_count() > 0);
        switches.push(Arc::downgrade(&switch));
        switch
    }

    /// Takes an execution down in the background: its caller has its result already.
    pub(crate) fn take_down(&self, handle: Handle, proxy: Option<RunningProxy>) {
        self.in_background(take_down(handle, proxy));
    }

    /// Does something about an execution that has ended. A shutdown waits for it.
    pub(crate) fn in_background(
        &self,
        work: impl Future<Output = Result<(), SandboxError>> + Send + 'static,
    ) {
        let mut take_downs = lock(&self.take_downs);
        while let Some(done) = take_downs.try_join_next() {
            tell(done);
        }
        take_downs.spawn(work);
    }

    async fn stop_all(&self) {
        let switches: Vec<_> = lock(&self.switches).iter().filter_map(Weak::upgrade).collect();
        futures_util::future::join_all(switches.iter().map(|switch| switch.stop())).await;
    }

    async fn wait_for_take_downs(&self) {
        let mut running = std::mem::take(&mut *lock(&self.take_downs));
        while let Some(done) = running.join_next().await {
            tell(done);
        }
    }
}

/// Says when something about an execution that has ended could not be done.
fn tell(done: Result<Result<(), SandboxError>, JoinError>) {
    let error = match done {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error,
        // What tokio says of a panic holds its message, which may show anything.
        Err(_panic) => SandboxError::NotTakenDown,
    };
    tracing::warn!(%error, "an execution could not be taken down; its objects are removed by label");
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("prefix", &self.config.prefix)
            .field("engine", &self.config.engine)
            .finish_non_exhaustive()
    }
}

/// No code that holds one of these locks can panic.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

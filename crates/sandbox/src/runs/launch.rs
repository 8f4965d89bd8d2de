//! Bringing a run up in two steps, and taking back what was made when one fails.

use std::path::PathBuf;
use std::sync::Arc;

use super::copy::{self, Covered};
use super::plan::{container_name, detached, in_words_of};
use super::task_dir;
use crate::container::{ContainerError, ContainerPlan, Created, Injected, LaunchPlan, ProgramControl};
use crate::context::Shared;
use crate::egress::{Endpoint, Opening, RunningProxy};
use crate::error::SandboxError;
use crate::spec::{Launch, Network, ObjectId, RunSpec};
use crate::task::{self, Program};
use sandbox_podman::{EngineError, Owner};

/// A run whose container is there and filled; its process does not run.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) created: CreatedRun,
    pub(super) proxy: Option<RunningProxy>,
    spec: RunSpec,
    /// The run's folder, where it is ours to remove.
    folder: Option<PathBuf>,
}

/// What is there of a run that was not started.
#[derive(Debug)]
pub(super) enum CreatedRun {
    /// A container.
    Container(Box<Created>),
    /// A plan for an injected launcher.
    Injected(Box<Injected>),
}

/// A run whose process was started.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) handle: Arc<dyn ProgramControl>,
    /// The engine's id of the container; the name where there is no engine.
    pub(super) container: String,
    pub(super) proxy: Option<RunningProxy>,
    /// The run's folder, where it is ours to remove.
    pub(super) folder: Option<PathBuf>,
}

/// Creates the container of `spec` with its network and proxy, and copies its volumes where it is sealed. On any error nothing is left.
pub(super) async fn prepare(shared: &Shared, spec: RunSpec) -> Result<Prepared, SandboxError> {
    let mut launch = spec.launch();
    let own = launch.network_log_dir.is_none();
    let folder = launch
        .network_log_dir
        .get_or_insert_with(|| task_dir::path(shared.state_dir(), shared.prefix(), &spec.name))
        .clone();
    let made = task_dir::make(&folder)?;
    match Box::pin(fill(shared, &spec, launch)).await {
        Ok((created, proxy)) => Ok(Prepared { created, proxy, folder: own.then_some(folder), spec }),
        Err(error) => {
            // One that was there may be another's.
            if own && made {
                remove_folder(Some(&folder));
            }
            Err(in_words_of(&spec, error))
        }
    }
}

async fn fill(
    shared: &Shared,
    spec: &RunSpec,
    launch: Launch,
) -> Result<(CreatedRun, Option<RunningProxy>), SandboxError> {
    let (created, proxy) = Box::pin(create(shared, spec, launch)).await?;
    match copy_volumes(shared, spec, &created).await {
        Ok(()) => Ok((created, proxy)),
        Err(error) => {
            task::log_leftover(created.remove().await);
            task::log_leftover(task::close(proxy).await);
            Err(error)
        }
    }
}

async fn create(
    shared: &Shared,
    spec: &RunSpec,
    mut launch: Launch,
) -> Result<(CreatedRun, Option<RunningProxy>), SandboxError> {
    let id = ObjectId::random(spec.name.as_str());
    // Whatever is made for this run, and nothing else, is of this context.
    launch.context = id.to_string();
    let image = shared.image_id(&launch.image).await?;
    let program = Program { command: spec.command.clone(), ..Program::default() };
    let labels = shared.labels(&launch.context);
    let name = container_name(shared.prefix(), spec.name.as_str());
    let plan = |endpoint: &Endpoint| -> Result<ContainerPlan, SandboxError> {
        // As late as can be: a hook was called since they were checked, and networks take their time.
        let program =
            Program { mounts: task::resolved_mounts(shared.state_dir(), &launch.mounts)?, ..program };
        let plan = task::plan(shared, &launch, &id, &image, program, endpoint)?;
        Ok(detached(plan, spec, name, &labels))
    };
    let without_proxy = Endpoint::without_proxy(&launch.network, launch.dns);
    if let Some(launcher) = shared.launcher() {
        let injected = Injected::new(launcher, LaunchPlan::new(&launch, plan(&without_proxy)?));
        return Ok((CreatedRun::Injected(Box::new(injected)), None));
    }
    let engine = shared.engine()?;
    let Network::Sandboxed(config) = &launch.network else {
        let created = Created::create(engine, &plan(&without_proxy)?).await?;
        return Ok((CreatedRun::Container(Box::new(created)), None));
    };
    let log = task::log_sink(&launch)?;
    let Opening { endpoint, proxy, remains } =
        Box::pin(shared.egress().await?.open(&id, &labels, config, &image, log)).await?;
    let created = async { Ok(Created::create(engine, &plan(&endpoint)?).await?) };
    // Neither is dropped half done when the other fails: both are removed again.
    let (created, proxy) = tokio::join!(created, proxy);
    let (created, proxy) = task::pair(created, proxy, &remains, Created::remove).await?;
    Ok((CreatedRun::Container(Box::new(created)), proxy))
}

async fn copy_volumes(shared: &Shared, spec: &RunSpec, created: &CreatedRun) -> Result<(), SandboxError> {
    if spec.copied().next().is_none() {
        return Ok(());
    }
    let (engine, container) = (shared.engine()?, created.id());
    let covered = Covered::of(&engine.inspect_container(container).await?);
    for volume in spec.copied() {
        volume.refuse_moved()?;
        let way = (volume.host_path.as_path(), volume.container_path.as_str());
        copy::copy(engine, container, &spec.name, &covered, Owner::ContainerUser, way).await?;
    }
    Ok(())
}

impl Prepared {
    /// Has the engine set the container up, verifies it and starts its process. On any error nothing is left.
    pub(super) async fn start(self) -> Result<Live, SandboxError> {
        // The engine mounts only now, and any time may have passed.
        if let Err(error) = self.spec.launch().refuse_moved_mounts() {
            if let Err(second) = self.remove().await {
                tracing::warn!(error = %second, "left behind; a sweep removes it");
            }
            return Err(error.into());
        }
        let Self { created, proxy, spec, folder } = self;
        let container = created.id().to_owned();
        match created.start().await {
            Ok(handle) => Ok(Live { handle, container, proxy, folder }),
            Err(error) => {
                // The container is gone again.
                task::log_leftover(task::close(proxy).await);
                remove_folder(folder.as_ref());
                Err(in_words_of(&spec, error.into()))
            }
        }
    }

    /// Removes everything of it.
    pub(super) async fn remove(self) -> Result<(), SandboxError> {
        let removed = self.created.remove().await;
        task::close(self.proxy).await?;
        remove_folder(self.folder.as_ref());
        Ok(removed?)
    }
}

impl CreatedRun {
    /// The engine's id of the container; the name where there is no engine.
    pub(super) fn id(&self) -> &str {
        match self {
            Self::Container(created) => created.handle().id(),
            Self::Injected(injected) => injected.name(),
        }
    }

    async fn start(self) -> Result<Arc<dyn ProgramControl>, ContainerError> {
        match self {
            Self::Container(created) => Ok(Arc::new(created.set_up().await?.start().await?)),
            Self::Injected(injected) => Ok(injected.launch().await?.control),
        }
    }

    async fn remove(self) -> Result<(), EngineError> {
        match self {
            Self::Container(created) => created.remove().await,
            Self::Injected(_) => Ok(()),
        }
    }
}

impl Live {
    /// Ends the process and removes everything of the run.
    pub(super) async fn remove(self) -> Result<(), SandboxError> {
        end(&*self.handle).await?;
        task::close(self.proxy).await?;
        remove_folder(self.folder.as_ref());
        Ok(())
    }
}

/// Ends a process, kindly if it can be done, and removes its container.
pub(super) async fn end(handle: &dyn ProgramControl) -> Result<(), SandboxError> {
    if let Err(error) = handle.stop().await {
        tracing::warn!(%error, "a run does not stop; it is removed by force");
    }
    Ok(handle.remove().await?)
}

pub(super) fn remove_folder(folder: Option<&PathBuf>) {
    if let Some(folder) = folder
        && let Err(error) = task_dir::remove(folder)
    {
        tracing::warn!(%error, "left behind");
    }
}

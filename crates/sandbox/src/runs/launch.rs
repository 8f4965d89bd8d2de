//! A run between its creation and its end: its folder and the copies of its volumes, in addition to
//! the launcher's objects.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use super::copy::{self, Covered};
use super::plan::{container_name, describe_error, detached};
use super::task_dir;
use crate::container::ProgramControl;
use crate::context::Shared;
use crate::egress::RunningProxy;
use crate::error::SandboxError;
use crate::spec::{Launch, ObjectId, RunSpec};
use crate::task::{self, Prepared, ProcessInput, Program};
use sandbox_podman::Owner;

/// A run whose container is created and filled; its process does not run.
#[derive(Debug)]
pub(super) struct PreparedRun {
    spec: RunSpec,
    prepared: Prepared,
    /// The run's folder, if the sandbox created it.
    folder: Option<PathBuf>,
}

/// A run whose process was started.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) handle: Arc<dyn ProgramControl>,
    /// The engine's id of the container; its name if there is no engine.
    pub(super) container: String,
    pub(super) proxy: Option<RunningProxy>,
    /// The run's folder, if the sandbox created it.
    pub(super) folder: Option<PathBuf>,
}

/// Creates the container of `spec` with its network and proxy, and copies the volumes of a sealed
/// run. Nothing is left after an error.
pub(super) async fn prepare(shared: &Shared, spec: RunSpec) -> Result<PreparedRun, SandboxError> {
    let mut launch = spec.mounted_launch();
    let own = launch.network_log_dir.is_none();
    let folder = launch
        .network_log_dir
        .get_or_insert_with(|| task_dir::path(shared.state_dir(), shared.prefix(), &spec.name))
        .clone();
    let made = task_dir::make(&folder)?;
    match Box::pin(fill(shared, &spec, launch)).await {
        Ok(prepared) => Ok(PreparedRun { prepared, folder: own.then_some(folder), spec }),
        Err(error) => {
            // An existing folder may be in use by another run.
            if own && made {
                remove_folder(Some(&folder));
            }
            Err(describe_error(&spec, error))
        }
    }
}

async fn fill(shared: &Shared, spec: &RunSpec, mut launch: Launch) -> Result<Prepared, SandboxError> {
    let id = ObjectId::random(spec.name.as_str());
    // Only objects of this run have this context.
    launch.context = id.to_string();
    let image = shared.image_id(&launch.image).await?;
    let program = Program {
        command: spec.command.clone(),
        // Resolved again: a hook was called since the check.
        mounts: task::resolved_mounts(shared.state_dir(), &launch.mounts)?,
        detached: Some(detached(spec, container_name(shared.prefix(), spec.name.as_str()))),
        ..Program::default()
    };
    let prepared = Prepared::create(shared, &launch, &id, &image, program, Instant::now()).await?;
    match copy_volumes(shared, spec, prepared.program.id()).await {
        Ok(()) => Ok(prepared),
        Err(error) => {
            task::log_leftover(prepared.program.remove().await);
            task::log_leftover(task::close(prepared.proxy).await);
            Err(error)
        }
    }
}

async fn copy_volumes(shared: &Shared, spec: &RunSpec, container: &str) -> Result<(), SandboxError> {
    if spec.copied().next().is_none() {
        return Ok(());
    }
    let engine = shared.engine()?;
    let covered = Covered::of(&engine.inspect_container(container).await?);
    for volume in spec.copied() {
        volume.refuse_moved()?;
        let way = (volume.host_path.as_path(), volume.container_path.as_str());
        copy::copy(engine, container, &spec.name, &covered, Owner::ContainerUser, way).await?;
    }
    Ok(())
}

impl PreparedRun {
    /// The engine's id of the container; its name if there is no engine.
    pub(super) fn container(&self) -> &str {
        self.prepared.program.id()
    }

    /// The proxy of a sandboxed network.
    pub(super) fn proxy(&self) -> Option<&RunningProxy> {
        self.prepared.proxy.as_ref()
    }

    /// Lets the engine set the container up, verifies it and starts its process. Nothing is left
    /// after an error.
    pub(super) async fn start(self) -> Result<Live, SandboxError> {
        // The engine mounts only now, long after the check.
        if let Err(error) = self.spec.mounted_launch().refuse_moved_mounts() {
            task::log_leftover(self.remove().await);
            return Err(error.into());
        }
        let container = self.container().to_owned();
        let Self { prepared: Prepared { program, proxy, .. }, spec, folder } = self;
        match program.start(ProcessInput::Written).await {
            // It has no stdin, and the engine keeps its output.
            Ok((program, _)) => Ok(Live { handle: program.control, container, proxy, folder }),
            Err(error) => {
                // The container was removed again.
                task::log_leftover(task::close(proxy).await);
                remove_folder(folder.as_ref());
                Err(describe_error(&spec, error.into()))
            }
        }
    }

    /// Removes all its objects.
    pub(super) async fn remove(self) -> Result<(), SandboxError> {
        let removed = self.prepared.program.remove().await;
        task::close(self.prepared.proxy).await?;
        remove_folder(self.folder.as_ref());
        Ok(removed?)
    }
}

impl Live {
    /// Ends the process and removes all objects of the run.
    pub(super) async fn remove(self) -> Result<(), SandboxError> {
        end(&*self.handle).await?;
        task::close(self.proxy).await?;
        remove_folder(self.folder.as_ref());
        Ok(())
    }
}

/// Ends a process, gracefully if possible, and removes its container.
pub(super) async fn end(handle: &dyn ProgramControl) -> Result<(), SandboxError> {
    if let Err(error) = handle.stop().await {
        tracing::warn!(%error, "failed to stop a run; it is removed by force");
    }
    Ok(handle.remove().await?)
}

pub(super) fn remove_folder(folder: Option<&PathBuf>) {
    if let Some(folder) = folder
        && let Err(error) = task_dir::remove(folder)
    {
        tracing::warn!(%error, "failed to remove the folder of a run");
    }
}

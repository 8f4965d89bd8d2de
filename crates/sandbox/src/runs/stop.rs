//! Stopping and removing runs.

use super::found::{self, FoundRun};
use super::hooks::LifecycleHooks;
use super::launch::{end, remove_folder};
use super::registry::{Registry, Stage};
use super::task_dir;
use crate::context::Shared;
use crate::error::HookStage;
use crate::error::SandboxError;
use crate::reap;
use crate::spec::RunName;

/// The result of stopping one run.
#[derive(Debug)]
#[non_exhaustive]
pub struct StopResult {
    /// The run.
    pub name: RunName,
    /// Whether its container no longer exists, including when there never was one.
    pub removed: bool,
    /// The error of the removal, or of the `post_stop` hook.
    pub error: Option<SandboxError>,
}

/// Stops and removes the run `name` of any process.
pub(super) async fn stop(shared: &Shared, registry: &Registry, name: &RunName) -> StopResult {
    let (mut hooks, removed) = match registry.take(name) {
        Ok(Some(entry)) => {
            let removed = match entry.stage {
                Stage::Created(prepared) => prepared.remove().await,
                Stage::Live(live) => live.remove().await,
                Stage::Busy => Ok(()),
            };
            (entry.hooks, removed)
        }
        Ok(None) => (LifecycleHooks::default(), remove_found(shared, name).await),
        Err(error) => (LifecycleHooks::default(), Err(error.into())),
    };
    let gone = removed.is_ok();
    let notified = hooks.fire(HookStage::PostStop, name).await.map_err(SandboxError::from);
    StopResult { name: name.clone(), removed: gone, error: removed.and(notified).err() }
}

async fn remove_found(shared: &Shared, name: &RunName) -> Result<(), SandboxError> {
    for found in found::all(shared).await? {
        if found.name == *name {
            remove(shared, &found).await?;
        }
    }
    Ok(())
}

/// Removes a run that this sandbox did not create: its container, then its proxy and networks,
/// which carry its context.
pub(super) async fn remove(shared: &Shared, found: &FoundRun) -> Result<(), SandboxError> {
    let engine = shared.engine()?;
    match found.handle(engine).await {
        Ok(handle) if found.summary.state == "running" => end(&handle).await?,
        Ok(handle) => handle.remove().await?,
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(error.into()),
    }
    reap::remove_context(engine, &found.labels).await?;
    let folder = task_dir::path(shared.state_dir(), shared.prefix(), &found.name);
    remove_folder(Some(&folder));
    Ok(())
}

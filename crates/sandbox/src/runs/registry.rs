//! The runs that this sandbox created.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::hooks::LifecycleHooks;
use super::launch::{Live, PreparedRun};
use crate::container::ProgramControl;
use crate::egress::ProxyControl;
use crate::error::HookStage;
use crate::error::RunError;
use crate::spec::RunName;

/// The stage of a run.
#[derive(Debug)]
pub(super) enum Stage {
    /// An operation is in progress.
    Busy,
    /// Its container is created and filled.
    Created(Box<PreparedRun>),
    /// Its process was started; it may have ended.
    Live(Box<Live>),
}

/// A run with its pending callbacks.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) stage: Stage,
    pub(super) hooks: LifecycleHooks,
}

/// The runs that this sandbox created and did not stop.
#[derive(Debug, Default)]
pub(crate) struct Registry(
    /// Locked for single operations only.
    Mutex<BTreeMap<RunName, Entry>>,
);

/// A name that is taken while its run is created or started. Dropping it frees the name.
#[derive(Debug)]
pub(super) struct Reservation<'a> {
    registry: &'a Registry,
    name: RunName,
}

impl Registry {
    fn entries(&self) -> MutexGuard<'_, BTreeMap<RunName, Entry>> {
        // Code that holds the lock cannot panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves a free name.
    pub(super) fn reserve(&self, name: &RunName) -> Result<Reservation<'_>, RunError> {
        let mut entries = self.entries();
        if entries.contains_key(name) {
            return Err(RunError::NameTaken(name.clone()));
        }
        let entry = Entry { stage: Stage::Busy, hooks: LifecycleHooks::default() };
        entries.insert(name.clone(), entry);
        Ok(self.reservation(name))
    }

    /// Takes a created run out; its name stays reserved.
    pub(super) fn begin_start(
        &self,
        name: &RunName,
    ) -> Result<(Reservation<'_>, PreparedRun, LifecycleHooks), RunError> {
        let mut entries = self.entries();
        let entry = entries.get_mut(name).ok_or_else(|| RunError::NotStartable(name.clone()))?;
        match std::mem::replace(&mut entry.stage, Stage::Busy) {
            Stage::Created(prepared) => {
                Ok((self.reservation(name), *prepared, std::mem::take(&mut entry.hooks)))
            }
            Stage::Busy => Err(RunError::Busy(name.clone())),
            other @ Stage::Live(_) => {
                entry.stage = other;
                Err(RunError::NotStartable(name.clone()))
            }
        }
    }

    /// Removes a run for good; `None` when this sandbox has no run of that name. A run that is
    /// being created or started is not removed.
    pub(super) fn take(&self, name: &RunName) -> Result<Option<Entry>, RunError> {
        let mut entries = self.entries();
        match entries.remove(name) {
            Some(Entry { stage: Stage::Busy, hooks }) => {
                let stage = Stage::Busy;
                entries.insert(name.clone(), Entry { stage, hooks });
                Err(RunError::Busy(name.clone()))
            }
            other => Ok(other),
        }
    }

    /// The names of all runs.
    pub(super) fn names(&self) -> Vec<RunName> {
        self.entries().keys().cloned().collect()
    }

    /// The container of a started run. An error if it has not been started yet.
    pub(super) fn handle(&self, name: &RunName) -> Result<Option<Arc<dyn ProgramControl>>, RunError> {
        match self.entries().get(name).map(|entry| &entry.stage) {
            Some(Stage::Live(live)) => Ok(Some(Arc::clone(&live.handle))),
            Some(Stage::Busy | Stage::Created(_)) => Err(RunError::NotStarted(name.clone())),
            None => Ok(None),
        }
    }

    /// The engine's id of a run's container; `None` if this sandbox does not have it.
    pub(super) fn container(&self, name: &RunName) -> Option<String> {
        match self.entries().get(name).map(|entry| &entry.stage)? {
            Stage::Live(live) => Some(live.container.clone()),
            Stage::Created(prepared) => Some(prepared.container().to_owned()),
            Stage::Busy => None,
        }
    }

    /// The control of a run's proxy.
    pub(super) fn control(&self, name: &RunName) -> Option<ProxyControl> {
        match self.entries().get(name).map(|entry| &entry.stage)? {
            Stage::Live(live) => live.proxy.as_ref(),
            Stage::Created(prepared) => prepared.proxy(),
            Stage::Busy => None,
        }
        .map(crate::egress::RunningProxy::control)
    }

    /// Takes the callback of `stage` of a run out.
    pub(super) fn take_hook(&self, name: &RunName, stage: HookStage) -> LifecycleHooks {
        let mut entries = self.entries();
        entries.get_mut(name).map(|entry| entry.hooks.only(stage)).unwrap_or_default()
    }

    /// Drops all runs: their proxies end, because their stdin is closed.
    pub(crate) fn release(&self) {
        self.entries().clear();
    }

    fn reservation(&self, name: &RunName) -> Reservation<'_> {
        Reservation { registry: self, name: name.clone() }
    }
}

impl Reservation<'_> {
    /// Stores the run under its name.
    pub(super) fn fill(self, stage: Stage, hooks: LifecycleHooks) {
        self.registry.entries().insert(self.name.clone(), Entry { stage, hooks });
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let mut entries = self.registry.entries();
        if matches!(entries.get(&self.name).map(|entry| &entry.stage), Some(Stage::Busy)) {
            entries.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_reserved_once_and_free_after_the_drop() {
        let registry = Registry::default();
        let name: RunName = "r".parse().unwrap();
        let reservation = registry.reserve(&name).unwrap();
        assert!(matches!(registry.reserve(&name), Err(RunError::NameTaken(_))));
        assert!(matches!(registry.take(&name), Err(RunError::Busy(_))));
        assert!(matches!(registry.begin_start(&name), Err(RunError::Busy(_))));
        assert!(matches!(registry.handle(&name), Err(RunError::NotStarted(_))));
        drop(reservation);
        assert!(matches!(registry.begin_start(&name), Err(RunError::NotStartable(_))));
        assert!(registry.take(&name).unwrap().is_none());
        assert!(registry.reserve(&name).is_ok());
    }
}

//! Runs as the engine knows them, including those of other processes.

use std::collections::BTreeMap;
use std::time::Duration;

use super::plan::container_name;
use crate::container::Handle;
use crate::context::Shared;
use crate::error::RunError;
use crate::error::SandboxError;
use crate::labels::{Labels, Role};
use crate::spec::{RunName, StopSignal};
use sandbox_podman::{ContainerId, ContainerSummary, Engine, EngineError, SignalFact};

/// The stop timeout of a run of another process, whose own timeout is unknown here.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// A run's container.
#[derive(Debug)]
pub(super) struct FoundRun {
    pub(super) summary: ContainerSummary,
    pub(super) labels: Labels,
    pub(super) name: RunName,
}

/// All runs of the prefix. A container that only has the name of a run is not one. Without an
/// engine, other processes have none.
pub(super) async fn all(shared: &Shared) -> Result<Vec<FoundRun>, EngineError> {
    let Ok(engine) = shared.engine() else {
        return Ok(Vec::new());
    };
    let prefix = shared.prefix();
    let containers = engine.list_containers(&[Labels::owned_by(prefix)]).await?;
    let run = |summary: ContainerSummary| {
        let labels = labels(&summary.labels, prefix)?;
        let name = summary.name.strip_prefix(&container_name(prefix, ""))?.parse().ok()?;
        Some(FoundRun { summary, labels, name })
    };
    Ok(containers.into_iter().filter_map(run).collect())
}

fn labels(map: &BTreeMap<String, String>, prefix: &str) -> Option<Labels> {
    Labels::from_map(map).filter(|labels| labels.owner() == prefix && labels.role() == Role::Run)
}

/// The run `name`.
pub(super) async fn one(shared: &Shared, name: &RunName) -> Result<FoundRun, SandboxError> {
    all(shared)
        .await?
        .into_iter()
        .find(|found| found.name == *name)
        .ok_or_else(|| RunError::NotFound(name.clone()).into())
}

impl FoundRun {
    /// Whether its process has ever been started.
    pub(super) fn was_started(&self) -> bool {
        Role::Run.outlives(&self.summary.state)
    }

    /// The handle to signal, await and remove it.
    pub(super) async fn handle(&self, engine: &Engine) -> Result<Handle, EngineError> {
        let is = engine.inspect_container(&self.summary.id).await?;
        let (id, name) = (ContainerId::listed(&self.summary), self.summary.name.clone());
        Ok(Handle::of_other(engine, id, name, signal(&is.config.stop_signal), STOP_TIMEOUT))
    }
}

/// The signal that the engine stores; SIGTERM if no specification can request it.
fn signal(kept: &SignalFact) -> StopSignal {
    let all = [
        StopSignal::Term,
        StopSignal::Int,
        StopSignal::Quit,
        StopSignal::Hup,
        StopSignal::Usr1,
        StopSignal::Usr2,
        StopSignal::Kill,
    ];
    all.into_iter()
        .find(|signal| match kept {
            SignalFact::Number(number) => signal.number() == *number,
            SignalFact::Name(name) => signal.name() == name.trim_start_matches("SIG"),
        })
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_signal_is_parsed_in_both_forms() {
        assert_eq!(signal(&SignalFact::Number(2)), StopSignal::Int);
        assert_eq!(signal(&SignalFact::Name("SIGQUIT".to_owned())), StopSignal::Quit);
        assert_eq!(signal(&SignalFact::Number(64)), StopSignal::Term);
    }
}

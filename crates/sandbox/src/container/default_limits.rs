//! The limits that an engine gives to containers that ask for none.

use crate::engine::{ContainerId, Engine, EngineError, LimitFacts};
use crate::spec::{Ulimit, UlimitKind};

use super::plan::ContainerPlan;
use super::request;

/// What podman 4 sets to numbers of its own as soon as any limit is given, whatever its configuration says; where its service may not
/// raise limits, no container starts with them.
const DISPLACED: [UlimitKind; 2] = [UlimitKind::OpenFiles, UlimitKind::Processes];

/// Creates the container of `plan`, with those of the engine's own limits that it would otherwise lose. Nothing of it runs yet.
pub(crate) async fn create(engine: &Engine, plan: &ContainerPlan) -> Result<ContainerId, EngineError> {
    let is_given = |kind| plan.isolation.ulimits.iter().any(|limit| limit.kind == kind);
    let is_complete = DISPLACED.iter().all(|&kind| is_given(kind));
    if plan.isolation.ulimits.is_empty() || is_complete || engine.capabilities().keeps_default_limits() {
        return Box::pin(create_exactly(engine, plan)).await;
    }
    let looked_up = engine.default_limits();
    let defaults = looked_up
        .get_or_try_init(|| Box::pin(look_up(engine, plan)))
        .await?;
    let missing = displaced(defaults)
        .into_iter()
        .filter(|limit| !is_given(limit.kind));
    let mut plan = plan.clone();
    plan.isolation.ulimits.extend(missing.collect::<Vec<_>>());
    Box::pin(create_exactly(engine, &plan)).await
}

async fn create_exactly(engine: &Engine, plan: &ContainerPlan) -> Result<ContainerId, EngineError> {
    let body = request::body(plan, engine.is_of_root());
    let created = engine.create_container(&plan.name, body).await;
    created.map_err(|error| error.without(plan.env.variables().values()))
}

/// A container without limits of its own is created, read and removed; nothing of it runs.
async fn look_up(engine: &Engine, plan: &ContainerPlan) -> Result<Vec<LimitFacts>, EngineError> {
    let mut bare = plan.clone();
    bare.name.push_str("-limits");
    bare.isolation.ulimits.clear();
    let id = create_exactly(engine, &bare).await?;
    let inspection = engine.inspect_container(id.as_str()).await;
    engine.remove_container(id.as_str()).await?;
    Ok(inspection?.host_config.ulimits)
}

fn displaced(facts: &[LimitFacts]) -> Vec<Ulimit> {
    let limit = |kind: UlimitKind| {
        let name = format!("RLIMIT_{}", kind.name().to_ascii_uppercase());
        let found = facts.iter().find(|limit| limit.name == name)?;
        Some(Ulimit {
            kind,
            soft: u64::try_from(found.soft).ok()?,
            hard: u64::try_from(found.hard).ok()?,
        })
    };
    DISPLACED.into_iter().filter_map(limit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_would_be_displaced_is_taken_over() {
        let fact = |name: &str, soft, hard| LimitFacts {
            name: name.to_owned(),
            soft,
            hard,
        };
        let facts = [
            fact("RLIMIT_NOFILE", 512, 1024),
            fact("RLIMIT_NPROC", -1, -1),
            fact("RLIMIT_CORE", 7, 7),
        ];
        let expected = Ulimit {
            kind: UlimitKind::OpenFiles,
            soft: 512,
            hard: 1024,
        };
        assert_eq!(displaced(&facts), [expected]);
    }
}

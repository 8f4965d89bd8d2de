//! The limits that an engine gives to containers that ask for none.

use std::sync::Arc;

use tokio::sync::OnceCell;

use crate::container::ContainerPlan;
use crate::spec::{Ulimit, UlimitKind};

use super::connection::Engine;
use super::error::EngineError;
use super::inspection::LimitFacts;

/// What podman 4 sets to numbers of its own as soon as any limit is given, whatever its configuration says; where its service may not
/// raise limits, no container starts with them.
const DISPLACED: [UlimitKind; 2] = [UlimitKind::OpenFiles, UlimitKind::Processes];

/// The engine's own limits, looked up once for all clones of a connection.
#[derive(Debug, Clone, Default)]
pub(super) struct DefaultLimits(Arc<OnceCell<Vec<Ulimit>>>);

impl Engine {
    /// The same plan, with those of the engine's own limits that it would otherwise lose.
    pub(super) async fn with_default_limits(
        &self,
        plan: &ContainerPlan,
    ) -> Result<ContainerPlan, EngineError> {
        let mut plan = plan.clone();
        let given =
            |plan: &ContainerPlan, kind| plan.isolation.ulimits.iter().any(|limit| limit.kind == kind);
        let complete = DISPLACED.iter().all(|&kind| given(&plan, kind));
        if plan.isolation.ulimits.is_empty() || complete || self.capabilities().keeps_default_limits() {
            return Ok(plan);
        }
        let defaults = self
            .default_limits()
            .0
            .get_or_try_init(|| Box::pin(self.look_up_limits(&plan)))
            .await?;
        for limit in defaults {
            if !given(&plan, limit.kind) {
                plan.isolation.ulimits.push(*limit);
            }
        }
        Ok(plan)
    }

    /// A container without limits of its own is created, read and removed; nothing of it runs.
    async fn look_up_limits(&self, plan: &ContainerPlan) -> Result<Vec<Ulimit>, EngineError> {
        let mut bare = plan.clone();
        bare.name.push_str("-limits");
        bare.isolation.ulimits.clear();
        let id = self.create_exactly(&bare).await?;
        let inspection = self.inspect_container(id.as_str()).await;
        self.remove_container(id.as_str()).await?;
        Ok(displaced(&inspection?.host_config.ulimits))
    }
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

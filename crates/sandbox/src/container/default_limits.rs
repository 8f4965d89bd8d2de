//! The engine's default limits of containers.

use crate::spec::{Ulimit, UlimitKind};
use sandbox_podman::{ContainerId, Engine, EngineError, LimitFacts};

use super::plan::ContainerPlan;
use super::request;

/// The limits that podman 4 replaces by its own numbers as soon as any limit is set, regardless of
/// its configuration; if its service may not raise limits, containers then fail to start.
const DISPLACED: [UlimitKind; 2] = [UlimitKind::OpenFiles, UlimitKind::Processes];

/// Creates the container of `plan`, with those of the engine's default limits that would otherwise
/// be lost. Its process does not run yet.
pub(crate) async fn create(engine: &Engine, plan: &ContainerPlan) -> Result<ContainerId, EngineError> {
    let is_given = |kind| plan.isolation.ulimits.iter().any(|limit| limit.kind == kind);
    let is_complete = DISPLACED.iter().all(|&kind| is_given(kind));
    if plan.isolation.ulimits.is_empty() || is_complete || engine.capabilities().keeps_default_limits() {
        return Box::pin(create_exactly(engine, plan)).await;
    }
    let mut bare = plan.clone();
    bare.isolation.ulimits.clear();
    let name = format!("{}-limits", plan.name);
    let defaults = Box::pin(engine.default_limits(&name, request::body(&bare, engine.is_of_root()))).await;
    let defaults = defaults.map_err(|error| without_values(error, plan))?;
    let missing = displaced(defaults).into_iter().filter(|limit| !is_given(limit.kind));
    let mut plan = plan.clone();
    plan.isolation.ulimits.extend(missing.collect::<Vec<_>>());
    Box::pin(create_exactly(engine, &plan)).await
}

async fn create_exactly(engine: &Engine, plan: &ContainerPlan) -> Result<ContainerId, EngineError> {
    let body = request::body(plan, engine.is_of_root());
    let created = engine.create_container(&plan.name, body).await;
    created.map_err(|error| without_values(error, plan))
}

fn without_values(error: EngineError, plan: &ContainerPlan) -> EngineError {
    error.without(plan.env.variables().values())
}

fn displaced(facts: &[LimitFacts]) -> Vec<Ulimit> {
    let limit = |kind: UlimitKind| {
        let name = format!("RLIMIT_{}", kind.name().to_ascii_uppercase());
        let found = facts.iter().find(|limit| limit.name == name)?;
        Some(Ulimit { kind, soft: u64::try_from(found.soft).ok()?, hard: u64::try_from(found.hard).ok()? })
    };
    DISPLACED.into_iter().filter_map(limit).collect()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::UnixListener;

    use super::*;
    use crate::container::a_plan;
    use crate::spec::ContainerEnv;

    #[tokio::test]
    async fn values_of_variables_in_engine_errors_are_hidden() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("engine.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        tokio::spawn(async move {
            let refused = r#"{"message":"bad variable TOKEN=hunter2"}"#;
            for (status, body) in [("200 OK", "OK"), ("500 Internal Server Error", refused)] {
                let (mut stream, _) = listener.accept().await.unwrap();
                assert!(stream.read_buf(&mut Vec::new()).await.unwrap() > 0);
                let head = format!(
                    "HTTP/1.1 {status}\r\nLibpod-Api-Version: 5.4.2\r\nContent-Length: {}",
                    body.len()
                );
                stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).await.unwrap();
                // Closing with unread data would reset the connection.
                stream.read_to_end(&mut Vec::new()).await.unwrap();
            }
        });
        let engine = Engine::connect(&socket).await.unwrap();
        let plan = ContainerPlan { env: ContainerEnv::default().with("TOKEN", "hunter2"), ..a_plan() };
        let error = create(&engine, &plan).await.unwrap_err();
        let text = format!("{error:?}");
        assert!(text.contains("bad variable TOKEN=") && !text.contains("hunter2"), "{text}");
    }

    #[test]
    fn displaced_limits_alone_are_set_explicitly() {
        let fact = |name: &str, soft, hard| LimitFacts { name: name.to_owned(), soft, hard };
        let facts =
            [fact("RLIMIT_NOFILE", 512, 1024), fact("RLIMIT_NPROC", -1, -1), fact("RLIMIT_CORE", 7, 7)];
        let expected = Ulimit { kind: UlimitKind::OpenFiles, soft: 512, hard: 1024 };
        assert_eq!(displaced(&facts), [expected]);
    }
}

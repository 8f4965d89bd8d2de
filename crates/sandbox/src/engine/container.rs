//! Calls about containers.

use std::collections::BTreeMap;
use std::fmt;

use bollard::query_parameters::{KillContainerOptionsBuilder, RemoveContainerOptionsBuilder};
use http::Method;
use serde::Deserialize;
use serde_json::json;

use crate::container::ContainerPlan;

use super::connection::{CALL_DEADLINE, Engine, within};
use super::convert;
use super::error::{Cause, EngineError, printable};
use super::inspection::Inspection;
use super::libpod::{Call, escape};

/// How long an engine sleeps before it looks again whether a container has ended, or whether the caller is still there: each look takes
/// processor time, which adds up with many containers.
const OFTEN: &str = "10ms";
const SELDOM: &str = "5s";

/// The id that the engine gave a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ContainerId(String);

impl ContainerId {
    /// An id that the engine told in a list.
    pub(crate) fn listed(summary: &ContainerSummary) -> Self {
        Self(summary.id.clone())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ContainerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A container in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ContainerSummary {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    /// `created`, `running`, `exited` and so on, as the engine calls it.
    pub(crate) state: String,
}

impl Engine {
    /// Creates a container. Nothing of it runs yet.
    pub(crate) async fn create_container(&self, plan: &ContainerPlan) -> Result<ContainerId, EngineError> {
        let plan = self.with_default_limits(plan).await?;
        Box::pin(self.create_exactly(&plan)).await
    }

    pub(super) async fn create_exactly(&self, plan: &ContainerPlan) -> Result<ContainerId, EngineError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "PascalCase")]
        struct Created {
            id: String,
            #[serde(default)]
            warnings: Option<Vec<String>>,
        }
        const OPERATION: &str = "create container";
        let path = "/containers/create".to_owned();
        let mut call = container_call(OPERATION, &plan.name, Method::POST, path);
        call.body = Some(convert::container(plan));
        let created: Created = self
            .libpod()
            .json(call)
            .await
            .map_err(|error| error.without(plan.env.variables().values()))?;
        for warning in created.warnings.iter().flatten() {
            // What it left out is found by whoever compares the container with its plan.
            tracing::debug!(container = %plan.name, warning = %printable(warning), "the engine warns");
        }
        if created.id.is_empty() || !created.id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(EngineError::new(
                OPERATION,
                &plan.name,
                Cause::Answer("it names no container id".to_owned()),
            ));
        }
        tracing::debug!(container = %plan.name, id = %created.id, "created");
        Ok(ContainerId(created.id))
    }

    /// What the engine says a container is.
    pub(crate) async fn inspect_container(&self, container: &str) -> Result<Inspection, EngineError> {
        let path = format!("/containers/{}/json", escape(container));
        self.libpod()
            .json(container_call("inspect container", container, Method::GET, path))
            .await
    }

    /// Makes everything of a created container but its process: networks, mounts, limits. One that stands is done.
    pub(crate) async fn set_up_container(&self, container: &str) -> Result<(), EngineError> {
        let path = format!("/containers/{}/init", escape(container));
        let call = container_call("set up container", container, Method::POST, path);
        match self.libpod().call(call).await {
            Err(error) if error.status() == Some(304) => Ok(()),
            made => made.map(drop),
        }
    }

    /// Starts the process of a created container.
    pub(crate) async fn start_container(&self, container: &str) -> Result<(), EngineError> {
        within(
            CALL_DEADLINE,
            "start container",
            container,
            self.docker().start_container(container, None),
        )
        .await
    }

    /// Sends a signal to the first process of a container. Returns when SIGKILL has killed it.
    pub(crate) async fn kill_container(&self, container: &str, signal: &str) -> Result<(), EngineError> {
        let options = KillContainerOptionsBuilder::default().signal(signal).build();
        within(
            CALL_DEADLINE,
            "signal container",
            container,
            self.docker().kill_container(container, Some(options)),
        )
        .await
    }

    /// Waits for the end of a container, however long it takes, and tells its exit code.
    pub(crate) async fn wait_container(&self, container: &str) -> Result<i64, EngineError> {
        let woken = self.capabilities().wakes_waits();
        self.wait_looking(container, if woken { SELDOM } else { OFTEN })
            .await
    }

    /// Likewise, for a container that is watched in another way: its end may be told late, the end of the engine's service is not.
    pub(crate) async fn wait_container_watched(&self, container: &str) -> Result<i64, EngineError> {
        self.wait_looking(container, SELDOM).await
    }

    /// The Docker-compatible wait would keep a processor busy on podman 4.
    async fn wait_looking(&self, container: &str, interval: &str) -> Result<i64, EngineError> {
        const OPERATION: &str = "wait for container";
        let query = format!("condition=exited&condition=stopped&interval={interval}");
        let path = format!("/containers/{}/wait?{query}", escape(container));
        let mut call = container_call(OPERATION, container, Method::POST, path);
        call.deadline = None;
        let body = self.libpod().call(call).await?;
        std::str::from_utf8(&body)
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .ok_or_else(|| {
                EngineError::new(
                    OPERATION,
                    container,
                    Cause::Answer("it is no exit code".to_owned()),
                )
            })
    }

    /// Removes a container and its anonymous volumes, in whatever state it is; one that is gone is done.
    pub(crate) async fn remove_container(&self, container: &str) -> Result<(), EngineError> {
        match self.try_remove(container).await {
            Err(error) if error.is_not_found() => Ok(()),
            // The engine's own clean-up of an exited container may have been in the way.
            Err(error) if error.status().is_some() => match self.try_remove(container).await {
                Err(second) if second.is_not_found() => Ok(()),
                Err(_) => Err(error),
                Ok(()) => Ok(()),
            },
            other => other,
        }
    }

    async fn try_remove(&self, container: &str) -> Result<(), EngineError> {
        let options = RemoveContainerOptionsBuilder::default()
            .force(true)
            .v(true)
            .build();
        within(
            CALL_DEADLINE,
            "remove container",
            container,
            self.docker().remove_container(container, Some(options)),
        )
        .await
    }

    /// The containers that carry all of `labels` (`name=value`), in any state.
    ///
    /// Not through the Docker-compatible API: podman has states that its clients cannot read (`initialized`, `stopping`).
    pub(crate) async fn list_containers(
        &self,
        labels: &[String],
    ) -> Result<Vec<ContainerSummary>, EngineError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "PascalCase")]
        struct Listed {
            id: String,
            names: Vec<String>,
            labels: Option<BTreeMap<String, String>>,
            state: String,
        }
        const OPERATION: &str = "list containers with";
        let filters = escape(&json!({ "label": labels }).to_string());
        let object = labels.join(" ");
        let path = format!("/containers/json?all=true&filters={filters}");
        let found: Option<Vec<Listed>> = self
            .libpod()
            .json(container_call(OPERATION, &object, Method::GET, path))
            .await?;
        let summary = |found: Listed| ContainerSummary {
            name: found.names.into_iter().next().unwrap_or_else(|| found.id.clone()),
            id: found.id,
            labels: found.labels.unwrap_or_default(),
            state: found.state,
        };
        Ok(found.unwrap_or_default().into_iter().map(summary).collect())
    }
}

fn container_call<'a>(operation: &'static str, container: &'a str, method: Method, path: String) -> Call<'a> {
    Call {
        operation,
        object: container,
        method,
        path,
        body: None,
        deadline: Some(CALL_DEADLINE),
    }
}

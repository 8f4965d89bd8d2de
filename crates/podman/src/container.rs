//! Calls about containers.

use std::collections::BTreeMap;
use std::fmt;

use bollard::query_parameters::{KillContainerOptionsBuilder, RemoveContainerOptionsBuilder};
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::connection::{CALL_DEADLINE, Engine, within};
use crate::error::{Cause, EngineError, printable};
use crate::inspection::Inspection;
use crate::libpod::{Call, escape};

/// Interval at which an engine polls whether a container has ended, or whether the caller is still
/// connected: each poll takes processor time, which adds up with many containers.
const OFTEN: &str = "10ms";
const SELDOM: &str = "5s";

/// The engine's id of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerId(String);

impl ContainerId {
    /// The id of a container in a list.
    #[must_use]
    pub fn listed(summary: &ContainerSummary) -> Self {
        Self(summary.id.clone())
    }

    /// Its hexadecimal digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
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
pub struct ContainerSummary {
    /// The id.
    pub id: String,
    /// The name; the id if it has none.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// The engine's name of the state: `created`, `running`, `exited` and so on.
    pub state: String,
}

impl Engine {
    /// Creates the container `name` from `body`, podman's own `SpecGenerator` without a name. It
    /// does not run yet.
    ///
    /// # Errors
    ///
    /// Like every call: see [`EngineError`]; also if the answer names no container.
    pub async fn create_container(&self, name: &str, mut body: Value) -> Result<ContainerId, EngineError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "PascalCase")]
        struct Created {
            id: String,
            #[serde(default)]
            warnings: Option<Vec<String>>,
        }
        const OPERATION: &str = "create container";
        if let Some(fields) = body.as_object_mut() {
            fields.insert("name".to_owned(), name.into());
        }
        let path = "/containers/create".to_owned();
        let mut call = container_call(OPERATION, name, Method::POST, path);
        call.body = Some(body);
        let created: Created = self.libpod().json(call).await?;
        for warning in created.warnings.iter().flatten() {
            // Omitted fields are detected when the container is compared with its plan.
            tracing::debug!(container = %name, warning = %printable(warning), "the engine warns");
        }
        if created.id.is_empty() || !created.id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(EngineError::new(
                OPERATION,
                name,
                Cause::Answer("it names no container id".to_owned()),
            ));
        }
        tracing::debug!(container = %name, id = %created.id, "created");
        Ok(ContainerId(created.id))
    }

    /// The engine's description of a container.
    ///
    /// # Errors
    ///
    /// Like every call: see [`EngineError`].
    pub async fn inspect_container(&self, container: &str) -> Result<Inspection, EngineError> {
        let path = format!("/containers/{}/json", escape(container));
        self.libpod().json(container_call("inspect container", container, Method::GET, path)).await
    }

    /// Sets up a created container except for its process: networks, mounts, limits. Does nothing
    /// if it is already set up.
    ///
    /// # Errors
    ///
    /// Like every call: see [`EngineError`].
    pub async fn set_up_container(&self, container: &str) -> Result<(), EngineError> {
        let path = format!("/containers/{}/init", escape(container));
        let call = container_call("set up container", container, Method::POST, path);
        match self.libpod().call(call).await {
            Err(error) if error.status() == Some(304) => Ok(()),
            made => made.map(drop),
        }
    }

    /// Starts the process of a created container.
    ///
    /// # Errors
    ///
    /// Like every call: see [`EngineError`].
    pub async fn start_container(&self, container: &str) -> Result<(), EngineError> {
        within(CALL_DEADLINE, "start container", container, self.docker().start_container(container, None))
            .await
    }

    /// Sends a signal to the first process of a container. With SIGKILL, returns once it is dead.
    ///
    /// # Errors
    ///
    /// Like every call: see [`EngineError`]; also if the container does not run.
    pub async fn kill_container(&self, container: &str, signal: &str) -> Result<(), EngineError> {
        let options = KillContainerOptionsBuilder::default().signal(signal).build();
        within(
            CALL_DEADLINE,
            "signal container",
            container,
            self.docker().kill_container(container, Some(options)),
        )
        .await
    }

    /// Waits for the end of a container without a time limit, and returns its exit code.
    ///
    /// # Errors
    ///
    /// Like every call: see [`EngineError`], but there is no deadline. The process may still run
    /// then.
    pub async fn wait_container(&self, container: &str) -> Result<i64, EngineError> {
        let woken = self.capabilities().wakes_waits();
        self.wait_polling(container, if woken { SELDOM } else { OFTEN }).await
    }

    /// The same, for a caller that also watches the container itself: its end may be reported up to
    /// five seconds late, that of the engine's service at once.
    ///
    /// # Errors
    ///
    /// Like [`wait_container`](Self::wait_container).
    pub async fn wait_container_watched(&self, container: &str) -> Result<i64, EngineError> {
        self.wait_polling(container, SELDOM).await
    }

    /// Not the Docker-compatible wait, which keeps a processor busy on podman 4.
    async fn wait_polling(&self, container: &str, interval: &str) -> Result<i64, EngineError> {
        const OPERATION: &str = "wait for container";
        let query = format!("condition=exited&condition=stopped&interval={interval}");
        let path = format!("/containers/{}/wait?{query}", escape(container));
        let mut call = container_call(OPERATION, container, Method::POST, path);
        call.deadline = None;
        let body = self.libpod().call(call).await?;
        std::str::from_utf8(&body).ok().and_then(|text| text.trim().parse().ok()).ok_or_else(|| {
            EngineError::new(OPERATION, container, Cause::Answer("it is not an exit code".to_owned()))
        })
    }

    /// Removes a container and its anonymous volumes, in any state; succeeds if it does not exist.
    ///
    /// # Errors
    ///
    /// Like every call: see [`EngineError`].
    pub async fn remove_container(&self, container: &str) -> Result<(), EngineError> {
        match self.try_remove(container).await {
            Err(error) if error.is_not_found() => Ok(()),
            // The engine's own clean-up of an exited container may have interfered.
            Err(error) if error.status().is_some() => match self.try_remove(container).await {
                Err(second) if second.is_not_found() => Ok(()),
                Err(_) => Err(error),
                Ok(()) => Ok(()),
            },
            other => other,
        }
    }

    async fn try_remove(&self, container: &str) -> Result<(), EngineError> {
        let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
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
    /// Not through the Docker-compatible API: podman has states that its clients do not know
    /// (`initialized`, `stopping`).
    ///
    /// # Errors
    ///
    /// Like every call: see [`EngineError`].
    pub async fn list_containers(&self, labels: &[String]) -> Result<Vec<ContainerSummary>, EngineError> {
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
        let found: Option<Vec<Listed>> =
            self.libpod().json(container_call(OPERATION, &object, Method::GET, path)).await?;
        let summary = |found: Listed| ContainerSummary {
            name: found.names.into_iter().next().unwrap_or_else(|| found.id.clone()),
            id: found.id,
            labels: found.labels.unwrap_or_default(),
            state: found.state,
        };
        Ok(found.unwrap_or_default().into_iter().map(summary).collect())
    }
}

pub(crate) fn container_call<'a>(
    operation: &'static str,
    container: &'a str,
    method: Method,
    path: String,
) -> Call<'a> {
    Call { operation, object: container, method, path, body: None, deadline: Some(CALL_DEADLINE) }
}

//! Inspects the files of an image.

use bytes::Bytes;

use super::{ContainerError, ContainerPlan, Created, Detachment, PlannedNetwork};
use crate::labels::{Labels, Role};
use crate::spec::{ContainerEnv, Isolation};
use sandbox_podman::{Engine, EngineError};

/// A container of the image that is created, read and removed, but never started: nothing of the
/// image runs.
#[derive(Debug)]
pub(crate) struct ImageProbe {
    engine: Engine,
    created: Created,
}

impl ImageProbe {
    /// Creates a probe of the image `image`.
    pub(crate) async fn create(
        engine: &Engine,
        image: &str,
        labels: &Labels,
    ) -> Result<Self, ContainerError> {
        let plan = ContainerPlan {
            name: format!("{}-probe-{:016x}", labels.owner(), rand::random::<u64>()),
            image: image.to_owned(),
            entrypoint: Some(vec!["/never-started".to_owned()]),
            command: Vec::new(),
            env: ContainerEnv::default(),
            working_dir: None,
            mounts: Vec::new(),
            network: PlannedNetwork::default(),
            isolation: Isolation::proxy(),
            memory: None,
            nano_cpus: None,
            pids: None,
            disk: None,
            labels: labels.with_role(Role::Probe),
            stdin: false,
            terminal: None,
            detachment: Detachment::default(),
        };
        let created = Created::create(engine, &plan).await?;
        Ok(Self { engine: engine.clone(), created })
    }

    /// An archive of the file or folder at `path`; `None` if there is none.
    pub(crate) async fn download(&self, path: &str) -> Result<Option<Bytes>, EngineError> {
        self.engine.download(self.created.handle().id(), path).await
    }

    /// Removes the probe.
    pub(crate) async fn remove(self) -> Result<(), EngineError> {
        self.created.remove().await
    }
}

//! Copies files into a container, which may be stopped.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bollard::query_parameters::UploadToContainerOptionsBuilder;
use bytes::Bytes;
use futures_util::Stream;
use http::Method;
use serde::Deserialize;

use crate::connection::{CALL_DEADLINE, Engine, IMAGE_DEADLINE, within};
use crate::error::{Cause, EngineError};
use crate::libpod::{Call, escape};

/// The owner of files that are copied into a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// The owner in the archive.
    OfArchive,
    /// The user of the container's process.
    ContainerUser,
}

/// The object at a path of a container, and its path after all links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathFacts {
    /// A folder, or a link that leads to one.
    Folder(String),
    /// Something else, or a link that leads to it.
    Other(String),
    /// A dangling link; a mount does not exist before the container is set up.
    DeadLink(String),
    /// Nothing.
    Missing,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PathStat {
    is_dir: bool,
    link_target: String,
}

impl Engine {
    /// The object at `path` of a container.
    ///
    /// # Errors
    ///
    /// Like every call: see [`EngineError`].
    pub async fn path_facts(&self, container: &str, path: &str) -> Result<PathFacts, EngineError> {
        const OPERATION: &str = "look at a path of container";
        const STAT: &str = "x-docker-container-path-stat";
        let object = format!("{container}:{path}");
        let call = Call {
            operation: OPERATION,
            object: &object,
            method: Method::HEAD,
            path: format!("/containers/{}/archive?path={}", escape(container), escape(path)),
            body: None,
            deadline: Some(CALL_DEADLINE),
        };
        let (status, head) = self.libpod().head(call).await?;
        let there = status.is_success();
        let stat = head
            .get(STAT)
            .and_then(|stat| STANDARD.decode(stat).ok())
            .and_then(|stat| serde_json::from_slice::<PathStat>(&stat).ok());
        match stat {
            Some(stat) if !there => Ok(PathFacts::DeadLink(stat.link_target)),
            Some(stat) if stat.is_dir => Ok(PathFacts::Folder(stat.link_target)),
            Some(stat) => Ok(PathFacts::Other(stat.link_target)),
            None if !there && !head.contains_key(STAT) => Ok(PathFacts::Missing),
            None => {
                let cause = Cause::Answer("it has no facts about the path".to_owned());
                Err(EngineError::new(OPERATION, object, cause))
            }
        }
    }

    /// Unpacks a tar archive, given in pieces, in the folder `folder` of a container. A folder is
    /// never replaced by something else.
    ///
    /// # Errors
    ///
    /// Like every call: see [`EngineError`]; also if `pieces` fail.
    pub async fn upload(
        &self,
        container: &str,
        folder: &str,
        owner: Owner,
        pieces: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
    ) -> Result<(), EngineError> {
        let options = UploadToContainerOptionsBuilder::default()
            .path(folder)
            .no_overwrite_dir_non_dir("true")
            .copy_uidgid(if owner == Owner::ContainerUser { "true" } else { "false" })
            .build();
        let object = format!("{container}:{folder}");
        let docker = self.docker_for_images();
        let call = docker.upload_to_container(container, Some(options), bollard::body_try_stream(pieces));
        within(IMAGE_DEADLINE, "copy files to container", &object, call).await
    }
}

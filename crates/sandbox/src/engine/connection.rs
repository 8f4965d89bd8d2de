//! The connection to an engine.

use std::fmt;
use std::future::Future;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bollard::{ClientVersion, Docker};
use tokio::sync::OnceCell;

use crate::config::EngineAddress;

use super::capabilities::{Capabilities, Version};
use super::error::{Cause, EngineError, HEADERS_DEADLINE};
use super::inspection::LimitFacts;
use super::libpod::Libpod;

/// How long a call may take that neither moves data nor waits for a container.
pub(super) const CALL_DEADLINE: Duration = Duration::from_mins(2);

/// How long calls may take that move an image or build one.
pub(super) const IMAGE_DEADLINE: Duration = Duration::from_hours(2);

/// A ping is answered within a millisecond; a service that is started by its socket needs longer.
const PING_DEADLINE: Duration = Duration::from_secs(10);

/// Every podman since 4.0 serves this version of the Docker-compatible API, whatever it calls its own.
const API: ClientVersion = ClientVersion {
    major_version: 1,
    minor_version: 41,
};

/// An engine. Cloning is cheap: all clones share connections.
#[derive(Clone)]
pub(crate) struct Engine {
    docker: Docker,
    libpod: Libpod,
    capabilities: Capabilities,
    of_root: bool,
    /// The limits that the engine gives to containers that ask for none, looked up once for all clones.
    default_limits: Arc<OnceCell<Vec<LimitFacts>>>,
    filter: Option<Arc<Path>>,
}

impl Engine {
    /// Connects to the podman at `address`.
    pub(crate) async fn connect(address: &EngineAddress) -> Result<Self, EngineError> {
        let libpod = Libpod::new(address.socket());
        let headers = libpod.ping(PING_DEADLINE).await?;
        let object = address.to_string();
        let failed = |cause| EngineError::new("connect to", object.as_str(), cause);
        let version: Version = headers
            .get("libpod-api-version")
            .and_then(|version| version.to_str().ok())
            .and_then(|version| version.parse().ok())
            .ok_or_else(|| {
                failed(Cause::Answer(
                    "it does not name a version of podman; is this podman's socket?".to_owned(),
                ))
            })?;
        let capabilities = Capabilities::new(version);
        if !capabilities.is_supported() {
            let oldest = Capabilities::OLDEST;
            return Err(failed(Cause::Refused(format!(
                "podman {version} is too old; {oldest} or later is needed"
            ))));
        }
        let socket = address.socket().to_string_lossy();
        let docker = Docker::connect_with_unix(&socket, HEADERS_DEADLINE.as_secs(), &API)
            .map_err(|error| failed(error.into()))?;
        let of_root = std::fs::metadata(address.socket()).is_ok_and(|socket| socket.uid() == 0);
        tracing::debug!(engine = %address, %version, of_root, "connected");
        Ok(Self {
            docker,
            libpod,
            capabilities,
            of_root,
            default_limits: Arc::default(),
            filter: None,
        })
    }

    /// The same with the file of the sandbox's own filter of system calls, which its service reads.
    pub(crate) fn with_filter(mut self, file: &Path) -> Self {
        self.filter = Some(file.into());
        self
    }

    /// The file of the sandbox's own filter of system calls.
    pub(crate) fn filter(&self) -> Option<&Path> {
        self.filter.as_deref()
    }

    /// What this engine is and what its version lacks.
    pub(crate) fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// Whether it is root's, as far as the owner of its socket tells.
    pub(crate) fn is_of_root(&self) -> bool {
        self.of_root
    }

    /// The limits that the engine gives to containers that ask for none, once somebody has looked.
    pub(crate) fn default_limits(&self) -> &OnceCell<Vec<LimitFacts>> {
        &self.default_limits
    }

    pub(super) fn docker(&self) -> &Docker {
        &self.docker
    }

    /// A client whose calls may take as long as an image needs.
    pub(super) fn patient_docker(&self) -> Docker {
        self.docker.clone().with_timeout(IMAGE_DEADLINE)
    }

    pub(super) fn libpod(&self) -> &Libpod {
        &self.libpod
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("socket", &self.libpod.socket())
            .field("version", &self.capabilities.version())
            .finish_non_exhaustive()
    }
}

/// Gives a call of bollard's its deadline, and its failure a name.
pub(super) async fn within<T>(
    deadline: Duration,
    operation: &'static str,
    object: &str,
    call: impl Future<Output = Result<T, bollard::errors::Error>>,
) -> Result<T, EngineError> {
    match tokio::time::timeout(deadline, call).await {
        Ok(answer) => answer.map_err(EngineError::call(operation, object)),
        Err(_) => Err(EngineError::new(operation, object, Cause::Deadline(deadline))),
    }
}

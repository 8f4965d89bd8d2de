//! The connection to an engine.

use std::fmt;
use std::future::Future;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bollard::{ClientVersion, Docker};
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::capabilities::{Capabilities, Version};
use crate::error::{Cause, EngineError, HEADERS_DEADLINE};
use crate::image_facts::SeenImages;
use crate::inspection::LimitFacts;
use crate::libpod::Libpod;

/// Time limit of calls that neither transfer data nor wait for a container.
pub(crate) const CALL_DEADLINE: Duration = Duration::from_mins(2);

/// Time limit of calls that transfer or build an image.
pub(crate) const IMAGE_DEADLINE: Duration = Duration::from_hours(2);

/// A ping is answered within a millisecond; a service that is started by its socket needs longer.
const PING_DEADLINE: Duration = Duration::from_secs(10);

/// Every podman since 4.0 serves this version of the Docker-compatible API, regardless of its own.
const API: ClientVersion = ClientVersion { major_version: 1, minor_version: 41 };

/// An engine. Cloning is cheap: all clones share connections.
#[derive(Clone)]
pub struct Engine {
    docker: Docker,
    libpod: Libpod,
    capabilities: Capabilities,
    of_root: bool,
    /// The engine's default limits for containers, looked up once for all clones.
    default_limits: Arc<OnceCell<Vec<LimitFacts>>>,
    seccomp_profile: Option<Arc<Path>>,
    seen_images: SeenImages,
}

impl Engine {
    /// Connects to the podman that listens on the unix socket `socket`, within ten seconds.
    ///
    /// # Errors
    ///
    /// If there is no answer, or not from a podman that [is supported](Capabilities::is_supported).
    pub async fn connect(socket: &Path) -> Result<Self, EngineError> {
        let libpod = Libpod::new(socket);
        let headers = libpod.ping(PING_DEADLINE).await?;
        let object = format!("unix://{}", socket.display());
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
        let docker = Docker::connect_with_unix(&socket.to_string_lossy(), HEADERS_DEADLINE.as_secs(), &API)
            .map_err(|error| failed(error.into()))?;
        let of_root = std::fs::metadata(socket).is_ok_and(|socket| socket.uid() == 0);
        tracing::debug!(engine = %object, %version, of_root, "connected");
        Ok(Self {
            docker,
            libpod,
            capabilities,
            of_root,
            default_limits: Arc::default(),
            seccomp_profile: None,
            seen_images: SeenImages::default(),
        })
    }

    /// Its unix socket.
    #[must_use]
    pub fn socket(&self) -> &Path {
        self.libpod.socket()
    }

    /// Sets a seccomp profile for the steps of builds: a file that the engine's service reads.
    /// Default: the engine's own.
    #[must_use]
    pub fn with_seccomp_profile(mut self, file: &Path) -> Self {
        self.seccomp_profile = Some(file.into());
        self
    }

    /// The seccomp profile of builds, which callers may also use for containers.
    #[must_use]
    pub fn seccomp_profile(&self) -> Option<&Path> {
        self.seccomp_profile.as_deref()
    }

    /// The engine's version and limitations.
    #[must_use]
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// Whether it runs as root, judging by the owner of its socket.
    #[must_use]
    pub fn is_of_root(&self) -> bool {
        self.of_root
    }

    /// The engine's default limits for containers. Looked up once for all clones: the container
    /// `name` is created from `body`, inspected and removed, without being started.
    ///
    /// # Errors
    ///
    /// If one of these calls fails; the next caller tries again.
    pub async fn default_limits(&self, name: &str, body: Value) -> Result<&[LimitFacts], EngineError> {
        let look = async || {
            let id = self.create_container(name, body).await?;
            let inspection = self.inspect_container(id.as_str()).await;
            self.remove_container(id.as_str()).await?;
            Ok(inspection?.host_config.ulimits)
        };
        Ok(self.default_limits.get_or_try_init(look).await?)
    }

    pub(crate) fn docker(&self) -> &Docker {
        &self.docker
    }

    /// A client with the time limit of image transfers.
    pub(crate) fn docker_for_images(&self) -> Docker {
        self.docker.clone().with_timeout(IMAGE_DEADLINE)
    }

    pub(crate) fn seen_images(&self) -> &SeenImages {
        &self.seen_images
    }

    pub(crate) fn libpod(&self) -> &Libpod {
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

/// Adds a deadline to a call of bollard, and context to its error.
pub(crate) async fn within<T>(
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

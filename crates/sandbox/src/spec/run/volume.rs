//! Folders and files of the host for a run.

use std::path::{Path, PathBuf};

use crate::spec::{InvalidSpec, Mount};
use sandbox_files::host_path::Resolver;

/// Who else uses what is bound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Sharing {
    /// One container alone: where the engine's host has `SELinux`, it gets a label that no other
    /// container has (`Z`).
    Private,
    /// Several containers: a label that all containers have (`z`).
    #[default]
    Shared,
}

impl Sharing {
    /// The option of a bind mount. Without `SELinux` it does nothing.
    pub(crate) fn relabel(self) -> &'static str {
        match self {
            Self::Private => "Z",
            Self::Shared => "z",
        }
    }
}

/// A folder or file of the host that a run sees: mounted, or in a sealed run copied.
///
/// The host's path must exist; a missing one is an error, because a container that lacks its files
/// is as wrong as one that does not start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeSpec {
    /// An absolute path of the host.
    pub host_path: PathBuf,
    /// An absolute path in the container.
    pub container_path: String,
    /// Who else uses it. Default [`Sharing::Shared`].
    pub sharing: Sharing,
    /// Writing fails. The copy in a sealed run is the container's own and can be written; the
    /// host's file cannot.
    pub read_only: bool,
    /// Mounted even in a sealed run: for sockets and files that come and go while it runs.
    pub live: bool,
}

impl VolumeSpec {
    /// `host_path` at `container_path`, shared, writable, not live.
    pub fn new(host_path: impl Into<PathBuf>, container_path: impl Into<String>) -> Self {
        Self {
            host_path: host_path.into(),
            container_path: container_path.into(),
            sharing: Sharing::default(),
            read_only: false,
            live: false,
        }
    }

    /// The same for one container alone.
    #[must_use]
    pub fn private(mut self) -> Self {
        self.sharing = Sharing::Private;
        self
    }

    /// The same, read-only.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// The same, mounted even in a sealed run.
    #[must_use]
    pub fn live(mut self) -> Self {
        self.live = true;
        self
    }

    pub(crate) fn to_mount(&self) -> Mount {
        if self.read_only {
            Mount::read_only_at(&self.host_path, &self.container_path)
        } else {
            Mount::read_write(&self.host_path, &self.container_path)
        }
    }

    /// The same of what its host path leads to now.
    pub(super) fn resolved(&self, resolver: &Resolver) -> Result<Self, InvalidSpec> {
        Ok(Self { host_path: self.to_mount().resolved(resolver)?.host_path().to_owned(), ..self.clone() })
    }

    /// Refuses a volume whose path leads elsewhere by now.
    pub(crate) fn refuse_moved(&self) -> Result<(), InvalidSpec> {
        self.to_mount().refuse_moved()
    }

    /// Where the container has it, without a slash at the end.
    pub(crate) fn target(&self) -> &Path {
        // Components do not know slashes at the end.
        Path::new(&self.container_path)
    }
}

//! Volumes of a run.

use std::path::{Path, PathBuf};

use crate::spec::{InvalidSpec, Mount};
use sandbox_files::host_path::Resolver;

/// The sharing of a bind mount.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Sharing {
    /// One container only: where the engine's host has `SELinux`, it gets a label that no other
    /// container has (`Z`).
    Private,
    /// Several containers: a label common to all containers (`z`).
    #[default]
    Shared,
}

impl Sharing {
    /// The option of a bind mount. It has no effect without `SELinux`.
    pub(crate) fn relabel(self) -> &'static str {
        match self {
            Self::Private => "Z",
            Self::Shared => "z",
        }
    }
}

/// A folder or file of the host in a run: mounted, or in a sealed run copied.
///
/// The path on the host must exist: a container that lacks its files is as wrong as one that does
/// not start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeSpec {
    /// An absolute path of the host.
    pub host_path: PathBuf,
    /// An absolute path in the container.
    pub container_path: String,
    /// The sharing of the mount. Default: [`Sharing::Shared`].
    pub sharing: Sharing,
    /// The mount is read-only. In a sealed run the copy belongs to the container and is writable;
    /// the host's file is not.
    pub read_only: bool,
    /// Mounted even in a sealed run: for sockets, and for files that change while it runs.
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

    /// Makes it private to one container.
    #[must_use]
    pub fn private(mut self) -> Self {
        self.sharing = Sharing::Private;
        self
    }

    /// Makes it read-only.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// Mounts it even in a sealed run.
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

    /// The volume with its host path resolved now.
    pub(super) fn resolved(&self, resolver: &Resolver) -> Result<Self, InvalidSpec> {
        Ok(Self { host_path: self.to_mount().resolved(resolver)?.host_path().to_owned(), ..self.clone() })
    }

    /// Refuses a volume whose path leads elsewhere by now.
    pub(crate) fn refuse_moved(&self) -> Result<(), InvalidSpec> {
        self.to_mount().refuse_moved()
    }

    /// Its path in the container, without a trailing slash.
    pub(crate) fn target(&self) -> &Path {
        // Iteration by components drops trailing slashes.
        Path::new(&self.container_path)
    }
}

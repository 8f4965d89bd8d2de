//! A node's own folders: images for all jobs of a user, and for each job storage of its own, so that no
//! job depends on a process of another.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::syncfs;
use rustix::process::geteuid;
use sandbox_bundle::Digest;
use sandbox_files::{FileLock, Replacement, create_folder};

use crate::config::{Environment, Podman, Service};
use crate::failure::Failure;
use crate::printer::Printer;

/// The lock of a folder, in it.
const LOCK: &str = "lock";
/// The path of a job's images, in its folder.
const IMAGES: &str = "images";
/// The characters of the name of a storage of images, as of a job's folder.
const SHORT: usize = 8;
/// The lock of all jobs' folders.
const JOBS_LOCK: &str = "jobs.lock";

/// The folders of a user on this node.
#[derive(Debug)]
pub(crate) struct Node {
    /// On its disk.
    local: PathBuf,
    /// In memory, for sockets: a boot must empty it.
    pub(super) run: PathBuf,
}

impl Node {
    /// Creates the folders that are missing, that on the disk in `disk`.
    ///
    /// # Errors
    ///
    /// If one belongs to another user.
    pub(crate) fn open(disk: &Path) -> Result<Self, Failure> {
        let user = geteuid().as_raw();
        let name = format!("sandbox-{user}");
        // Not /run/user, which logind makes and removes while jobs run.
        let node = Self { local: disk.join(&name), run: Path::new("/dev/shm").join(&name) };
        owned(
            &node.local,
            user,
            "ask an administrator to remove it, or choose another --local with `sandbox submit`",
        )?;
        owned(&node.run, user, "ask an administrator to remove it")?;
        Ok(node)
    }

    /// The environment in which the state is on this node's disk.
    pub(crate) fn environment(&self, environment: &Environment) -> Environment {
        environment.with("XDG_STATE_HOME", self.local.join("state"))
    }

    /// The storage of the images that `key` describes.
    pub(crate) fn images(&self, key: &str) -> Images {
        // Another folder on the same node has storage of its own, and its jobs run at the same time.
        let digest = Digest::of(format!("{}\n{key}", self.local.display()).as_bytes()).to_string();
        let short: String = digest.chars().take(SHORT).collect();
        Images { storage: self.local.join("images").join(&short), run: self.run.join(short) }
    }

    /// Held while images are loaded or built.
    pub(crate) async fn images_lock(&self) -> Result<FileLock, Failure> {
        let path = self.local.join("images.lock");
        FileLock::exclusive(&path).await.map_err(Failure::doing(format!("lock `{}`", path.display())))
    }
}

/// Storage with the images of jobs, which only read it.
#[derive(Debug)]
pub(crate) struct Images {
    storage: PathBuf,
    run: PathBuf,
}

impl Images {
    /// Podman that writes to it.
    pub(crate) fn podman(&self, environment: &Environment) -> Podman {
        Podman::new(self.storage.clone(), self.run.clone(), None, environment)
    }

    fn mark(&self) -> PathBuf {
        self.storage.with_added_extension("ready")
    }

    /// Whether they are complete.
    pub(crate) fn are_ready(&self) -> bool {
        self.mark().exists()
    }

    pub(crate) fn set_ready(&self) -> Result<(), Failure> {
        let mark = self.mark();
        // With the mark, all files must be on the disk.
        let synced = fs::File::open(&self.storage).and_then(|storage| Ok(syncfs(&storage)?));
        let written = synced.and_then(|()| Replacement::private().durable().write(&mark, b""));
        written.map_err(Failure::doing(format!("write `{}`", mark.display())))
    }
}

/// Creates `folder`, which only this user may change.
fn owned(folder: &Path, user: u32, hint: &str) -> Result<(), Failure> {
    let shown = folder.display();
    create_folder(folder, 0o700).map_err(Failure::doing(format!("create `{shown}` on this node")))?;
    let facts = fs::symlink_metadata(folder).map_err(Failure::doing(format!("read `{shown}`")))?;
    let parent = folder.parent().map_or(Ok(0o700), |parent| fs::metadata(parent).map(|facts| facts.mode()));
    let parent = parent.map_err(Failure::doing(format!("read the folder of `{shown}`")))?;
    // In one like /tmp, only the owner of an entry may rename it.
    let is_safe_there = parent & 0o022 == 0 || parent & 0o1000 != 0;
    if is_safe_there && facts.is_dir() && facts.uid() == user && facts.mode() & 0o022 == 0 {
        return Ok(());
    }
    Err(Failure::new(format!("others can write to `{shown}` on this node, or replace it")).with_hint(hint))
}

/// The folders of one job. What a killed job left is removed by the next one on its node.
#[derive(Debug)]
pub(crate) struct JobFolder {
    folder: PathBuf,
    podman: Podman,
    /// Of all jobs on this node.
    jobs_lock: PathBuf,
    _lock: FileLock,
}

impl JobFolder {
    /// Creates the folders, and removes those of jobs that were killed.
    pub(crate) async fn create(
        node: &Node,
        images: &Images,
        environment: &Environment,
        printer: Printer,
    ) -> Result<Self, Failure> {
        let all = node.local.join("jobs");
        let failed = || Failure::doing(format!("create a folder in `{}`", all.display()));
        create_folder(&all, 0o700).map_err(failed())?;
        let jobs_lock = node.local.join(JOBS_LOCK);
        // While it is held, no folder of an active job is without its own.
        let _lock = FileLock::exclusive(&jobs_lock).await.map_err(failed())?;
        let job = |name: &OsStr, images: Option<PathBuf>, lock| {
            let folder = all.join(name);
            let podman = Podman::new(folder.join("storage"), node.run.join(name), images, environment);
            Self { folder, podman, jobs_lock: jobs_lock.clone(), _lock: lock }
        };
        for entry in fs::read_dir(&all).map_err(failed())? {
            let name = entry.map_err(failed())?.file_name();
            if let Some(lock) = FileLock::try_exclusive(&all.join(&name).join(LOCK)).map_err(failed())? {
                let images = fs::read_to_string(all.join(&name).join(IMAGES)).ok().map(PathBuf::from);
                job(&name, images, lock).remove_within(printer);
            }
        }
        let name = format!("{:08x}", rand::random::<u32>());
        let folder = all.join(&name);
        create_folder(&folder, 0o700).map_err(failed())?;
        let lock = FileLock::exclusive(&folder.join(LOCK)).await.map_err(failed())?;
        // Podman needs them to remove the containers, too.
        let images = images.storage.clone();
        fs::write(folder.join(IMAGES), images.as_os_str().as_encoded_bytes()).map_err(failed())?;
        Ok(job(OsStr::new(&name), Some(images), lock))
    }

    /// Starts the job's podman.
    pub(crate) fn serve(&self) -> Result<Service, Failure> {
        self.podman.serve()
    }

    /// Ends all containers, and removes all files.
    pub(crate) fn remove(self, printer: Printer) {
        // Slow, so without the lock. Below, it finds nothing, or says why this failed.
        let _ = self.podman.remove();
        match FileLock::exclusive_blocking(&self.jobs_lock) {
            Ok(_lock) => self.remove_within(printer),
            Err(error) => printer.warning(format_args!("`{}` remains: {error}", self.folder.display())),
        }
    }

    /// The same while the lock of all jobs is held.
    fn remove_within(self, printer: Printer) {
        let removed = self.podman.remove().and_then(|()| {
            fs::remove_dir_all(&self.folder)
                .map_err(Failure::doing(format!("remove `{}`", self.folder.display())))
        });
        if let Err(failure) = removed {
            printer.failure(&failure);
            printer.warning("the next job of this user on the node removes the rest");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_of_two_folders_on_a_node_have_nothing_in_common() {
        let node = |local: &str| Node { local: local.into(), run: "/run".into() };
        let images = |local| node(local).images("key");
        assert_ne!(images("/a").run, images("/b").run);
        assert_eq!(images("/a").run, images("/a").run, "the control");
    }
}

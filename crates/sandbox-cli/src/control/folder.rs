//! The folder of the sockets, and the way to each, which is short however long the path of the
//! folder is.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::process::geteuid;
use sandbox_files::create_folder;
use tokio::net::UnixStream;

const FOLDER: &str = "control";
/// What the name of a socket ends with, after the id of its instance.
const SOCKET: &str = ".sock";
/// The same, while nothing listens yet: what no one listens on counts as left behind.
const FRESH: &str = ".new";

/// The folder `control` of a state folder, open.
#[derive(Debug)]
pub(super) struct ControlFolder(OwnedFd);

impl ControlFolder {
    /// Opens it, and makes it where it is missing. Only its owner can enter it.
    pub(super) fn create(state: &Path) -> io::Result<Self> {
        create_folder(&state.join(FOLDER), 0o700)?;
        let folder = Self::open(state)?.ok_or(io::ErrorKind::NotFound)?;
        if rustix::fs::fstat(&folder.0)?.st_uid != geteuid().as_raw() {
            return Err(io::Error::other("its folder belongs to another user"));
        }
        rustix::fs::fchmod(&folder.0, Mode::RWXU)?;
        Ok(folder)
    }

    /// Opens it; `None` where no run made it yet.
    pub(super) fn open(state: &Path) -> io::Result<Option<Self>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::open(state.join(FOLDER), flags, Mode::empty()) {
            Ok(folder) => Ok(Some(Self(folder))),
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Listens on the socket of `run`, which only its owner can open. It is found once it listens.
    pub(super) fn listen(&self, run: &str) -> io::Result<UnixListener> {
        let (fresh, name) = (format!("{run}{FRESH}"), format!("{run}{SOCKET}"));
        let listener = UnixListener::bind(self.path(&fresh))?;
        rustix::fs::chmodat(&self.0, &fresh, Mode::RUSR | Mode::WUSR, AtFlags::empty())?;
        rustix::fs::renameat(&self.0, &fresh, &self.0, &name)?;
        Ok(listener)
    }

    /// Connects to the socket of `run`.
    pub(super) async fn connect(&self, run: &str) -> io::Result<UnixStream> {
        UnixStream::connect(self.path(&format!("{run}{SOCKET}"))).await
    }

    /// Removes the socket of `run`.
    pub(super) fn remove(&self, run: &str) {
        // One that is gone is as good as removed, and any other is found to be left behind later.
        let _ = rustix::fs::unlinkat(&self.0, format!("{run}{SOCKET}"), AtFlags::empty());
    }

    /// The runs that have a socket, in no order.
    pub(super) fn runs(&self) -> io::Result<Vec<String>> {
        let mut runs = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            let entry = entry?;
            let run = entry.file_name().to_str().ok().and_then(|name| name.strip_suffix(SOCKET));
            runs.extend(run.map(str::to_owned));
        }
        Ok(runs)
    }

    /// A path of a few bytes, for a name of a socket has no room for more than 107.
    fn path(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}/{name}", self.0.as_raw_fd()))
    }
}

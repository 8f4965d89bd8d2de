//! The folder of the sockets, and short paths to them, regardless of the length of the folder's
//! path.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::process::geteuid;
use sandbox_files::create_folder;
use tokio::net::UnixStream;

const FOLDER: &str = "control";
/// The suffix of a socket's name, after the id of its instance.
const SOCKET: &str = ".sock";
/// The same, before it listens: a socket without a listener counts as stale.
const FRESH: &str = ".new";

/// The folder `control` of a state folder, open.
#[derive(Debug)]
pub(super) struct ControlFolder(OwnedFd);

impl ControlFolder {
    /// Opens it, or creates it. Only its owner can enter it.
    pub(super) fn create(state: &Path) -> io::Result<Self> {
        create_folder(&state.join(FOLDER), 0o700)?;
        let folder = Self::open(state)?.ok_or(io::ErrorKind::NotFound)?;
        if rustix::fs::fstat(&folder.0)?.st_uid != geteuid().as_raw() {
            return Err(io::Error::other("its folder belongs to another user"));
        }
        rustix::fs::fchmod(&folder.0, Mode::RWXU)?;
        Ok(folder)
    }

    /// Opens it; `None` if no run created it yet.
    pub(super) fn open(state: &Path) -> io::Result<Option<Self>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::open(state.join(FOLDER), flags, Mode::empty()) {
            Ok(folder) => Ok(Some(Self(folder))),
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Listens on the socket of `run`, which only its owner can open. The socket gets its name once
    /// it listens.
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
        // A socket that is already gone is fine, and a remaining one is found to be stale later.
        let _ = rustix::fs::unlinkat(&self.0, format!("{run}{SOCKET}"), AtFlags::empty());
    }

    /// The runs that have a socket, unordered.
    pub(super) fn runs(&self) -> io::Result<Vec<String>> {
        let mut runs = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            let entry = entry?;
            let run = entry.file_name().to_str().ok().and_then(|name| name.strip_suffix(SOCKET));
            runs.extend(run.map(str::to_owned));
        }
        Ok(runs)
    }

    /// A short path: the name of a socket is limited to 107 bytes.
    fn path(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}/{name}", self.0.as_raw_fd()))
    }
}

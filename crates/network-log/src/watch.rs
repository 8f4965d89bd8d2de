//! Waits for changes in a folder.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::inotify;
use tokio::net::unix::pipe;

/// The kernel's notifications for one folder.
#[derive(Debug)]
pub(crate) struct FolderWatch {
    /// Not a pipe, but this type only reads it, which works alike.
    notifications: pipe::Receiver,
}

impl FolderWatch {
    /// Watches `dir` for files that grow, appear or are put in place.
    pub(crate) fn open(dir: &Path) -> io::Result<Self> {
        let fd = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
        let interest =
            inotify::WatchFlags::MODIFY | inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO;
        inotify::add_watch(&fd, dir, interest | inotify::WatchFlags::ONLYDIR)?;
        Ok(Self { notifications: pipe::Receiver::from_file_unchecked(File::from(fd))? })
    }

    /// Returns after a change, also one that happened before the call. The caller must find out
    /// what changed.
    pub(crate) async fn changed(&mut self) -> io::Result<()> {
        let mut buffer = [0; 4096];
        let mut changed = false;
        while !changed {
            self.notifications.readable().await?;
            // Reads all notifications: the caller looks once for many changes.
            loop {
                match self.notifications.try_read(&mut buffer) {
                    Ok(_) => changed = true,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }
}

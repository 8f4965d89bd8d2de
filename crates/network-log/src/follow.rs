//! Follows a log that grows.

use std::fmt;
use std::fs::File;
use std::future::Future;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;

use crate::watch::FolderWatch;

/// How much is read at once.
const CHUNK: usize = 64 * 1024;
/// A longer line is not ours; it is returned in pieces and not kept in memory.
const LONGEST_LINE: usize = 1024 * 1024;

/// The lines of a log, as they arrive. It waits for the kernel's notifications and never polls.
pub struct LogFollower {
    path: PathBuf,
    watch: FolderWatch,
    file: Option<File>,
    /// Read, but not yet returned.
    pending: Vec<u8>,
    end: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl LogFollower {
    /// Follows the file at `path`, which need not exist yet; its folder must.
    ///
    /// # Errors
    ///
    /// If the folder cannot be watched.
    pub fn of_file(path: &Path) -> io::Result<Self> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        match path.file_name() {
            Some(name) => Self::open(folder, Path::new(name)),
            None => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    pub(crate) fn open(dir: &Path, name: impl AsRef<Path>) -> io::Result<Self> {
        // The watch first: lines written in between are then noticed twice instead of never.
        let watch = FolderWatch::open(dir)?;
        Ok(Self { path: dir.join(name), watch, file: None, pending: Vec::new(), end: None })
    }

    /// Ends when `end` completes, after everything that was in the file by then.
    #[must_use]
    pub fn until(mut self, end: impl Future<Output = ()> + Send + 'static) -> Self {
        self.end = Some(Box::pin(end));
        self
    }

    /// The next whole line, without a newline; `None` when the follower was asked to end. Dropping
    /// the future loses nothing.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub async fn next_line(&mut self) -> io::Result<Option<String>> {
        let mut ending = false;
        loop {
            if let Some(line) = self.take_line() {
                return Ok(Some(line));
            }
            if self.read_more()? {
                continue;
            }
            if ending {
                return Ok(None);
            }
            ending = self.changed_or_ended().await?;
        }
    }

    /// Returns whether the follower was asked to end.
    async fn changed_or_ended(&mut self) -> io::Result<bool> {
        let Some(end) = &mut self.end else {
            self.watch.changed().await?;
            return Ok(false);
        };
        tokio::select! {
            changed = self.watch.changed() => changed.map(|()| false),
            () = end => {
                // A completed future must not be polled again; once ended, it stays so.
                self.end = Some(Box::pin(std::future::ready(())));
                Ok(true)
            }
        }
    }

    fn take_line(&mut self) -> Option<String> {
        let end = match self.pending.iter().position(|byte| *byte == b'\n') {
            Some(newline) => newline + 1,
            None if self.pending.len() >= LONGEST_LINE => LONGEST_LINE,
            None => return None,
        };
        let rest = self.pending.split_off(end);
        let mut line = std::mem::replace(&mut self.pending, rest);
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        Some(String::from_utf8_lossy(&line).into_owned())
    }

    /// Reads more of the file; returns whether there was more.
    fn read_more(&mut self) -> io::Result<bool> {
        if self.file.is_none() || self.replaced()? {
            self.pending.clear();
            self.file = match File::open(&self.path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
                opened => Some(opened?),
            };
        }
        let Some(file) = &mut self.file else {
            return Ok(false);
        };
        let mut chunk = vec![0; CHUNK];
        let count = file.read(&mut chunk)?;
        chunk.truncate(count);
        self.pending.append(&mut chunk);
        Ok(count > 0)
    }

    /// Whether the file at the path is not the open one, which is checked only at the end of the
    /// latter.
    fn replaced(&self) -> io::Result<bool> {
        let Some(file) = &self.file else { return Ok(false) };
        let ours = file.metadata()?;
        Ok(match std::fs::metadata(&self.path) {
            Ok(now) => (now.dev(), now.ino()) != (ours.dev(), ours.ino()),
            Err(_) => false,
        })
    }
}

impl fmt::Debug for LogFollower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogFollower").field("path", &self.path).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write;
    use std::time::Duration;

    use tokio::sync::oneshot;

    use super::*;

    const NAME: &str = "network-sandbox.log";

    fn append(dir: &Path, text: &str) {
        let file = OpenOptions::new().create(true).append(true).open(dir.join(NAME));
        file.unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// A follower that fails a test instead of hanging it.
    async fn next(follower: &mut LogFollower) -> Option<String> {
        tokio::time::timeout(Duration::from_secs(10), follower.next_line())
            .await
            .expect("no line came")
            .unwrap()
    }

    #[tokio::test]
    async fn existing_and_new_lines_are_returned_whole() {
        let dir = tempfile::tempdir().unwrap();
        append(dir.path(), "one\ntw");
        let mut follower = LogFollower::open(dir.path(), NAME).unwrap();
        assert_eq!(next(&mut follower).await.as_deref(), Some("one"));
        let path = dir.path().to_owned();
        let (line, ()) = tokio::join!(next(&mut follower), async move {
            append(&path, "o");
            tokio::task::yield_now().await;
            append(&path, "\nthree\n");
        });
        assert_eq!(line.as_deref(), Some("two"));
        assert_eq!(next(&mut follower).await.as_deref(), Some("three"));
    }

    #[tokio::test]
    async fn file_may_appear_later() {
        let dir = tempfile::tempdir().unwrap();
        let mut follower = LogFollower::open(dir.path(), NAME).unwrap();
        let path = dir.path().to_owned();
        let (line, ()) = tokio::join!(next(&mut follower), async move {
            tokio::task::yield_now().await;
            append(&path, "first\n");
        });
        assert_eq!(line.as_deref(), Some("first"));
    }

    #[tokio::test]
    async fn follower_ends_after_the_last_whole_line() {
        let dir = tempfile::tempdir().unwrap();
        let (sender, receiver) = oneshot::channel::<()>();
        let follower = LogFollower::open(dir.path(), NAME).unwrap();
        let mut follower = follower.until(async move { drop(receiver.await) });
        append(dir.path(), "last\nhalf");
        sender.send(()).unwrap();
        assert_eq!(next(&mut follower).await.as_deref(), Some("last"));
        assert_eq!(next(&mut follower).await, None);
        assert_eq!(next(&mut follower).await, None);
    }

    #[tokio::test]
    async fn replacing_file_is_read_from_its_start() {
        let dir = tempfile::tempdir().unwrap();
        append(dir.path(), "old\n");
        let mut follower = LogFollower::open(dir.path(), NAME).unwrap();
        assert_eq!(next(&mut follower).await.as_deref(), Some("old"));
        fs::write(dir.path().join("new"), "new\n").unwrap();
        fs::rename(dir.path().join("new"), dir.path().join(NAME)).unwrap();
        assert_eq!(next(&mut follower).await.as_deref(), Some("new"));
    }
}

//! The output of a run in its folder, as frames, from its start.
//!
//! It is in two files, which bounds its size: when the current one is full, it takes the place of
//! the older one. The owner holds a lock of the current file until the end of the run.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::frame::{Frame, LONGEST};

/// The size of a file, in bytes, at which the next one begins: 1 GiB of output, with its frames.
const FULL: u64 = (1 << 30) + (16 << 20);
/// The time after which a reader looks for more.
const INTERVAL: Duration = Duration::from_millis(100);

/// The files of a running run's output.
#[derive(Debug)]
pub(crate) struct Writer {
    path: PathBuf,
    pub(super) file: File,
    full: u64,
    /// The size of the current file.
    size: u64,
    /// The length of all output so far.
    length: u64,
}

impl Writer {
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let mut writer =
            Self { path: path.to_owned(), file: File::open("/dev/null")?, full: FULL, size: 0, length: 0 };
        writer.begin()?;
        Ok(writer)
    }

    pub(crate) fn add(&mut self, frame: &Frame) -> io::Result<()> {
        if self.size >= self.full {
            self.begin()?;
        }
        let bytes = frame.bytes();
        if let Err(error) = self.file.write_all(&bytes) {
            // A part of a frame would be the end of all that is readable.
            let _ = self.file.set_len(self.size).and_then(|()| self.file.seek(SeekFrom::End(0)));
            return Err(error);
        }
        self.size += bytes.len() as u64;
        self.length += frame.output().map_or(0, <[u8]>::len) as u64;
        Ok(())
    }

    /// Begins the next file.
    fn begin(&mut self) -> io::Result<()> {
        let new = self.path.with_extension("new");
        let mut file = File::create(&new)?;
        file.lock()?;
        let begin = Frame::Offset(self.length).bytes();
        file.write_all(&begin)?;
        if self.path.exists() {
            fs::rename(&self.path, older(&self.path))?;
        }
        fs::rename(&new, &self.path)?;
        (self.file, self.size) = (file, begin.len() as u64);
        Ok(())
    }
}

/// The file before the current one.
fn older(path: &Path) -> PathBuf {
    path.with_extension("older")
}

/// Reads the output of a run, which may still be in progress.
#[derive(Debug)]
pub(crate) struct Reader {
    path: PathBuf,
    file: File,
    /// Bytes of the file, and the number of those that were returned.
    bytes: Vec<u8>,
    returned: usize,
    /// The length of the output that was returned, or is not in the files any more.
    length: u64,
    /// Whether to wait for the end of the run.
    follow: bool,
    /// The file that follows this one, if there is one.
    next: Option<File>,
    ended: bool,
}

impl Reader {
    /// Opens the output in the file `path`.
    pub(crate) fn open(path: &Path, follow: bool) -> io::Result<Self> {
        let opened = || File::open(older(path)).or_else(|_| File::open(path));
        // The first is there if the second just took its place.
        let file = opened().or_else(|_| opened())?;
        Ok(Self::at(path, file, 0, follow))
    }

    /// At the begin of `file`.
    fn at(path: &Path, file: File, length: u64, follow: bool) -> Self {
        let (bytes, path) = (Vec::new(), path.to_owned());
        Self { path, file, bytes, returned: 0, length, follow, next: None, ended: false }
    }

    /// The next frame; `None` at the end of the output.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Frame>> {
        loop {
            if let Some(frame) = self.frame().await? {
                let Frame::Offset(offset) = frame else {
                    self.length += frame.output().map_or(0, <[u8]>::len) as u64;
                    return Ok(Some(frame));
                };
                let lost = offset.saturating_sub(self.length);
                self.length = offset;
                if lost > 0 {
                    return Ok(Some(Frame::Message(format!("… {lost} bytes are not kept …\n").into())));
                }
            } else if self.read()? {
                // There may be a complete frame now. A signal can end the reader.
                tokio::task::yield_now().await;
            } else if let Some(next) = self.next.take() {
                // A frame of which only a part was written cannot be continued there.
                *self = Self::at(&self.path, next, self.length, self.follow);
            } else if let Some(next) = self.next_file()? {
                // The last frames may have been written in between.
                self.next = Some(next);
            } else if self.ended {
                return Ok(None);
            } else if self.file.try_lock_shared().is_ok() {
                // As above.
                self.ended = true;
            } else if self.follow {
                // tidy: sleep: the writer of a file sends no event
                tokio::time::sleep(INTERVAL).await;
            } else {
                return Ok(None);
            }
        }
    }

    /// Reads more of the file; returns whether there was more.
    fn read(&mut self) -> io::Result<bool> {
        self.bytes.drain(..std::mem::take(&mut self.returned));
        Ok((&self.file).take(LONGEST as u64).read_to_end(&mut self.bytes)? > 0)
    }

    /// The next frame among the bytes that were read.
    async fn frame(&mut self) -> io::Result<Option<Frame>> {
        let mut bytes = self.bytes.get(self.returned..).unwrap_or_default();
        match Frame::read(&mut bytes).await {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Ok(Some(frame)) => {
                self.returned = self.bytes.len() - bytes.len();
                Ok(Some(frame))
            }
            ended => ended,
        }
    }

    /// The file that follows the one at whose end we are.
    fn next_file(&self) -> io::Result<Option<File>> {
        let id = |file: &File| file.metadata().map(|facts| (facts.dev(), facts.ino()));
        let own = id(&self.file)?;
        let current = File::open(&self.path).ok();
        let is_own = |file: &File| id(file).is_ok_and(|id| id == own);
        if current.as_ref().is_some_and(is_own) {
            return Ok(None);
        }
        match File::open(older(&self.path)) {
            // It follows ours, which is gone.
            Ok(older) if !is_own(&older) => Ok(Some(older)),
            _ => Ok(current),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    fn output(text: &str) -> Frame {
        Frame::Output(text.as_bytes().to_vec())
    }

    /// The output and messages up to now, or to the end of the run.
    async fn all(reader: &mut Reader) -> String {
        let mut all = String::new();
        while let Ok(Ok(Some(frame))) = timeout(INTERVAL / 2, reader.next()).await {
            all += std::str::from_utf8(frame.output().unwrap_or_default()).unwrap();
        }
        all
    }

    fn writer(path: &Path) -> Writer {
        Writer { full: 100, ..Writer::create(path).unwrap() }
    }

    #[tokio::test(start_paused = true)]
    async fn output_is_read_while_it_is_written_until_the_run_ends() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("output");
        let mut writer = Writer::create(&path).unwrap();
        writer.add(&output("one ")).unwrap();
        let mut follower = Reader::open(&path, true).unwrap();
        assert_eq!(all(&mut follower).await, "one ");
        assert_eq!(all(&mut Reader::open(&path, false).unwrap()).await, "one ");
        writer.add(&Frame::Message(b"two".to_vec())).unwrap();
        // A frame of which only a part is written.
        let (begin, end) = (&[2, 0, 0, 0, 6, b' '][..], b"three");
        writer.file.write_all(begin).unwrap();
        assert_eq!(follower.next().await.unwrap(), Some(Frame::Message(b"two".to_vec())));
        assert!(timeout(INTERVAL / 2, follower.next()).await.is_err(), "it waits");
        writer.file.write_all(end).unwrap();
        assert_eq!(follower.next().await.unwrap(), Some(output(" three")));
        writer.add(&Frame::Exit(3)).unwrap();
        writer.file.write_all(begin).unwrap();
        drop(writer);
        assert_eq!(follower.next().await.unwrap(), Some(Frame::Exit(3)));
        assert_eq!(follower.next().await.unwrap(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn size_is_bounded_and_a_gap_is_marked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("output");
        let mut writer = writer(&path);
        let mut slow = Reader::open(&path, true).unwrap();
        let mut fast = Reader::open(&path, true).unwrap();
        let (mut written, mut read) = (String::new(), String::new());
        for number in 100..200 {
            let text = format!("{number} ");
            writer.add(&output(&text)).unwrap();
            written += &text;
            read += &all(&mut fast).await;
        }
        assert_eq!(read, written, "nothing is lost for a reader that keeps up");
        let sizes: Vec<u64> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().metadata().unwrap().len())
            .collect();
        assert!(sizes.len() == 2 && sizes.iter().all(|size| *size < 120), "{sizes:?}");
        for reader in [&mut slow, &mut Reader::open(&path, true).unwrap()] {
            let text = all(reader).await;
            let (before, after) = text.split_once("… ").unwrap();
            let (lost, after) = after.split_once(" bytes are not kept …\n").unwrap();
            assert!(written.starts_with(before) && written.ends_with(after), "{text}");
            assert_eq!(before.len() + lost.parse::<usize>().unwrap() + after.len(), written.len(), "{text}");
            assert!(after.len() > 50, "{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn removed_output_ends_its_reader() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("output");
        let mut writer = writer(&path);
        writer.add(&output("one")).unwrap();
        let mut reader = Reader::open(&path, true).unwrap();
        assert_eq!(all(&mut reader).await, "one");
        fs::remove_file(&path).unwrap();
        drop(writer);
        assert_eq!(reader.next().await.unwrap(), None);
        assert!(Reader::open(&path, true).is_err());
    }
}

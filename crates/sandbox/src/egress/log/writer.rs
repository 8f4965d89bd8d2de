//! Appends lines to the two files, within bounds: a task decides how much there is to tell, and must not fill the host's disk with it.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::entry::LogEntry;
use super::{JSON_NAME, TEXT_NAME, line};
use crate::egress::ProxyError;
use sandbox_proxy_protocol::{Event, Record};

/// Both files of one task, open for appending.
#[derive(Debug)]
pub(super) struct LogWriter {
    text: Appender,
    json: Appender,
    /// Records that were not kept.
    dropped: u64,
}

/// Bytes that one execution may add to each file: 64 MiB. Two marks may come on top.
const LIMIT: u64 = 64 << 20;

impl LogWriter {
    /// Opens both files in `dir`, which is created where it is missing. Blocks.
    pub(super) fn open(dir: &Path) -> Result<Self, ProxyError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .map_err(ProxyError::file("create the folder", dir))?;
        Ok(Self {
            text: Appender::open(dir.join(TEXT_NAME))?,
            json: Appender::open(dir.join(JSON_NAME))?,
            dropped: 0,
        })
    }

    /// Writes to a device that has no space.
    #[cfg(test)]
    pub(super) fn full() -> Self {
        let open = || {
            let path = PathBuf::from("/dev/full");
            Appender {
                file: OpenOptions::new().append(true).open(&path).unwrap(),
                path,
                room: LIMIT,
            }
        };
        Self {
            text: open(),
            json: open(),
            dropped: 0,
        }
    }

    /// Appends those of `records` for which there is room, each file with one write: a reader sees whole lines. The first for which
    /// there is none is the last that is told of. Blocks.
    pub(super) fn append(&mut self, records: &[Record]) -> Result<(), ProxyError> {
        let mut text = String::new();
        let mut json = String::new();
        for record in records {
            if self.dropped > 0 {
                self.dropped += 1;
                continue;
            }
            let (line, entry) = self.lines(record)?;
            let fits =
                self.text.has_room(text.len() + line.len()) && self.json.has_room(json.len() + entry.len());
            if fits {
                text.push_str(&line);
                json.push_str(&entry);
                continue;
            }
            let mark = format!("log truncated: it has {} MiB of this execution", LIMIT >> 20);
            let (line, entry) = self.lines(&warning(record.at_ms, mark))?;
            text.push_str(&line);
            json.push_str(&entry);
            self.dropped = 1;
        }
        self.text.append(text.as_bytes())?;
        self.json.append(json.as_bytes())
    }

    /// Says how many records were not kept, at `at_ms`, where there are any. Blocks.
    pub(super) fn finish(&mut self, at_ms: u64) -> Result<(), ProxyError> {
        if self.dropped == 0 {
            return Ok(());
        }
        let mark = format!("log truncated: {} records are missing", self.dropped);
        let (line, entry) = self.lines(&warning(at_ms, mark))?;
        self.text.append(line.as_bytes())?;
        self.json.append(entry.as_bytes())
    }

    fn lines(&self, record: &Record) -> Result<(String, String), ProxyError> {
        let entry = LogEntry::of(record)
            .to_line()
            .map_err(ProxyError::file("write to", &self.json.path))?;
        Ok((line::render(record) + "\n", entry))
    }
}

fn warning(at_ms: u64, text: String) -> Record {
    Record {
        at_ms,
        event: Event::Warning { text },
    }
}

#[derive(Debug)]
struct Appender {
    file: File,
    path: PathBuf,
    /// Bytes that may still be added.
    room: u64,
}

impl Appender {
    fn open(path: PathBuf) -> Result<Self, ProxyError> {
        let opened = open_own(&path);
        Ok(Self {
            file: opened.map_err(ProxyError::file("open the network log", &path))?,
            path,
            room: LIMIT,
        })
    }

    fn has_room(&self, length: usize) -> bool {
        u64::try_from(length).is_ok_and(|length| length <= self.room)
    }

    fn append(&mut self, lines: &[u8]) -> Result<(), ProxyError> {
        self.room = self
            .room
            .saturating_sub(u64::try_from(lines.len()).unwrap_or(u64::MAX));
        self.file
            .write_all(lines)
            .map_err(ProxyError::file("write to", &self.path))
    }
}

/// Opens for appending. A symbolic link or anything else that is no plain file is refused: a task may have had the folder mounted
/// before.
fn open_own(path: &Path) -> io::Result<File> {
    let no_follow = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(no_follow.bits()).map_err(io::Error::other)?;
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .custom_flags(flags)
        .open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other("not a plain file"))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn warning(text: &str) -> Record {
        super::warning(0, text.to_owned())
    }

    #[test]
    fn what_is_there_stays_and_only_the_owner_reads() {
        let dir = tempfile::tempdir().unwrap();
        for text in ["one", "two"] {
            LogWriter::open(dir.path())
                .unwrap()
                .append(&[warning(text)])
                .unwrap();
        }
        assert_eq!(
            fs::read_to_string(dir.path().join(TEXT_NAME)).unwrap(),
            "WARNING one\nWARNING two\n"
        );
        assert_eq!(
            fs::read_to_string(dir.path().join(JSON_NAME))
                .unwrap()
                .lines()
                .count(),
            2
        );
        for name in [TEXT_NAME, JSON_NAME] {
            let mode = fs::metadata(dir.path().join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
    }

    #[test]
    fn a_link_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("precious");
        fs::write(&target, "").unwrap();
        symlink(&target, dir.path().join(TEXT_NAME)).unwrap();
        let error = LogWriter::open(dir.path()).unwrap_err().to_string();
        assert!(error.contains(TEXT_NAME), "{error}");
    }

    #[test]
    fn what_is_too_much_is_counted_and_told_once() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = LogWriter::open(dir.path()).unwrap();
        // As if all but some hundred bytes had been written.
        writer.json.room = 300;
        let long = "x".repeat(100);
        let read = |name| fs::read_to_string(dir.path().join(name)).unwrap();
        writer.append(&[warning(&long), warning(&long)]).unwrap();
        writer.append(&[warning(&long)]).unwrap();
        // Short ones would fit, but what is kept has no gaps.
        writer.append(&[warning("short"), warning("short")]).unwrap();
        writer.finish(0).unwrap();
        let text = read(TEXT_NAME);
        let expected = format!(
            "WARNING {long}\nWARNING log truncated: it has 64 MiB of this execution\nWARNING log truncated: 4 records are missing\n"
        );
        assert_eq!(text, expected);
        let entries = read(JSON_NAME);
        assert_eq!(entries.lines().count(), 3);
        for line in entries.lines() {
            LogEntry::parse(line).unwrap();
        }
    }

    #[test]
    fn a_log_with_room_has_no_marks() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = LogWriter::open(dir.path()).unwrap();
        writer.append(&[warning("a")]).unwrap();
        writer.finish(0).unwrap();
        let text = fs::read_to_string(dir.path().join(TEXT_NAME)).unwrap();
        assert_eq!(text, "WARNING a\n");
    }
}

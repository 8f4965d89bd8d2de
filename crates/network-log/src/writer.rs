//! Appends lines to the two files, within bounds: a task decides how much there is to write, and
//! must not fill the host's disk with it.
//!
//! Permitted requests and everything else have a budget each, so that refusals cannot push an
//! upload out of the log. The proxy refuses requests before the first budget is used up; if it is
//! used up all the same, that is an error, which ends the proxy.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use sandbox_files::create_folder;
use sandbox_proxy_protocol::{Event, Record};

use crate::error::LogError;
use crate::fold::Line;
use crate::{JSON_NAME, TEXT_NAME};

/// Both files of one task, open for appending.
#[derive(Debug)]
pub(crate) struct LogWriter {
    text: Appender,
    json: Appender,
    /// Records that were not kept.
    dropped: u64,
}

/// Bytes that the permitted requests of one execution may add to each file: 80 MiB. Its proxy stops
/// at 64 MiB, in its own, careful estimate.
const PERMITTED: u64 = 80 << 20;
/// Bytes that everything else may add: 16 MiB. Two marks may come on top.
const OTHERS: u64 = 16 << 20;
/// How far back the last whole line of a file is looked for.
const LONGEST_LINE: u64 = 1 << 20;

impl LogWriter {
    /// Opens both files in `dir`, which is created where it is missing. Blocks.
    pub(crate) fn open(dir: &Path) -> Result<Self, LogError> {
        create_folder(dir, 0o700).map_err(LogError::file("create the folder", dir))?;
        Ok(Self {
            text: Appender::open(dir.join(TEXT_NAME))?,
            json: Appender::open(dir.join(JSON_NAME))?,
            dropped: 0,
        })
    }

    /// Appends those of `lines` for which there is room, each file with one write: a reader sees
    /// whole lines. After the first line without room, only permitted ones are logged; for them
    /// there must be room. Blocks.
    pub(crate) fn append(&mut self, lines: &[Line]) -> Result<(), LogError> {
        let mut batch = Batch::default();
        for line in lines {
            if !line.permitted && self.dropped > 0 {
                self.dropped += 1;
            } else if self.fits(line)? {
                self.add(&mut batch, line)?;
            } else {
                self.dropped = 1;
                let mark = format!(
                    "log truncated: it has {} MiB of refusals in this execution; permitted requests are still logged",
                    OTHERS >> 20
                );
                self.add(&mut batch, &mark_of(line.at_ms, mark))?;
            }
        }
        self.write(&batch)
    }

    /// Writes how many records were not kept, at `at_ms`, if any. Blocks.
    pub(crate) fn finish(&mut self, at_ms: u64) -> Result<(), LogError> {
        if self.dropped == 0 {
            return Ok(());
        }
        let mark = format!("log truncated: {} records are missing", self.dropped);
        let mut batch = Batch::default();
        self.add(&mut batch, &mark_of(at_ms, mark))?;
        self.write(&batch)
    }

    /// Takes the room for `line` in both files, if there is some.
    fn fits(&mut self, line: &Line) -> Result<bool, LogError> {
        let lengths = (line.text.len() + 1, self.entry(line)?.len());
        let fits = self.text.take(line.permitted, lengths.0) && self.json.take(line.permitted, lengths.1);
        if fits || !line.permitted {
            return Ok(fits);
        }
        let full = io::Error::other("it has as much of this execution as it may");
        Err(LogError::file("write to", &self.json.path)(full))
    }

    fn add(&self, batch: &mut Batch, line: &Line) -> Result<(), LogError> {
        batch.text.push_str(&line.text);
        batch.text.push('\n');
        batch.json.push_str(&self.entry(line)?);
        Ok(())
    }

    fn entry(&self, line: &Line) -> Result<String, LogError> {
        let entry = line.entry.to_line();
        entry.map_err(LogError::file("write to", &self.json.path))
    }

    fn write(&mut self, batch: &Batch) -> Result<(), LogError> {
        self.text.append(batch.text.as_bytes())?;
        self.json.append(batch.json.as_bytes())
    }
}

/// The lines of one write.
#[derive(Debug, Default)]
struct Batch {
    text: String,
    json: String,
}

fn mark_of(at_ms: u64, text: String) -> Line {
    let event = Event::Warning { text };
    Line::of(&Record { at_ms, event }, 0)
}

#[derive(Debug)]
struct Appender {
    file: File,
    path: PathBuf,
    /// Bytes that may still be added: of permitted requests, and of everything else.
    permitted: u64,
    others: u64,
}

impl Appender {
    fn open(path: PathBuf) -> Result<Self, LogError> {
        let opened = open_own(&path).and_then(|file| end_with_a_line(&file).map(|()| file));
        let file = opened.map_err(LogError::file("open the network log", &path))?;
        Ok(Self { file, path, permitted: PERMITTED, others: OTHERS })
    }

    /// Takes the room for a line of `length` bytes, if there is some.
    fn take(&mut self, permitted: bool, length: usize) -> bool {
        let room = if permitted { &mut self.permitted } else { &mut self.others };
        let left = u64::try_from(length).ok().and_then(|length| room.checked_sub(length));
        *room = left.unwrap_or(*room);
        left.is_some()
    }

    /// Appends whole lines: if a full disk takes only a part of the last one, that is cut off.
    fn append(&mut self, lines: &[u8]) -> Result<(), LogError> {
        let written = self.file.write_all(lines);
        if written.is_err() {
            // The error of the write is worth more than one of the cleanup.
            let _ = end_with_a_line(&self.file);
        }
        written.map_err(LogError::file("write to", &self.path))
    }
}

/// Cuts off an incomplete last line: no reader could use it, and the next line would be appended to
/// it.
fn end_with_a_line(mut file: &File) -> io::Result<()> {
    let length = file.metadata()?.len();
    let start = length.saturating_sub(LONGEST_LINE);
    file.seek(SeekFrom::Start(length.saturating_sub(1)))?;
    let mut end = Vec::new();
    file.take(1).read_to_end(&mut end)?;
    if length == 0 || end == b"\n" {
        return Ok(());
    }
    file.seek(SeekFrom::Start(start))?;
    end.clear();
    file.take(LONGEST_LINE).read_to_end(&mut end)?;
    let whole = end.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    file.set_len(start + u64::try_from(whole).unwrap_or_default())
}

/// Opens for appending and, to find the last line, reading. A symbolic link or anything else that
/// is not a plain file is refused: a task may have had the folder mounted before.
fn open_own(path: &Path) -> io::Result<File> {
    let no_follow = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(no_follow.bits()).map_err(io::Error::other)?;
    let file =
        OpenOptions::new().create(true).read(true).append(true).mode(0o600).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("not a plain file")) }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use sandbox_proxy_protocol::{RequestOutcome, RequestRecord, Scheme};

    use super::*;
    use crate::entry::LogEntry;

    fn warning(text: &str) -> Line {
        mark_of(0, text.to_owned())
    }

    /// A permitted request.
    fn permitted(target: &str) -> Line {
        let asked =
            RequestRecord::asked("PUT".to_owned(), Scheme::Https, "a.b".to_owned(), target.to_owned());
        let event = Event::Request(RequestRecord { decision: RequestOutcome::Allowed, ..asked });
        Line::of(&Record { at_ms: 0, event }, 0)
    }

    #[test]
    fn existing_content_stays_and_only_the_owner_reads() {
        let dir = tempfile::tempdir().unwrap();
        for text in ["one", "two"] {
            LogWriter::open(dir.path()).unwrap().append(&[warning(text)]).unwrap();
        }
        assert_eq!(fs::read_to_string(dir.path().join(TEXT_NAME)).unwrap(), "WARNING one\nWARNING two\n");
        assert_eq!(fs::read_to_string(dir.path().join(JSON_NAME)).unwrap().lines().count(), 2);
        for name in [TEXT_NAME, JSON_NAME] {
            let mode = fs::metadata(dir.path().join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
    }

    #[test]
    fn link_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("precious");
        fs::write(&target, "").unwrap();
        symlink(&target, dir.path().join(TEXT_NAME)).unwrap();
        let error = LogWriter::open(dir.path()).unwrap_err().to_string();
        assert!(error.contains(TEXT_NAME), "{error}");
    }

    #[test]
    fn excess_records_are_counted_and_reported_once() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = LogWriter::open(dir.path()).unwrap();
        // As if all but some hundred bytes had been written.
        writer.json.others = 300;
        let long = "x".repeat(100);
        let read = |name| fs::read_to_string(dir.path().join(name)).unwrap();
        writer.append(&[warning(&long), warning(&long)]).unwrap();
        writer.append(&[warning(&long)]).unwrap();
        // Short ones would fit, but the log has no gaps.
        writer.append(&[warning("short"), permitted("/up"), warning("short")]).unwrap();
        writer.finish(0).unwrap();
        let text = read(TEXT_NAME);
        let expected = format!(
            "WARNING {long}\nWARNING log truncated: it has 16 MiB of refusals in this execution; permitted requests \
             are still logged\nallowed PUT https://a.b/up -> -\nWARNING log truncated: 4 records are missing\n"
        );
        assert_eq!(text, expected);
        let entries = read(JSON_NAME);
        assert_eq!(entries.lines().count(), 4);
        for line in entries.lines() {
            LogEntry::parse(line).unwrap();
        }
    }

    #[test]
    fn permitted_request_without_room_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = LogWriter::open(dir.path()).unwrap();
        writer.text.permitted = 40;
        writer.append(&[permitted("/one")]).unwrap();
        let error = writer.append(&[permitted("/two")]).unwrap_err();
        assert!(error.to_string().contains(JSON_NAME), "{error}");
        writer.append(&[warning("a refusal has room of its own")]).unwrap();
    }

    #[test]
    fn incomplete_line_is_removed_before_the_next_write() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(TEXT_NAME);
        for (left, expected) in [
            ("", "WARNING a\n"),
            ("whole\n", "whole\nWARNING a\n"),
            ("whole\nha", "whole\nWARNING a\n"),
            ("ha", "WARNING a\n"),
        ] {
            fs::write(&path, left).unwrap();
            LogWriter::open(dir.path()).unwrap().append(&[warning("a")]).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), expected, "{left:?}");
        }
    }

    #[test]
    fn log_with_room_has_no_marks() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = LogWriter::open(dir.path()).unwrap();
        writer.append(&[warning("a")]).unwrap();
        writer.finish(0).unwrap();
        let text = fs::read_to_string(dir.path().join(TEXT_NAME)).unwrap();
        assert_eq!(text, "WARNING a\n");
    }
}

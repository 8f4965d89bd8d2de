//! Appends lines to the two files.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::entry::LogEntry;
use super::{JSON_NAME, TEXT_NAME, line};
use crate::egress::ProxyError;
use sandbox_proxy_protocol::Record;

/// Both files of one task, open for appending.
#[derive(Debug)]
pub(super) struct LogWriter {
    text: Appender,
    json: Appender,
}

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
            }
        };
        Self {
            text: open(),
            json: open(),
        }
    }

    /// Appends all of `records`, each file with one write: a reader sees whole lines. Blocks.
    pub(super) fn append(&mut self, records: &[Record]) -> Result<(), ProxyError> {
        let mut text = String::new();
        let mut json = String::new();
        for record in records {
            text.push_str(&line::render(record));
            text.push('\n');
            json.push_str(
                &LogEntry::of(record)
                    .to_line()
                    .map_err(ProxyError::file("write to", &self.json.path))?,
            );
        }
        self.text.append(text.as_bytes())?;
        self.json.append(json.as_bytes())
    }
}

#[derive(Debug)]
struct Appender {
    file: File,
    path: PathBuf,
}

impl Appender {
    fn open(path: PathBuf) -> Result<Self, ProxyError> {
        let opened = open_own(&path);
        Ok(Self {
            file: opened.map_err(ProxyError::file("open the network log", &path))?,
            path,
        })
    }

    fn append(&mut self, lines: &[u8]) -> Result<(), ProxyError> {
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

    use sandbox_proxy_protocol::Event;

    use super::*;

    fn warning(text: &str) -> Record {
        Record {
            at_ms: 0,
            event: Event::Warning {
                text: text.to_owned(),
            },
        }
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
}

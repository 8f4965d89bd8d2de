//! Reads an existing network log.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use sandbox_files::create_folder;

use crate::entry::{InvalidLogEntry, LogEntry};
use crate::follow::LogFollower;
use crate::{JSON_NAME, TEXT_NAME};

/// The network log of a task: two files in one folder, which may not exist yet.
///
/// The text file has a line for each event, in printable ASCII:
///
/// ```text
/// === TASK START 2026-02-03T12:34:56Z ===
/// DNS A api.example -> 10.199.0.2
/// allowed GET https://api.example/v1 -> 200 [masked: 1]
/// open POST https://api.example/upload -> in progress
/// BLOCKED GET https://evil.example/ -> 403 [reason: host]
/// BLOCKED GET https://evil.example/ -> 403 [reason: host] [repeated: 990]
/// ERROR GET https://down.example/ -> Connection refused
/// ```
///
/// A permitted request has a line when it ends, and one before if it is still open after a second.
/// Identical refusals, DNS queries and warnings have ten lines; further ones are counted, and a
/// line with `[repeated: N]` represents N of them. Permitted requests of an execution add at most
/// 80 MiB to each file, and requests for which there is no room are refused; everything else adds
/// at most 16 MiB, and a last line counts the missing records. The JSON file has the same events as
/// [`LogEntry`]s.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkLog {
    dir: PathBuf,
}

impl NetworkLog {
    /// The log in the folder `dir`.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// The text file, `network-sandbox.log`.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.dir.join(TEXT_NAME)
    }

    /// The JSON file, `network-sandbox.jsonl`.
    #[must_use]
    pub fn json_path(&self) -> PathBuf {
        self.dir.join(JSON_NAME)
    }

    /// Whether the text file exists.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.path().is_file()
    }

    /// The unchanged text file.
    ///
    /// # Errors
    ///
    /// If it cannot be read; `NotFound` if no task with a log has run yet.
    pub fn read_raw(&self) -> io::Result<String> {
        std::fs::read_to_string(self.path())
    }

    /// The entries of the JSON file, read lazily.
    ///
    /// # Errors
    ///
    /// If it cannot be opened; `NotFound` if no task with a log has run yet.
    pub fn entries(&self) -> io::Result<LogEntries> {
        Ok(LogEntries { lines: BufReader::new(File::open(self.json_path())?), blocked_only: false })
    }

    /// Follows the text file: first its content, then lines as they are added, whole lines only. A
    /// missing folder is created, as the first execution would.
    ///
    /// # Errors
    ///
    /// If the folder cannot be created or watched.
    pub fn follow(&self) -> io::Result<LogFollower> {
        create_folder(&self.dir, 0o700)?;
        LogFollower::open(&self.dir, TEXT_NAME)
    }

    /// Follows the JSON file in the same way; [`LogEntry::parse`] reads its lines.
    ///
    /// # Errors
    ///
    /// If the folder cannot be created or watched.
    pub fn follow_json(&self) -> io::Result<LogFollower> {
        create_folder(&self.dir, 0o700)?;
        LogFollower::open(&self.dir, JSON_NAME)
    }
}

impl AsRef<Path> for NetworkLog {
    fn as_ref(&self) -> &Path {
        &self.dir
    }
}

/// The entries of a log, in order. An incomplete line at the end, which is still being written, is
/// left out.
#[derive(Debug)]
pub struct LogEntries {
    lines: BufReader<File>,
    blocked_only: bool,
}

impl LogEntries {
    /// Only refusals; see [`LogEntry::blocked`].
    #[must_use]
    pub fn blocked_only(mut self) -> Self {
        self.blocked_only = true;
        self
    }

    fn read(&mut self) -> io::Result<Option<String>> {
        let mut line = String::new();
        self.lines.read_line(&mut line)?;
        Ok(line.ends_with('\n').then_some(line))
    }
}

impl Iterator for LogEntries {
    type Item = io::Result<LogEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let line = match self.read() {
                Ok(line) => line?,
                Err(error) => return Some(Err(error)),
            };
            match LogEntry::parse(&line).map_err(invalid_data) {
                Ok(entry) if self.blocked_only && !entry.blocked() => {}
                other => return Some(other),
            }
        }
    }
}

fn invalid_data(error: InvalidLogEntry) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const WARNING: &str = r#"{"v":1,"time":"2026-02-03T12:34:56.789Z","event":"warning","text":"x"}"#;
    const REFUSED: &str = r#"{"v":1,"time":"2026-02-03T12:34:56.790Z","event":"tls_refused","server_name":null,"alert":"a","reason":null}"#;

    fn log(text: &str) -> (tempfile::TempDir, NetworkLog) {
        let dir = tempfile::tempdir().unwrap();
        let log = NetworkLog::new(dir.path());
        fs::write(log.json_path(), text).unwrap();
        (dir, log)
    }

    #[test]
    fn entries_come_in_order_and_can_be_filtered() {
        let (_dir, log) = log(&format!("{WARNING}\n{REFUSED}\n{WARNING}\n"));
        let blocked = |entries: LogEntries| entries.map(|entry| entry.unwrap().blocked()).collect::<Vec<_>>();
        assert_eq!(blocked(log.entries().unwrap()), [false, true, false]);
        assert_eq!(blocked(log.entries().unwrap().blocked_only()), [true]);
    }

    #[test]
    fn incomplete_line_is_left_out_and_invalid_line_is_an_error() {
        let (_dir, log) = log(&format!("{WARNING}\nnonsense\n{REFUSED}\n{{\"v\":1"));
        let good: Vec<bool> = log.entries().unwrap().map(|entry| entry.is_ok()).collect();
        assert_eq!(good, [true, false, true]);
    }

    #[tokio::test]
    async fn log_without_a_folder_can_be_followed() {
        let dir = tempfile::tempdir().unwrap();
        let log = NetworkLog::new(dir.path().join("conversations/42"));
        let mut follower = log.follow().unwrap();
        fs::write(log.path(), "first\n").unwrap();
        assert_eq!(follower.next_line().await.unwrap().as_deref(), Some("first"));
        log.follow_json().unwrap();
    }

    #[test]
    fn missing_log_is_not_found() {
        let log = NetworkLog::new("/no/such/folder");
        assert!(!log.exists());
        assert_eq!(log.entries().unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}

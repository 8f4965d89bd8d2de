//! The journal: the events of the running reply, one line each, appended as they arrive.
//!
//! Its first line identifies the reply; the last, if the reply ended, is the reply without its
//! events.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use claude_output::{StreamEvent, parse_event};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::budget::MissingEvents;
use super::directory::{SessionDirectory, io_error};
use super::error::SessionError;
use super::metadata::SessionReply;

pub(super) const JOURNAL: &str = "context.journal.jsonl";

const VERSION: u32 = 1;

/// How long an event may wait for a later one's sync.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// The reply and session that a journal belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    journal: u32,
    pub(super) execution_context_id: String,
    /// The index of the reply in the session.
    pub(super) reply: usize,
    pub(super) timestamp: String,
    pub(super) request_text: String,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Line<'a> {
    Event(&'a StreamEvent),
    Missing(&'a MissingEvents),
    End(&'a SessionReply),
}

/// As [`Line`], but an event keeps its own nesting limit; see `metadata`.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum ReadLine<'a> {
    Event(#[serde(borrow)] &'a RawValue),
    Missing(MissingEvents),
    End(Box<SessionReply>),
}

/// The content of a journal.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Journal {
    pub(super) header: Header,
    pub(super) events: Vec<StreamEvent>,
    /// The events that were not kept, as far as the journal knows.
    pub(super) missing: MissingEvents,
    /// The reply without its events, if it ended.
    pub(super) end: Option<SessionReply>,
}

/// A journal being written.
#[derive(Debug)]
pub(super) struct JournalFile {
    file: File,
    /// Where the next line begins: after the last complete line.
    length: u64,
    synced: Instant,
}

impl Header {
    pub(super) fn new(execution_context_id: &str, reply: usize, running: &SessionReply) -> Self {
        Self {
            journal: VERSION,
            execution_context_id: execution_context_id.to_owned(),
            reply,
            timestamp: running.timestamp.clone(),
            request_text: running.request_text.clone(),
        }
    }
}

impl Journal {
    /// Parses a journal as far as it was written; `None` if even its first line is incomplete.
    ///
    /// A line without a line ending was being written when the writer was killed. The same holds
    /// for the last line if it is not valid: a loss of power may leave any bytes there. Such a line
    /// before valid ones is damage.
    pub(super) fn parse(bytes: &[u8]) -> Result<Option<Self>, String> {
        let mut lines =
            bytes.split_inclusive(|byte| *byte == b'\n').filter_map(|line| line.strip_suffix(b"\n"));
        let Some(first) = lines.next() else {
            return Ok(None);
        };
        let header: Header = serde_json::from_slice(first).map_err(|error| format!("line 1: {error}"))?;
        if header.journal != VERSION {
            return Err(format!("its version is {}, and {VERSION} is the one known", header.journal));
        }
        let mut journal = Self { header, events: Vec::new(), missing: MissingEvents::default(), end: None };
        let mut torn = None;
        for (number, line) in (2..).zip(lines) {
            match (parse_line(line), torn.take()) {
                (Ok(_), Some(reason)) => return Err(reason),
                (Ok(Parsed::Event(event)), None) => journal.events.push(event),
                (Ok(Parsed::Missing(missing)), None) => journal.missing = missing,
                (Ok(Parsed::End(end)), None) => journal.end = Some(*end),
                (Err(error), earlier) => torn = earlier.or_else(|| Some(format!("line {number}: {error}"))),
            }
        }
        Ok(Some(journal))
    }
}

enum Parsed {
    Event(StreamEvent),
    Missing(MissingEvents),
    End(Box<SessionReply>),
}

fn parse_line(line: &[u8]) -> Result<Parsed, String> {
    match serde_json::from_slice(line).map_err(|error| error.to_string())? {
        ReadLine::Event(text) => {
            parse_event(text.get()).map(Parsed::Event).map_err(|error| error.to_string())
        }
        ReadLine::Missing(missing) => Ok(Parsed::Missing(missing)),
        ReadLine::End(end) => Ok(Parsed::End(end)),
    }
}

impl JournalFile {
    /// Begins a journal, and replaces any existing file. A reader sees it with its first line or
    /// not at all.
    pub(super) fn create(directory: &SessionDirectory, header: &Header) -> Result<Self, SessionError> {
        let line = line_of(header).map_err(|source| error_of(directory, source))?;
        let file = directory.replace(JOURNAL, &line)?;
        Ok(Self { file, length: line.len() as u64, synced: Instant::now() })
    }

    /// Appends an event.
    pub(super) fn event(
        &mut self,
        directory: &SessionDirectory,
        event: &StreamEvent,
    ) -> Result<u64, SessionError> {
        let due = event.as_result().is_some() || self.synced.elapsed() >= SYNC_INTERVAL;
        self.append(&Line::Event(event), due).map_err(|source| error_of(directory, source))
    }

    /// Appends the count of events not kept so far; the last such line counts.
    pub(super) fn missing(
        &mut self,
        directory: &SessionDirectory,
        missing: &MissingEvents,
    ) -> Result<u64, SessionError> {
        self.append(&Line::Missing(missing), false).map_err(|source| error_of(directory, source))
    }

    /// Appends the end of the reply without its events, which are in the journal already.
    pub(super) fn end(
        &mut self,
        directory: &SessionDirectory,
        reply: &SessionReply,
    ) -> Result<u64, SessionError> {
        self.append(&Line::End(reply), true).map_err(|source| error_of(directory, source))
    }

    /// Writes a line with one call and returns its length. After a failure the line counts as not
    /// written: it is cut off, and in any case overwritten by the next.
    fn append(&mut self, line: &Line<'_>, sync: bool) -> io::Result<u64> {
        let line = line_of(line)?;
        let written = line.len() as u64;
        if let Err(error) = self.write(&line, sync) {
            let _ = self.file.set_len(self.length);
            return Err(error);
        }
        self.length += written;
        Ok(written)
    }

    fn write(&mut self, line: &[u8], sync: bool) -> io::Result<()> {
        self.file.write_all_at(line, self.length)?;
        if sync {
            self.file.sync_data()?;
            self.synced = Instant::now();
        }
        Ok(())
    }
}

fn line_of(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

fn error_of(directory: &SessionDirectory, source: io::Error) -> SessionError {
    io_error("write", &directory.path().join(JOURNAL), source)
}

#[cfg(test)]
impl JournalFile {
    /// A journal that is not writable, as on a full disk.
    pub(super) fn read_only(path: &std::path::Path) -> Self {
        Self { file: File::open(path).unwrap(), length: 0, synced: Instant::now() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str =
        r#"{"journal":1,"execution_context_id":"c","reply":2,"timestamp":"t","request_text":"r"}"#;
    const EVENT: &str = r#"{"event":{"type":"a"}}"#;
    const END: &str = r#"{"end":{"session_id":"s"}}"#;

    /// The number of events, and whether there is an end.
    fn read(text: &str) -> Result<Option<(usize, bool)>, String> {
        Journal::parse(text.as_bytes()).map(|journal| journal.map(|it| (it.events.len(), it.end.is_some())))
    }

    #[test]
    fn journal_is_read_as_far_as_it_was_written() {
        let cases = [
            (String::new(), None),
            (HEADER.to_owned(), None),
            (format!("{HEADER}\n"), Some((0, false))),
            (format!("{HEADER}\n{EVENT}"), Some((0, false))),
            (format!("{HEADER}\n{EVENT}\n"), Some((1, false))),
            (format!("{HEADER}\n{EVENT}\n{EVENT}\n{END}"), Some((2, false))),
            (format!("{HEADER}\n{EVENT}\n{EVENT}\n{END}\n"), Some((2, true))),
            (format!("{HEADER}\n{EVENT}\n\0\0\0"), Some((1, false))),
            (format!("{HEADER}\n{EVENT}\n{{\"eve\n\0\0\n"), Some((1, false))),
        ];
        for (text, expected) in cases {
            assert_eq!(read(&text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn damage_before_good_lines_is_reported_with_its_line() {
        for text in [
            format!("{HEADER}\n{{\n{EVENT}\n"),
            format!("{HEADER}\n{EVENT}\n3\n{{\n{END}\n"),
            format!("{{}}\n{EVENT}\n"),
        ] {
            assert!(read(&text).unwrap_err().contains("line "), "{text}");
        }
        let newer = HEADER.replacen('1', "7", 1);
        assert_eq!(read(&format!("{newer}\n")), Err("its version is 7, and 1 is the one known".to_owned()));
    }

    #[test]
    fn every_event_is_one_line() {
        let event = parse_event("{\"type\":\n\"a\",\r\n\"text\":\"\\n\\r\\u2028\"}").unwrap();
        let line = line_of(&Line::Event(&event)).unwrap();
        assert_eq!(line.iter().position(|byte| *byte == b'\n'), Some(line.len() - 1));
        let text = [HEADER.as_bytes(), b"\n", &line].concat();
        assert_eq!(Journal::parse(&text).unwrap().unwrap().events, [event]);
    }
}

//! Writes a session: one holder of the lock, one reply at a time.

use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use claude_output::{StreamEvent, extract_response_text};
use sandbox_files::FileLock;
use serde::Serialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::budget::Budget;
use super::directory::{CONTEXT, SessionDirectory, io_error};
use super::error::SessionError;
use super::journal::{Header, JOURNAL, JournalFile};
use super::metadata::SessionReply;
use super::outline::ContextFile;
use super::snapshot::{Sketch, Unfolded};

/// The least growth in bytes that justifies a refresh of `context.json`.
const LEAST_GROWTH: u64 = 16 * 1024;

/// A session locked for this writer, between two replies.
#[derive(Debug)]
pub(super) struct SessionWriter {
    directory: SessionDirectory,
    lock: FileLock,
    file: ContextFile,
}

/// Writes one reply while its execution runs.
///
/// Dropped without [`finish`](Self::finish), it leaves the reply as it is, and the next writer
/// closes it as interrupted.
#[derive(Debug)]
pub struct ReplyWriter {
    directory: SessionDirectory,
    _lock: FileLock,
    journal: JournalFile,
    /// Earlier replies remain text in a file, which is only copied.
    session: ContextFile,
    reply: SessionReply,
    budget: Budget,
    /// The count of missing events at which the next line is written to the journal.
    next_reported: u64,
    /// The number of the reply's events in the journal.
    journaled: usize,
    /// Bytes appended since the last refresh of `context.json`.
    appended: u64,
    /// Bytes of `context.json`.
    size: u64,
    has_result: bool,
    /// Bytes written in all.
    written: u64,
}

/// The end of a reply, in addition to its events.
#[derive(Debug, Clone, Copy)]
pub struct ReplyEnd {
    /// Whether the execution failed.
    pub is_error: bool,
    /// Its duration, for a reply whose results do not report one.
    pub measured: Duration,
}

impl SessionWriter {
    /// Takes the lock and folds in the journal that a killed process may have left.
    pub(super) fn open(path: &Path, execution_context_id: &str) -> Result<Self, SessionError> {
        let directory = SessionDirectory::create(path)?;
        let lock = directory.lock()?;
        let Some(Sketch { file, unfolded }) = Sketch::read(&directory, execution_context_id)? else {
            // Only a journal without a first line can be left.
            directory.remove(JOURNAL)?;
            return Ok(Self { directory, lock, file: ContextFile::empty(execution_context_id) });
        };
        let Some(Unfolded { at, mut reply, is_open }) = unfolded else {
            return Ok(Self { directory, lock, file });
        };
        if is_open {
            reply.interrupt();
        }
        file.write(&directory, Some((at, &reply)))?;
        directory.remove(JOURNAL)?;
        drop((file, reply, lock));
        Self::open(path, execution_context_id)
    }

    pub(super) fn set_model(self, model: &str) -> Result<(), SessionError> {
        let Self { directory, lock: _lock, mut file } = self;
        if file.model.as_deref() == Some(model) {
            return Ok(());
        }
        file.model = Some(model.to_owned());
        file.write(&directory, None).map(drop)
    }

    /// Adds a reply that has only its request.
    pub(super) fn begin(self, request_text: &str, began: SystemTime) -> Result<ReplyWriter, SessionError> {
        let Self { directory, lock, file } = self;
        let reply = SessionReply {
            timestamp: rfc3339(began),
            request_text: request_text.to_owned(),
            ..SessionReply::default()
        };
        let header = Header::new(&file.execution_context_id, file.replies.len(), &reply);
        // The journal comes first: while it exists, the reply is known not to have ended.
        let journal = JournalFile::create(&directory, &header)?;
        let mut writer = ReplyWriter {
            directory,
            _lock: lock,
            journal,
            session: file,
            reply,
            budget: Budget::new(),
            next_reported: 1,
            journaled: 0,
            appended: 0,
            size: 0,
            has_result: false,
            written: 0,
        };
        writer.refresh()?;
        Ok(writer)
    }
}

impl ReplyWriter {
    /// Replaces `name` in the folder of the state of `agent` with a file of these bytes: it is the
    /// only name there that the host writes, and no link is followed.
    ///
    /// # Errors
    ///
    /// If it cannot be written, or a task replaced it with a folder.
    pub fn put_state(&self, agent: &str, name: &str, bytes: &[u8]) -> Result<(), SessionError> {
        self.directory.replace_in_state(agent, name, bytes)
    }

    /// Adds an event, or counts it as missing if the reply has reached its limit. After this
    /// returns, the end of this process no longer loses it.
    ///
    /// After an error the event is still in [`events`](Self::events), and the next call tries to
    /// write it again.
    ///
    /// # Errors
    ///
    /// If the journal or `context.json` cannot be written.
    pub fn add(&mut self, event: StreamEvent) -> Result<(), SessionError> {
        let length = json_length(&event).map_err(|source| json_error(&self.directory, source))?;
        if !self.budget.admit(&event, length) {
            return self.leave_out(length);
        }
        let first_result = !self.has_result && event.as_result().is_some();
        let first_id = self.reply.session_id.is_empty() && event.session_id().is_some();
        self.reply.events.push(event);
        self.append_pending()?;
        if first_result || first_id || self.appended >= self.size.max(LEAST_GROWTH) {
            self.reply.update_from_events();
            self.refresh()?;
            self.has_result |= first_result;
        }
        Ok(())
    }

    /// The events so far.
    #[must_use]
    pub fn events(&self) -> &[StreamEvent] {
        &self.reply.events
    }

    /// Ends the reply and returns it. `context.json` then has all of it, and the journal is gone.
    ///
    /// # Errors
    ///
    /// If the journal or `context.json` cannot be written.
    pub fn finish(mut self, end: ReplyEnd) -> Result<SessionReply, SessionError> {
        self.append_pending()?;
        self.reply.update_from_events();
        self.reply.is_error = end.is_error;
        self.reply.response_text = extract_response_text(&self.reply.events);
        if self.reply.duration_ms == 0 {
            self.reply.duration_ms = u64::try_from(end.measured.as_millis()).unwrap_or(u64::MAX);
        }
        let events = std::mem::take(&mut self.reply.events);
        let ended = self.journal.end(&self.directory, &self.reply);
        self.reply.events = events;
        self.written += ended?;
        self.refresh()?;
        self.directory.remove(JOURNAL)?;
        tracing::debug!(bytes = self.written, events = self.reply.events.len(), "session reply written");
        Ok(self.reply)
    }

    /// Counts an event that is not kept. The count is written to the journal for the first one, and
    /// whenever it has doubled.
    fn leave_out(&mut self, length: u64) -> Result<(), SessionError> {
        self.reply.missing.add(length);
        if self.reply.missing.events < self.next_reported {
            return Ok(());
        }
        let written = self.journal.missing(&self.directory, &self.reply.missing)?;
        self.next_reported = self.reply.missing.events.saturating_mul(2);
        self.appended += written;
        self.written += written;
        Ok(())
    }

    /// Appends the events that are not in the journal yet: one, unless the last call failed.
    fn append_pending(&mut self) -> Result<(), SessionError> {
        for event in self.reply.events.iter().skip(self.journaled) {
            let length = self.journal.event(&self.directory, event)?;
            self.journaled += 1;
            self.appended += length;
            self.written += length;
        }
        Ok(())
    }

    /// Writes `context.json` with the reply in its present state.
    fn refresh(&mut self) -> Result<(), SessionError> {
        let running = (self.session.replies.len(), &self.reply);
        self.size = self.session.write(&self.directory, Some(running))?;
        self.written += self.size;
        self.appended = 0;
        Ok(())
    }
}

/// The length in bytes of the JSON of `value`, without building it.
fn json_length(value: &impl Serialize) -> serde_json::Result<u64> {
    struct Length(u64);
    impl io::Write for Length {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len() as u64;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut length = Length(0);
    serde_json::to_writer(&mut length, value)?;
    Ok(length.0)
}

fn rfc3339(instant: SystemTime) -> String {
    let instant = OffsetDateTime::from(instant);
    // Only years of more than four digits have no such form.
    instant.format(&Rfc3339).unwrap_or_else(|_| instant.unix_timestamp().to_string())
}

fn json_error(directory: &SessionDirectory, source: serde_json::Error) -> SessionError {
    io_error("write", &directory.path().join(CONTEXT), source.into())
}

#[cfg(test)]
mod tests;

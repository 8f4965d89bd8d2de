//! The session as its files say it together: `context.json`, the journal, and the `session.json` of older versions.

use claude_output::StreamEvent;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::budget::MissingEvents;
use super::directory::SessionDirectory;
use super::error::SessionError;
use super::journal::{JOURNAL, Journal};
use super::metadata::{SessionMetadata, SessionReply};

pub(super) const CONTEXT: &str = "context.json";
const OLDER: &str = "session.json";

/// What the files of a session say.
#[derive(Debug, PartialEq)]
pub(super) struct Snapshot {
    pub(super) metadata: SessionMetadata,
    pub(super) journal: JournalState,
}

/// Whether there is a journal, and what it says of its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JournalState {
    /// `context.json` is all there is.
    Absent,
    /// The reply ended, and its writer was killed before the journal was removed.
    Ended,
    /// The reply at this place is still running, or its writer was killed.
    Open(usize),
}

/// A `session.json`, which had another name for the context.
#[derive(Deserialize)]
struct OlderMetadata {
    task_id: String,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    replies: Vec<SessionReply>,
    #[serde(flatten)]
    extra: Map<String, Value>,
}

impl Snapshot {
    /// Reads the session of the context `id`; `None` where there is none yet.
    ///
    /// The journal is read before `context.json`: what leaves the journal meanwhile is then found in the file.
    pub(super) fn read(directory: &SessionDirectory, id: &str) -> Result<Option<Self>, SessionError> {
        let journal = match directory.read(JOURNAL)? {
            Some(bytes) => Journal::parse(&bytes).map_err(|reason| damaged(directory, JOURNAL, reason))?,
            None => None,
        };
        let metadata = read_metadata(directory)?;
        for found in [
            metadata.as_ref().map(|it| &it.execution_context_id),
            journal.as_ref().map(|it| &it.header.execution_context_id),
        ] {
            refuse_other_context(directory, id, found)?;
        }
        let Some(journal) = journal else {
            return Ok(metadata.map(|metadata| Self { metadata, journal: JournalState::Absent }));
        };
        let mut metadata = metadata.unwrap_or_else(|| empty(id));
        let state = match journal.end {
            Some(_) => JournalState::Ended,
            None => JournalState::Open(journal.header.reply),
        };
        merge(&mut metadata, journal).map_err(|reason| damaged(directory, JOURNAL, reason))?;
        Ok(Some(Self { metadata, journal: state }))
    }
}

/// A session in which nothing has happened.
pub(super) fn empty(id: &str) -> SessionMetadata {
    SessionMetadata { execution_context_id: id.to_owned(), ..SessionMetadata::default() }
}

fn read_metadata(directory: &SessionDirectory) -> Result<Option<SessionMetadata>, SessionError> {
    let error = |name, error: serde_json::Error| damaged(directory, name, error.to_string());
    if let Some(bytes) = directory.read(CONTEXT)? {
        return serde_json::from_slice(&bytes).map(Some).map_err(|source| error(CONTEXT, source));
    }
    let Some(bytes) = directory.read(OLDER)? else {
        return Ok(None);
    };
    let older: OlderMetadata = serde_json::from_slice(&bytes).map_err(|source| error(OLDER, source))?;
    let OlderMetadata { task_id: execution_context_id, model, replies, extra } = older;
    Ok(Some(SessionMetadata { execution_context_id, model, replies, extra }))
}

fn refuse_other_context(
    directory: &SessionDirectory,
    expected: &str,
    found: Option<&String>,
) -> Result<(), SessionError> {
    match found {
        Some(found) if found != expected => Err(SessionError::OtherContext {
            path: directory.path().to_owned(),
            found: found.clone(),
            expected: expected.to_owned(),
        }),
        _ => Ok(()),
    }
}

/// Brings the journal's reply up to date.
///
/// It is the next one after a kill between the journal's first line and the file's refresh, else one that the file has: the same, or
/// an older state of it, or, where a loss of power took the end of the journal, a newer one.
fn merge(metadata: &mut SessionMetadata, journal: Journal) -> Result<(), String> {
    let Journal { header, events, missing, end } = journal;
    if header.reply == metadata.replies.len() {
        metadata.replies.push(SessionReply {
            timestamp: header.timestamp.clone(),
            request_text: header.request_text.clone(),
            ..SessionReply::default()
        });
    }
    let reply = metadata
        .replies
        .get_mut(header.reply)
        .filter(|reply| reply.timestamp == header.timestamp && reply.request_text == header.request_text)
        .ok_or_else(|| {
            format!("it continues the reply of {}, which is not in {CONTEXT}", header.timestamp)
        })?;
    update(reply, events, missing, end);
    Ok(())
}

fn update(
    reply: &mut SessionReply,
    events: Vec<StreamEvent>,
    missing: MissingEvents,
    end: Option<SessionReply>,
) {
    let grown = events.len() > reply.events.len();
    if grown {
        reply.events = events;
    }
    if missing.events > reply.missing.events {
        reply.missing = missing;
    }
    match end {
        Some(end) => {
            let events = std::mem::take(&mut reply.events);
            *reply = SessionReply { events, ..end };
        }
        None if grown => reply.update_from_events(),
        None => {}
    }
}

fn damaged(directory: &SessionDirectory, name: &str, reason: String) -> SessionError {
    SessionError::Damaged { path: directory.path().join(name), reason }
}

//! The session in all its files: `context.json`, the journal, and the `session.json` of older
//! versions.

use claude_output::StreamEvent;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::budget::MissingEvents;
use super::directory::{CONTEXT, SessionDirectory};
use super::error::SessionError;
use super::journal::{JOURNAL, Journal};
use super::metadata::{SessionMetadata, SessionReply};
use super::outline::{ContextFile, ReplyOutline, SessionOutline};

const OLDER: &str = "session.json";

/// A session, and the part that `context.json` does not have yet.
#[derive(Debug)]
pub(super) struct Sketch {
    pub(super) file: ContextFile,
    pub(super) unfolded: Option<Unfolded>,
}

/// The reply of a journal.
#[derive(Debug)]
pub(super) struct Unfolded {
    /// Its index in the session.
    pub(super) at: usize,
    pub(super) reply: SessionReply,
    /// Whether it is still running, or its writer was killed; otherwise it ended, and its writer
    /// was killed before the journal was removed.
    pub(super) is_open: bool,
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

/// Reads the session of the context `id`; `None` if there is none yet.
///
/// The journal is read before `context.json`: events that leave the journal meanwhile are then in
/// the file.
pub(super) fn read(directory: &SessionDirectory, id: &str) -> Result<Option<SessionMetadata>, SessionError> {
    let journal = read_journal(directory)?;
    let metadata = read_metadata(directory)?;
    refuse_other_context(
        directory,
        id,
        metadata.as_ref().map(|it| &it.execution_context_id),
        journal.as_ref(),
    )?;
    let Some(journal) = journal else {
        return Ok(metadata);
    };
    let mut metadata = metadata.unwrap_or_else(|| empty(id));
    let at = journal.header.reply;
    let known = metadata.replies.get(at).cloned();
    let reply = merged(known, metadata.replies.len(), journal)
        .map_err(|reason| damaged(directory, JOURNAL, reason))?;
    match metadata.replies.get_mut(at) {
        Some(known) => *known = reply,
        None => metadata.replies.push(reply),
    }
    Ok(Some(metadata))
}

impl Sketch {
    /// Reads it without the replies' content in `context.json`.
    pub(super) fn read(directory: &SessionDirectory, id: &str) -> Result<Option<Self>, SessionError> {
        let journal = read_journal(directory)?;
        let file = read_file(directory)?;
        refuse_other_context(
            directory,
            id,
            file.as_ref().map(|it| &it.execution_context_id),
            journal.as_ref(),
        )?;
        let Some(journal) = journal else {
            return Ok(file.map(|file| Self { file, unfolded: None }));
        };
        let file = file.unwrap_or_else(|| ContextFile::empty(id));
        let (at, is_open) = (journal.header.reply, journal.end.is_none());
        let unreadable = |source: std::io::Error| damaged(directory, CONTEXT, source.to_string());
        let known = (at < file.replies.len()).then(|| file.reply(at)).transpose().map_err(unreadable)?;
        let reply = merged(known, file.replies.len(), journal)
            .map_err(|reason| damaged(directory, JOURNAL, reason))?;
        Ok(Some(Self { file, unfolded: Some(Unfolded { at, reply, is_open }) }))
    }

    /// Its outline.
    pub(super) fn outline(self) -> SessionOutline {
        let ContextFile { model, mut replies, .. } = self.file;
        if let Some(Unfolded { at, reply, .. }) = self.unfolded {
            let reply = ReplyOutline::of(&reply);
            match replies.get_mut(at) {
                Some(known) => *known = reply,
                None => replies.push(reply),
            }
        }
        SessionOutline { model, replies }
    }
}

/// A session in which nothing has happened.
pub(super) fn empty(id: &str) -> SessionMetadata {
    SessionMetadata { execution_context_id: id.to_owned(), ..SessionMetadata::default() }
}

fn read_journal(directory: &SessionDirectory) -> Result<Option<Journal>, SessionError> {
    match directory.read(JOURNAL)? {
        Some(bytes) => Journal::parse(&bytes).map_err(|reason| damaged(directory, JOURNAL, reason)),
        None => Ok(None),
    }
}

fn read_file(directory: &SessionDirectory) -> Result<Option<ContextFile>, SessionError> {
    for (name, id_key) in [(CONTEXT, "execution_context_id"), (OLDER, "task_id")] {
        if let Some(file) = directory.reader(name)? {
            let read = ContextFile::read(file, id_key);
            return read.map(Some).map_err(|source| damaged(directory, name, source.to_string()));
        }
    }
    Ok(None)
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
    journal: Option<&Journal>,
) -> Result<(), SessionError> {
    let journal = journal.map(|journal| &journal.header.execution_context_id);
    match found.into_iter().chain(journal).find(|found| *found != expected) {
        Some(found) => Err(SessionError::OtherContext {
            path: directory.path().to_owned(),
            found: found.clone(),
            expected: expected.to_owned(),
        }),
        None => Ok(()),
    }
}

/// The journal's reply, combined with the session's reply at its index, if any; the session has
/// `replies` replies.
///
/// It is the next one after a kill between the journal's first line and the file's refresh,
/// otherwise one that the file has: the same, or an older state of it, or, if a loss of power took
/// the end of the journal, a newer one.
fn merged(known: Option<SessionReply>, replies: usize, journal: Journal) -> Result<SessionReply, String> {
    let Journal { header, events, missing, end } = journal;
    let next = || SessionReply {
        timestamp: header.timestamp.clone(),
        request_text: header.request_text.clone(),
        ..SessionReply::default()
    };
    let mut reply = known
        .or_else(|| (header.reply == replies).then(next))
        .filter(|reply| reply.timestamp == header.timestamp && reply.request_text == header.request_text)
        .ok_or_else(|| {
            format!("it continues the reply of {}, which is not in {CONTEXT}", header.timestamp)
        })?;
    update(&mut reply, events, missing, end);
    Ok(reply)
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

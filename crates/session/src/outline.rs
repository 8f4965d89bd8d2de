//! A session without its texts: enough to continue it, in memory that does not grow with an agent's
//! output.

use std::cell::Cell;
use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek as _, SeekFrom, Write as _};
use std::ops::Range;

use claude_output::parse_event;
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::directory::{CONTEXT, SessionDirectory, io_error};
use super::error::SessionError;
use super::metadata::{SessionReply, newest_usable, null_as_default};

/// A session without its texts and events.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionOutline {
    /// The model of the context, if one was chosen.
    pub model: Option<String>,
    /// Requests and replies, oldest first.
    pub replies: Vec<ReplyOutline>,
}

/// A reply without its texts and events.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
#[serde(default)]
pub struct ReplyOutline {
    /// See [`SessionReply::session_id`].
    #[serde(deserialize_with = "null_as_default")]
    pub session_id: String,
    /// See [`SessionReply::timestamp`].
    #[serde(deserialize_with = "null_as_default")]
    pub timestamp: String,
    #[serde(deserialize_with = "null_as_default")]
    is_error: bool,
    /// Whether it has only result events.
    #[serde(rename = "events", deserialize_with = "are_results")]
    has_only_results: bool,
}

/// `context.json`, whose replies remain in the file and are copied from there.
#[derive(Debug)]
pub(super) struct ContextFile {
    pub(super) execution_context_id: String,
    pub(super) model: Option<String>,
    pub(super) replies: Vec<ReplyOutline>,
    extra: Map<String, Value>,
    /// `None` if nothing was written yet.
    file: Option<File>,
    /// The start of the replies' text in the file, and the end of each.
    begin: u64,
    ends: Vec<u64>,
}

impl SessionOutline {
    /// See
    /// [`SessionMetadata::session_id_for_resume`](super::SessionMetadata::session_id_for_resume).
    #[must_use]
    pub fn session_id_for_resume(&self) -> Option<&str> {
        newest_usable(self.replies.iter().map(|reply| (reply.session_id.as_str(), reply.was_refused())))
    }
}

impl ReplyOutline {
    pub(super) fn of(reply: &SessionReply) -> Self {
        Self {
            session_id: reply.session_id.clone(),
            timestamp: reply.timestamp.clone(),
            is_error: reply.is_error,
            has_only_results: reply.has_only_results(),
        }
    }

    fn was_refused(&self) -> bool {
        self.is_error && self.has_only_results
    }
}

impl ContextFile {
    /// The outline of a session in which nothing has happened.
    pub(super) fn empty(execution_context_id: &str) -> Self {
        Self {
            execution_context_id: execution_context_id.to_owned(),
            model: None,
            replies: Vec::new(),
            extra: Map::new(),
            file: None,
            begin: 0,
            ends: Vec::new(),
        }
    }

    /// Reads a file that has the context's id under the name `id_key`.
    pub(super) fn read(file: File, id_key: &str) -> serde_json::Result<Self> {
        let at = Cell::new(0);
        let counted = Counted { inner: BufReader::new(&file), at: &at };
        let mut deserializer = serde_json::Deserializer::from_reader(counted);
        let mut context = WholeFile { id_key, at: &at }.deserialize(&mut deserializer)?;
        deserializer.end()?;
        context.file = Some(file);
        Ok(context)
    }

    /// The complete reply at `index`, which must exist.
    pub(super) fn reply(&self, index: usize) -> io::Result<SessionReply> {
        let mut text = Vec::new();
        self.text_of(index..index + 1)?.read_to_end(&mut text)?;
        let value = text.strip_prefix(b",").unwrap_or(&text);
        Ok(serde_json::from_slice(value)?)
    }

    /// Replaces `context.json` with this outline's file, and `reply` at `index`: instead of
    /// another, or after the last one. Returns the length of the file.
    pub(super) fn write(
        &self,
        directory: &SessionDirectory,
        changed: Option<(usize, &SessionReply)>,
    ) -> Result<u64, SessionError> {
        let file = directory.replace_with(CONTEXT, |file| self.fill(file, changed))?;
        let metadata = file.metadata();
        metadata
            .map(|metadata| metadata.len())
            .map_err(|source| io_error("read", &directory.path().join(CONTEXT), source))
    }

    fn fill(&self, file: &mut File, changed: Option<(usize, &SessionReply)>) -> io::Result<()> {
        file.write_all(b"{\"execution_context_id\":")?;
        file.write_all(&serde_json::to_vec(&self.execution_context_id)?)?;
        file.write_all(b",\"model\":")?;
        file.write_all(&serde_json::to_vec(&self.model)?)?;
        file.write_all(b",\"replies\":[")?;
        let all = self.replies.len();
        let (before, after) = match changed {
            Some((index, _)) => (0..index.min(all), (index + 1).min(all)..all),
            None => (0..all, all..all),
        };
        let has_earlier = !before.is_empty();
        self.copy(before, file)?;
        if let Some((_, reply)) = changed {
            let mut text = BufWriter::new(&mut *file);
            if has_earlier {
                text.write_all(b",")?;
            }
            serde_json::to_writer(&mut text, reply)?;
            text.flush()?;
        }
        self.copy(after, file)?;
        file.write_all(b"]")?;
        for (key, value) in &self.extra {
            file.write_all(b",")?;
            file.write_all(&serde_json::to_vec(key)?)?;
            file.write_all(b":")?;
            file.write_all(&serde_json::to_vec(value)?)?;
        }
        file.write_all(b"}")
    }

    /// Copies the text of `replies` to `target`.
    fn copy(&self, replies: Range<usize>, target: &mut File) -> io::Result<()> {
        if replies.is_empty() {
            return Ok(());
        }
        let mut text = self.text_of(replies)?;
        io::copy(&mut text, target)?;
        // Another process truncated the file while it was open.
        if text.limit() == 0 { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    /// The text of `replies`; a comma precedes each that is not the first one of the file.
    fn text_of(&self, replies: Range<usize>) -> io::Result<io::Take<&File>> {
        let place = |index: usize| index.checked_sub(1).and_then(|before| self.ends.get(before)).copied();
        let begin = place(replies.start).unwrap_or(self.begin);
        let end = place(replies.end).unwrap_or(begin).max(begin);
        let mut file = self.file.as_ref().ok_or(io::ErrorKind::NotFound)?;
        file.seek(SeekFrom::Start(begin))?;
        Ok(file.take(end - begin))
    }
}

/// Whether there are events, and all are results. Events after another kind are skipped.
fn are_results<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    struct Events;
    impl<'de> Visitor<'de> for Events {
        type Value = bool;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of events")
        }

        fn visit_unit<E>(self) -> Result<bool, E> {
            Ok(false)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut events: A) -> Result<bool, A::Error> {
            let mut has_only_results = false;
            while let Some(text) = events.next_element::<Box<RawValue>>()? {
                let event = parse_event(text.get()).map_err(A::Error::custom)?;
                has_only_results = event.as_result().is_some();
                if !has_only_results {
                    while events.next_element::<IgnoredAny>()?.is_some() {}
                    break;
                }
            }
            Ok(has_only_results)
        }
    }
    deserializer.deserialize_any(Events)
}

/// A file that counts the bytes read. It is read byte by byte, so that the count is the position in
/// the text.
struct Counted<'a> {
    inner: BufReader<&'a File>,
    at: &'a Cell<u64>,
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.at.set(self.at.get() + read as u64);
        Ok(read)
    }
}

struct WholeFile<'a> {
    id_key: &'a str,
    at: &'a Cell<u64>,
}

/// The replies, with the start of the first and the end of each.
struct Replies<'a>(&'a Cell<u64>);

type Found = (u64, Vec<ReplyOutline>, Vec<u64>);

impl<'de> DeserializeSeed<'de> for WholeFile<'_> {
    type Value = ContextFile;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<ContextFile, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for WholeFile<'_> {
    type Value = ContextFile;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a session")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ContextFile, A::Error> {
        let mut context = ContextFile::empty("");
        let (mut id, mut replies) = (None, None);
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                key if key == self.id_key => id = Some(map.next_value()?),
                "model" => context.model = map.next_value()?,
                "replies" if replies.is_some() => return Err(A::Error::duplicate_field("replies")),
                "replies" => replies = Some(map.next_value_seed(Replies(self.at))?),
                _ => drop(context.extra.insert(key, map.next_value()?)),
            }
        }
        context.execution_context_id =
            id.ok_or_else(|| A::Error::custom(format_args!("missing field `{}`", self.id_key)))?;
        (context.begin, context.replies, context.ends) = replies.unwrap_or_default();
        Ok(context)
    }
}

impl<'de> DeserializeSeed<'de> for Replies<'_> {
    type Value = Found;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Found, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Replies<'_> {
    type Value = Found;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of replies")
    }

    fn visit_unit<E>(self) -> Result<Found, E> {
        Ok(Found::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Found, A::Error> {
        let (begin, mut replies, mut ends) = (self.0.get(), Vec::new(), Vec::new());
        while let Some(reply) = list.next_element()? {
            replies.push(reply);
            ends.push(self.0.get());
        }
        Ok((begin, replies, ends))
    }
}

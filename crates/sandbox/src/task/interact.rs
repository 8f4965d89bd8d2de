//! An agent on a terminal: its own screen instead of events.

use std::io::Read as _;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use claude_output::parse_event;
use sandbox_agents::{CLAUDE_ANSWERS, Ended};
use sandbox_files::tree::Tree;
use sandbox_session::{ReplyEnd, ReplyWriter, SessionError, SessionStore};
use serde_json::json;
use tokio::time::Instant;

use crate::container::Chunk;
use crate::error::SandboxError;

use super::drive::Sink;

/// A larger file is not kept.
const LARGEST: u64 = 4 * 1024 * 1024;
/// The default working directory.
pub(super) const WORKING_DIR: &str = "/workspace";
/// The polling interval for the session's file, which appears with the first message.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// [`CLAUDE_ANSWERS`] as the last execution left it; `None` if it is not a file, or too large.
pub(super) fn answers_of(store: &SessionStore) -> Option<Vec<u8>> {
    let (tree, state) = tree(store)?;
    let mut bytes = Vec::new();
    tree.file(&state.join(CLAUDE_ANSWERS)).ok()?.take(LARGEST + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= LARGEST).then_some(bytes)
}

/// The folder of the session, and the path of the agent's state in it, for access that follows no
/// link of a task.
fn tree(store: &SessionStore) -> Option<(Tree, PathBuf)> {
    let state = store.state_dir();
    Some((Tree::open(state.parent()?).ok()?, PathBuf::from(state.file_name()?)))
}

/// Passes output on to `inner`, and records the agent's session id in the session as soon as its
/// file exists.
pub(super) struct SessionRecorder<S> {
    pub(super) inner: S,
    reply: ReplyWriter,
    store: SessionStore,
    /// The session's id, and its file in the agent's state; `None` once it was recorded, and if it
    /// is unknown.
    expected: Option<(String, PathBuf)>,
    next: Instant,
    failure: Option<SessionError>,
}

impl<S> SessionRecorder<S> {
    pub(super) fn new(
        inner: S,
        reply: ReplyWriter,
        store: SessionStore,
        expected: Option<(String, PathBuf)>,
    ) -> Self {
        Self { inner, reply, store, expected, next: Instant::now(), failure: None }
    }

    fn look(&mut self) {
        let Some((id, file)) = &self.expected else { return };
        let is_there = tree(&self.store)
            .is_some_and(|(tree, state)| matches!(tree.facts(&state.join(file)), Ok(Some(_))));
        if !is_there {
            return;
        }
        let event = json!({ "type": "system", "subtype": "interactive", "session_id": id });
        if let Ok(event) = parse_event(&event.to_string())
            && let Err(error) = self.reply.add(event)
        {
            self.failure.get_or_insert(error);
        }
        self.expected = None;
    }

    /// Closes the reply.
    pub(super) fn finish(mut self, is_error: bool, measured: Duration) -> Result<S, SandboxError> {
        self.look();
        self.reply.finish(ReplyEnd { is_error, measured })?;
        self.failure.map_or(Ok(self.inner), |error| Err(error.into()))
    }
}

impl<S: Sink> Sink for SessionRecorder<S> {
    async fn take(&mut self, chunk: Chunk) -> ControlFlow<Ended> {
        if self.expected.is_some() && self.next <= Instant::now() {
            self.look();
            self.next = Instant::now() + POLL_INTERVAL;
        }
        self.inner.take(chunk).await
    }

    fn at_end(&self) -> impl FnOnce() + Send + use<S> {
        self.inner.at_end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_in_place_of_the_file_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let store = SessionStore::open(folder.path().join("session"), "c").unwrap();
        let path = store.state_dir().join(CLAUDE_ANSWERS);
        assert_eq!(answers_of(&store), None);
        std::fs::write(&path, "{}").unwrap();
        assert_eq!(answers_of(&store).as_deref(), Some(&b"{}"[..]), "the control");
        std::fs::File::create(&path).unwrap().set_len(LARGEST + 1).unwrap();
        assert_eq!(answers_of(&store), None);
        std::fs::remove_file(&path).unwrap();
        std::fs::write(folder.path().join("secret"), "{}").unwrap();
        std::os::unix::fs::symlink(folder.path().join("secret"), &path).unwrap();
        assert_eq!(answers_of(&store), None);
        std::fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
            .unwrap();
        assert_eq!(answers_of(&store), None);
    }
}

//! An agent on a terminal: its own screen instead of events.

use std::io::Read as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use claude_output::parse_event;
use sandbox_agents::Ended;
use sandbox_files::tree::Tree;
use sandbox_session::{ReplyEnd, ReplyWriter, SessionError, SessionStore};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::container::Chunk;
use crate::error::SandboxError;

use super::drive::Sink;

/// Claude Code's file of answers to the questions of a first start, and of much else.
pub(super) const ANSWERS: &str = ".claude.json";
/// A larger file is not kept.
const LARGEST: u64 = 4 * 1024 * 1024;
/// The number of last characters of a key that Claude Code remembers.
const KEY_END: usize = 20;
/// The default working directory.
pub(super) const WORKING_DIR: &str = "/workspace";
/// The polling interval for the session's file, which appears with the first message.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// [`ANSWERS`] with answers to all questions before the first prompt: the theme, whether the folder
/// is trusted, whether this key is to be used (a surrogate, in a task), and whether it may act
/// without asking. The sandbox confines the task regardless of the answers.
pub(super) fn answered(before: Option<&[u8]>, working_dir: Option<&str>, key: Option<&str>) -> Vec<u8> {
    let before = before.and_then(|bytes| serde_json::from_slice(bytes).ok());
    let mut answers: Map<String, Value> = before.unwrap_or_default();
    answers.insert("hasCompletedOnboarding".to_owned(), true.into());
    answers.insert("bypassPermissionsModeAccepted".to_owned(), true.into());
    let mut projects = taken(&mut answers, "projects");
    for folder in Path::new(working_dir.unwrap_or(WORKING_DIR)).ancestors() {
        let name = folder.display().to_string();
        let mut project = taken(&mut projects, &name);
        project.insert("hasTrustDialogAccepted".to_owned(), true.into());
        projects.insert(name, project.into());
    }
    answers.insert("projects".to_owned(), projects.into());
    if let Some(key) = key {
        let start = key.char_indices().rev().nth(KEY_END - 1).map_or(0, |(start, _)| start);
        let end = key.get(start..).unwrap_or_default();
        answers.insert("customApiKeyResponses".to_owned(), json!({ "approved": [end], "rejected": [] }));
    }
    Value::from(answers).to_string().into_bytes()
}

/// The object at `name`; empty if there is none.
fn taken(parent: &mut Map<String, Value>, name: &str) -> Map<String, Value> {
    match parent.remove(name) {
        Some(Value::Object(object)) => object,
        _ => Map::new(),
    }
}

/// The file as the last execution left it; `None` if it is not a file, or too large.
pub(super) fn answers_of(store: &SessionStore) -> Option<Vec<u8>> {
    let (tree, state) = tree(store)?;
    let mut bytes = Vec::new();
    tree.file(&state.join(ANSWERS)).ok()?.take(LARGEST + 1).read_to_end(&mut bytes).ok()?;
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

/// The path where Claude Code keeps the session `id` of `working_dir`.
pub(super) fn claude_file(working_dir: Option<&str>, id: &str) -> PathBuf {
    let folder = working_dir.unwrap_or(WORKING_DIR);
    let project: String = folder.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    Path::new("projects").join(project).join(format!("{id}.jsonl"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_added_and_the_rest_is_kept() {
        let key = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789AA";
        let before = br#"{"theme":"light","projects":{"/workspace":{"lastCost":1},"/":7},"customApiKeyResponses":{"rejected":["stuvwxyz0123456789AA"]}}"#;
        let answers: Value =
            serde_json::from_slice(&answered(Some(before), Some("/workspace/a"), Some(key))).unwrap();
        let trusted = json!({"hasTrustDialogAccepted": true});
        assert_eq!(
            answers,
            json!({
                "theme": "light", "hasCompletedOnboarding": true, "bypassPermissionsModeAccepted": true,
                "projects": {"/": trusted, "/workspace": {"lastCost": 1, "hasTrustDialogAccepted": true}, "/workspace/a": trusted},
                "customApiKeyResponses": {"approved": ["stuvwxyz0123456789AA"], "rejected": []},
            })
        );
        for hostile in [&b"[]"[..], b"\xff", b"{\"projects\":[1]}", b""] {
            let answers: Value = serde_json::from_slice(&answered(Some(hostile), None, Some("k"))).unwrap();
            assert_eq!(answers["projects"]["/workspace"], trusted);
            assert_eq!(answers["customApiKeyResponses"]["approved"], json!(["k"]));
        }
        assert!(!String::from_utf8(answered(None, None, None)).unwrap().contains("customApiKey"));
    }

    #[test]
    fn link_in_place_of_the_file_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let store = SessionStore::open(folder.path().join("session"), "c").unwrap();
        let path = store.state_dir().join(ANSWERS);
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

    #[test]
    fn session_path_is_that_of_claude_code() {
        assert_eq!(claude_file(Some("/workspace/a.b"), "x"), Path::new("projects/-workspace-a-b/x.jsonl"));
    }
}

//! The session store: reads a session for callers, and opens its writer.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::directory::SessionDirectory;
use super::error::SessionError;
use super::metadata::SessionMetadata;
use super::outline::SessionOutline;
use super::snapshot::{self, Sketch};
use super::writer::{ReplyWriter, SessionWriter};

/// The folder of Claude Code's state.
const CLAUDE: &str = "claude";

/// Reads the session of an execution context from its directory, at any time, also while an
/// execution runs.
///
/// Each call reads the files again.
#[derive(Debug, Clone)]
pub struct SessionStore {
    path: PathBuf,
    execution_context_id: String,
    agent: String,
}

impl SessionStore {
    /// The store in the directory `session_dir`, for the context `execution_context_id`. Creates
    /// the directory and its `claude/` with mode 0700 if they are missing.
    ///
    /// # Errors
    ///
    /// If they cannot be created, or `claude/` is a symbolic link.
    pub fn open(
        session_dir: impl AsRef<Path>,
        execution_context_id: impl Into<String>,
    ) -> Result<Self, SessionError> {
        Self::of_agent(session_dir, execution_context_id, CLAUDE, &[])
    }

    /// The store for the agent `agent`, one of `agents`: its state is in a folder of that name.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open); [`SessionError::OtherAgent`] if another of `agents` has its state
    /// there.
    pub fn of_agent(
        session_dir: impl AsRef<Path>,
        execution_context_id: impl Into<String>,
        agent: &str,
        agents: &[&str],
    ) -> Result<Self, SessionError> {
        let path = session_dir.as_ref().to_owned();
        let directory = SessionDirectory::create(&path)?;
        for other in agents.iter().filter(|other| **other != agent) {
            if directory.has_state(other)? {
                return Err(SessionError::OtherAgent { path, found: (*other).to_owned() });
            }
        }
        directory.create_state(agent)?;
        let execution_context_id = execution_context_id.into();
        Ok(Self { path, execution_context_id, agent: agent.to_owned() })
    }

    /// The session's history, with the events of a running reply so far; `None` before the first
    /// execution.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, is damaged or belongs to another context. A damaged file is never
    /// mistaken for an absent one, and never overwritten.
    pub fn load(&self) -> Result<Option<SessionMetadata>, SessionError> {
        let Some(directory) = SessionDirectory::open(&self.path)? else {
            return Ok(None);
        };
        snapshot::read(&directory, &self.execution_context_id)
    }

    /// The session without texts and events, in memory that does not grow with these.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load), if it finds damage.
    pub fn outline(&self) -> Result<Option<SessionOutline>, SessionError> {
        let Some(directory) = SessionDirectory::open(&self.path)? else {
            return Ok(None);
        };
        Ok(Sketch::read(&directory, &self.execution_context_id)?.map(Sketch::outline))
    }

    /// See [`SessionMetadata::session_id_for_resume`].
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub fn session_id_for_resume(&self) -> Result<Option<String>, SessionError> {
        Ok(self.outline()?.and_then(|session| session.session_id_for_resume().map(str::to_owned)))
    }

    /// See [`SessionMetadata::last_successful_response`].
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub fn last_successful_response(&self) -> Result<Option<String>, SessionError> {
        Ok(self.load()?.and_then(|session| session.last_successful_response().map(str::to_owned)))
    }

    /// The model of the context, if one was chosen.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub fn model(&self) -> Result<Option<String>, SessionError> {
        Ok(self.outline()?.and_then(|session| session.model))
    }

    /// Chooses the model.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load); if the file cannot be written; [`SessionError::Busy`] while an
    /// execution runs.
    pub fn set_model(&self, model: &str) -> Result<(), SessionError> {
        SessionWriter::open(&self.path, &self.execution_context_id)?.set_model(model)
    }

    /// The folder of the agent's own state: `claude` in the session directory for Claude Code.
    #[must_use]
    pub fn state_dir(&self) -> PathBuf {
        self.path.join(&self.agent)
    }

    /// Begins a reply to `request_text`, now. Until the writer is dropped, no other process writes
    /// the session.
    ///
    /// A new execution is a new reply, even if a killed one had the same text: that one's reply is
    /// kept.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load); [`SessionError::Busy`] while another execution runs; if the files
    /// cannot be written.
    pub fn begin(&self, request_text: &str) -> Result<ReplyWriter, SessionError> {
        SessionWriter::open(&self.path, &self.execution_context_id)?.begin(request_text, SystemTime::now())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use claude_output::parse_event;
    use serde_json::{Value, json};

    use super::*;

    struct Fixture {
        directory: tempfile::TempDir,
        store: SessionStore,
    }

    impl Fixture {
        fn new(files: &[(&str, &Value)]) -> Self {
            let directory = tempfile::tempdir().unwrap();
            for (name, json) in files {
                fs::write(directory.path().join(name), json.to_string()).unwrap();
            }
            let store = SessionStore::open(directory.path(), "c").unwrap();
            Self { directory, store }
        }

        fn context(&self) -> Value {
            serde_json::from_slice(&fs::read(self.directory.path().join("context.json")).unwrap()).unwrap()
        }
    }

    #[test]
    fn fresh_session_is_empty_and_reading_it_writes_nothing() {
        let fixture = Fixture::new(&[]);
        assert_eq!(fixture.store.load().unwrap(), None);
        assert_eq!(fixture.store.session_id_for_resume().unwrap(), None);
        assert_eq!(fixture.store.last_successful_response().unwrap(), None);
        assert_eq!(fixture.store.model().unwrap(), None);
        let names: Vec<_> =
            fs::read_dir(fixture.directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["claude"]);
        assert!(fixture.store.state_dir().is_dir());
    }

    #[test]
    fn agents_do_not_share_a_session() {
        let folder = tempfile::tempdir().unwrap();
        let open = |agent| SessionStore::of_agent(folder.path(), "c", agent, &["claude", "codex"]);
        assert_eq!(open("codex").unwrap().state_dir(), folder.path().join("codex"));
        assert!(open("codex").is_ok());
        assert!(matches!(open("claude"), Err(SessionError::OtherAgent { found, .. }) if found == "codex"));
    }

    #[test]
    fn model_is_stored_and_other_fields_are_kept() {
        let fixture = Fixture::new(&[(
            "context.json",
            &json!({"execution_context_id": "c", "effort": "high", "replies": [{"session_id": "s", "mood": 1}]}),
        )]);
        fixture.store.set_model("opus").unwrap();
        assert_eq!(fixture.store.model().unwrap().as_deref(), Some("opus"));
        assert_eq!(fixture.store.session_id_for_resume().unwrap().as_deref(), Some("s"));
        let writer = fixture.store.begin("hi").unwrap();
        assert!(matches!(fixture.store.set_model("sonnet"), Err(SessionError::Busy { .. })));
        drop(writer);
        let context = fixture.context();
        assert_eq!(context["effort"], "high");
        assert_eq!(context["model"], "opus");
        assert_eq!(context["replies"][0]["mood"], 1);
        assert_eq!(context["replies"][1]["request_text"], "hi");
    }

    #[test]
    fn older_session_is_read_and_left_unchanged() {
        let older = json!({"task_id": "c", "model": "opus", "note": 1, "replies": [{"session_id": "s", "response_text": "x", "is_error": false}]});
        let fixture = Fixture::new(&[("session.json", &older)]);
        assert_eq!(fixture.store.session_id_for_resume().unwrap().as_deref(), Some("s"));
        let mut writer = fixture.store.begin("hi").unwrap();
        writer.add(parse_event(r#"{"type":"system","session_id":"t"}"#).unwrap()).unwrap();
        drop(writer);
        assert_eq!(fixture.store.session_id_for_resume().unwrap().as_deref(), Some("t"));
        let context = fixture.context();
        assert_eq!(context["execution_context_id"], "c");
        assert_eq!(context["note"], 1);
        assert_eq!(context["replies"].as_array().unwrap().len(), 2);
        let left: Value =
            serde_json::from_slice(&fs::read(fixture.directory.path().join("session.json")).unwrap())
                .unwrap();
        assert_eq!(left, older);
    }

    #[test]
    fn damage_is_an_error_with_a_fix_and_nothing_is_overwritten() {
        let good = r#"{"execution_context_id":"c","replies":[]}"#;
        let cases = [
            ("context.json", ""),
            ("context.json", "{"),
            ("context.json", "[]"),
            ("context.json", r#"{"replies":[]}"#),
            ("context.json", r#"{"execution_context_id":"c","replies":[{"events":["x"]}]}"#),
            ("session.json", "{"),
            ("context.journal.jsonl", "{}\n"),
            (
                "context.journal.jsonl",
                "{\"journal\":1,\"execution_context_id\":\"c\",\"reply\":18446744073709551615,\"timestamp\":\"t\",\"request_text\":\"\"}\n",
            ),
        ];
        for (name, content) in cases {
            let fixture = Fixture::new(&[]);
            if name == "context.journal.jsonl" {
                fs::write(fixture.directory.path().join("context.json"), good).unwrap();
            }
            let path = fixture.directory.path().join(name);
            fs::write(&path, content).unwrap();
            let errors = [
                fixture.store.load().unwrap_err(),
                fixture.store.set_model("opus").unwrap_err(),
                fixture.store.begin("hi").unwrap_err(),
            ];
            for error in errors {
                let text = error.to_string();
                assert!(
                    matches!(&error, SessionError::Damaged { path: named, .. } if *named == path),
                    "{text}"
                );
                assert!(text.contains("restore it from a copy, or move it away"), "{text}");
            }
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
    }

    #[test]
    fn session_of_another_context_is_refused() {
        for (name, key) in [("context.json", "execution_context_id"), ("session.json", "task_id")] {
            let fixture = Fixture::new(&[(name, &json!({key: "d", "replies": []}))]);
            assert!(
                matches!(fixture.store.load(), Err(SessionError::OtherContext { found, .. }) if found == "d")
            );
            assert!(matches!(fixture.store.begin("hi"), Err(SessionError::OtherContext { .. })));
        }
    }

    #[test]
    fn one_execution_has_a_session_at_a_time() {
        let fixture = Fixture::new(&[]);
        let other = SessionStore::open(fixture.directory.path(), "c").unwrap();
        let writer = fixture.store.begin("a").unwrap();
        let error = other.begin("b").unwrap_err();
        assert!(error.to_string().contains("is in use by another execution"), "{error}");
        drop(writer);
        other.begin("b").unwrap();
    }
}

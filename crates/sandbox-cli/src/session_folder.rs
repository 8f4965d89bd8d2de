//! The folder of an agent's session: a project has one, and more for agents that work in it
//! concurrently.

use std::path::PathBuf;

use sandbox::session::{SessionOutline, SessionStore};
use sandbox::{Agent, SandboxError};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::failure::Failure;
use crate::settings::Project;

/// More agents than anybody starts in one project.
const MOST: u32 = 64;

/// The folder of a session, and its agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionFolder {
    base: PathBuf,
    pub(crate) context: String,
    agent: Agent,
    /// Its number in the project, from 1; `None` for a named folder.
    number: Option<u32>,
}

impl SessionFolder {
    /// The project's first folder of this agent, unless one was named; a named folder belongs to no
    /// project, so that it can be moved.
    pub(crate) fn new(named: Option<PathBuf>, project: &Project, agent: &Agent) -> Self {
        if let Some(base) = named {
            return Self::named(base, agent);
        }
        let agent = agent.clone();
        let context = project.key.clone();
        let name = if agent.is_claude() { context.clone() } else { format!("{context}.{}", agent.name()) };
        Self { base: project.places.session(&name), context, agent, number: Some(1) }
    }

    /// The folder `base`.
    pub(crate) fn named(base: PathBuf, agent: &Agent) -> Self {
        Self { base, context: "agent".to_owned(), agent: agent.clone(), number: None }
    }

    /// The folder itself.
    pub(crate) fn dir(&self) -> PathBuf {
        match self.number {
            None | Some(1) => self.base.clone(),
            Some(number) => {
                let mut name = self.base.clone().into_os_string();
                name.push(format!(".{number}"));
                name.into()
            }
        }
    }

    /// The next folder to try if this one is in use; `None` for a named one, and after the last
    /// one.
    pub(crate) fn next(&self) -> Option<Self> {
        let number = self.number.filter(|number| *number < MOST)?;
        Some(Self { number: Some(number + 1), ..self.clone() })
    }

    /// The folder with the latest reply.
    pub(crate) fn most_recent(self) -> Result<Self, Failure> {
        let mut latest = (None, self.clone());
        for (folder, session) in self.sessions()? {
            if session.session_id_for_resume().is_none() {
                continue;
            }
            let last = session.replies.last();
            let began = last.and_then(|reply| OffsetDateTime::parse(&reply.timestamp, &Rfc3339).ok());
            if began > latest.0 {
                latest = (began, folder);
            }
        }
        Ok(latest.1)
    }

    /// The folder that has the session `id`; otherwise the first.
    pub(crate) fn with_session(self, id: &str) -> Result<Self, Failure> {
        let mut sessions = self.sessions()?.into_iter();
        let found = sessions.find(|(_, session)| session.replies.iter().any(|reply| reply.session_id == id));
        Ok(found.map_or(self, |(folder, _)| folder))
    }

    /// The sessions in the folders; none for a named folder, which is not opened before it is known
    /// to be out of reach of tasks.
    fn sessions(&self) -> Result<Vec<(Self, SessionOutline)>, Failure> {
        if self.number.is_none() {
            return Ok(Vec::new());
        }
        let folders = std::iter::successors(Some(self.clone()), Self::next);
        let mut sessions = Vec::new();
        for folder in folders.take_while(|folder| folder.dir().is_dir()) {
            let agent = folder.agent.name();
            let store = SessionStore::of_agent(folder.dir(), &folder.context, agent, Agent::NAMES)
                .map_err(SandboxError::from)?;
            if let Some(session) = store.outline().map_err(SandboxError::from)? {
                sessions.push((folder, session));
            }
        }
        Ok(sessions)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

    fn folder(base: PathBuf, number: Option<u32>) -> SessionFolder {
        SessionFolder { base, context: "c".to_owned(), agent: Agent::default(), number }
    }

    #[test]
    fn project_has_several_folders_and_a_named_one_is_single() {
        let first = folder("/s/app-1".into(), Some(1));
        assert_eq!(first.dir(), PathBuf::from("/s/app-1"));
        assert_eq!(first.next().unwrap().next().unwrap().dir(), PathBuf::from("/s/app-1.3"));
        assert_eq!(folder("/s/app-1".into(), Some(MOST)).next(), None);
        assert_eq!(folder("/s/mine".into(), None).next(), None);
    }

    #[test]
    fn session_is_found_in_any_of_the_folders() {
        let state = tempfile::tempdir().unwrap();
        let first = folder(state.path().join("app"), Some(1));
        let second = first.next().unwrap();
        assert_eq!(first.clone().most_recent().unwrap(), first, "there is none yet");
        for (folder, id, began) in
            [(&first, "a", "2026-01-02T00:00:00Z"), (&second, "b", "2026-01-02T00:00:00.5Z")]
        {
            let reply = json!({"session_id": id, "timestamp": began, "request_text": "x"});
            fs::create_dir(folder.dir()).unwrap();
            let context = json!({"execution_context_id": "c", "replies": [reply]}).to_string();
            fs::write(folder.dir().join("context.json"), context).unwrap();
        }
        assert_eq!(first.clone().with_session("b").unwrap(), second);
        assert_eq!(first.clone().with_session("a").unwrap(), first);
        assert_eq!(first.clone().with_session("none").unwrap(), first);
        assert_eq!(first.clone().most_recent().unwrap(), second, "half a second later");
        let later =
            fs::read_to_string(second.dir().join("context.json")).unwrap().replace("00:00:00.5", "00:00:01");
        fs::write(second.dir().join("context.json"), later).unwrap();
        assert_eq!(first.most_recent().unwrap(), second);
    }
}

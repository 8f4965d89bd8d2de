//! The record of a run, in its folder: program, end, and session.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use sandbox::ExecutionResult;
use sandbox_files::{Replacement, hex};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::failure::Failure;

const NAME: &str = "run.json";
/// The number of characters of a command that are shown.
const SHOWN: usize = 200;

/// The record of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunRecord {
    /// Rises when a field changes its meaning or is removed.
    version: u32,
    /// The project's folder; empty in older records.
    #[serde(default)]
    pub(crate) project: String,
    /// Program and arguments, or the agent's name.
    pub(crate) command: String,
    /// RFC 3339, UTC.
    pub(crate) began: String,
    /// Whether it works on the project's copy of the work tree; false in older records.
    #[serde(default)]
    pub(crate) copy: bool,
    /// `None` while it runs, and if it was killed.
    pub(crate) end: Option<RunEnd>,
    /// The agent's session.
    pub(crate) session: Option<SessionOfRun>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunEnd {
    /// The exit code of the sandbox command.
    pub(crate) exit_code: u8,
    pub(crate) duration_ms: u64,
}

/// The result of an agent's run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SessionOfRun {
    pub(crate) agent: String,
    pub(crate) folder: PathBuf,
    /// The execution context in it.
    pub(crate) context: String,
    /// The digest of the prompt; `None` in older records, and if prompts are typed.
    #[serde(default)]
    pub(crate) prompt: Option<String>,
    pub(crate) id: Option<String>,
    pub(crate) outcome: Option<String>,
    /// US dollars, at list prices.
    pub(crate) cost: Option<f64>,
    pub(crate) turns: Option<u64>,
}

impl RunRecord {
    /// A run of `command` in the project at `root` that starts now.
    pub(crate) fn begin(root: &Path, command: &[String]) -> Self {
        let mut shown = command.join(" ");
        if let Some((end, _)) = shown.char_indices().nth(SHOWN) {
            shown.truncate(end);
            shown.push('…');
        }
        let project = root.display().to_string();
        Self { version: 1, project, command: shown, began: now(), copy: false, end: None, session: None }
    }

    /// The same, on the project's copy of the work tree if `copy` is set.
    pub(crate) fn with_copy(self, copy: bool) -> Self {
        Self { copy, ..self }
    }

    /// The same, for an agent with this session.
    pub(crate) fn with_session(self, agent: &str, folder: PathBuf, context: &str) -> Self {
        let (agent, context) = (agent.to_owned(), context.to_owned());
        let session = SessionOfRun {
            agent,
            folder,
            context,
            prompt: None,
            id: None,
            outcome: None,
            cost: None,
            turns: None,
        };
        Self { session: Some(session), ..self }
    }

    /// The same, for an agent with this prompt.
    pub(crate) fn with_prompt(mut self, prompt: Option<&str>) -> Self {
        if let Some(session) = &mut self.session {
            session.prompt = prompt.map(digest);
        }
        self
    }

    /// Whether it is the record of an agent with this prompt.
    pub(crate) fn has_prompt(&self, prompt: &str) -> bool {
        self.session.as_ref().is_some_and(|session| session.prompt == Some(digest(prompt)))
    }

    /// Adds the agent's result.
    pub(crate) fn came_to(&mut self, result: &ExecutionResult) {
        if let Some(session) = &mut self.session {
            session.id.clone_from(&result.session_id);
            session.outcome = Some(result.outcome.as_str().to_owned());
            session.cost = Some(result.total_cost_usd);
            session.turns = Some(result.num_turns);
        }
    }

    /// The same, ended now with this exit code.
    pub(crate) fn finished(self, exit_code: u8) -> Self {
        let began = OffsetDateTime::parse(&self.began, &Rfc3339).ok();
        let took = began.map(|began| (OffsetDateTime::now_utc() - began).whole_milliseconds());
        let duration_ms = took.and_then(|took| u64::try_from(took).ok()).unwrap_or_default();
        Self { end: Some(RunEnd { exit_code, duration_ms }), ..self }
    }

    /// The record in the folder of a run; `None` for a run that was never executed, or whose record
    /// is unreadable.
    pub(crate) fn read(folder: &Path) -> Option<Self> {
        let record: Self = serde_json::from_slice(&fs::read(folder.join(NAME)).ok()?).ok()?;
        (record.version == 1).then_some(record)
    }

    /// Whether the folder of a run has a record, even if it cannot be read.
    pub(crate) fn exists(folder: &Path) -> bool {
        folder.join(NAME).symlink_metadata().is_ok()
    }

    /// Writes it into the folder of its run.
    pub(crate) fn write(&self, folder: &Path) -> Result<(), Failure> {
        let doing = || format!("write `{}`", folder.join(NAME).display());
        let bytes = serde_json::to_vec(self).map_err(Failure::doing(doing()))?;
        Replacement::private().write(&folder.join(NAME), &bytes).map_err(Failure::doing(doing()))
    }
}

/// SHA-256, in hexadecimal digits.
pub(crate) fn digest(prompt: &str) -> String {
    hex(&Sha256::digest(prompt.as_bytes()))
}

/// The time, in milliseconds since the Unix epoch.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn now() -> String {
    // Formatting the current time cannot fail.
    OffsetDateTime::now_utc().format(&Rfc3339).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_round_trips_and_long_commands_are_cut() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(RunRecord::read(folder.path()), None);
        let record =
            RunRecord::begin(Path::new("/srv"), &["sh".to_owned(), "-c".to_owned(), "é".repeat(500)]);
        assert_eq!(record.command.chars().count(), SHOWN + 1);
        let record = record.finished(3).with_session("claude", "/s".into(), "c");
        record.write(folder.path()).unwrap();
        assert_eq!(RunRecord::read(folder.path()), Some(record));
        fs::write(folder.path().join(NAME), r#"{"version":2}"#).unwrap();
        assert_eq!(RunRecord::read(folder.path()), None);
    }
}

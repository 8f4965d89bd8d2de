//! The record of the run of a bundle: what came out of it, and what was measured.

use std::io::{self, Read};

use sandbox_agents::Outcome as AgentOutcome;
use serde::{Deserialize, Serialize};

use crate::canonical;
use crate::digest::{self, Digest};
use crate::error::InvalidBundle;

/// The only version of the format.
const VERSION: u32 = 1;
/// The name of the record.
const NAME: &str = "result.json";

/// The record. It names the other files of a result by their digests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunResult {
    version: u32,
    /// The digest of [`outcome`](Self::outcome): the same for each run of a deterministic command.
    pub digest: Digest,
    /// What came out.
    pub outcome: Outcome,
    /// What was measured, which differs from run to run.
    pub measured: Measured,
}

/// What came out of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// The digest of the bundle.
    pub bundle: Digest,
    /// What ended the run.
    pub ended: Ended,
    /// The exit code of `sandbox run`: the command's own, or 124; for an agent, that of `sandbox agent`.
    pub exit_code: u8,
    /// The end of an agent; `None` for a command.
    pub agent: Option<AgentEnd>,
    /// The file `changes.tar`.
    pub changes: Content,
    /// The first 1,000 changes that it lacks, by path.
    pub omitted: Vec<Omitted>,
    /// The number of further ones. It is complete if there are none.
    pub omitted_more: u64,
    /// The file `stdout`.
    pub stdout: Content,
    /// The file `stderr`.
    pub stderr: Content,
    /// Bytes of both outputs that are not in these files. It is complete if there are none.
    pub cut: u64,
}

/// How an agent ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentEnd {
    /// The outcome, and what it used.
    pub summary: AgentSummary,
    /// The file `agent.json`: the document of `sandbox agent --output json`.
    pub report: Content,
    /// The file `context.json`: the session.
    pub session: Content,
}

/// The outcome of an agent, and what it used, as its container reported it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentSummary {
    /// The outcome.
    pub outcome: AgentOutcome,
    /// Turns of the conversation.
    pub turns: u64,
    /// The cost at list prices, in millionths of a US dollar.
    pub microdollars: u64,
}

/// What ended a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// Its own end; the outcome of an agent may name another cause.
    Exited,
    /// The time limit.
    TimedOut,
}

/// A change that a result lacks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Omitted {
    /// Its path, as text.
    pub path: String,
    /// The reason.
    pub reason: String,
}

/// The content of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Content {
    /// Its digest.
    pub sha256: Digest,
    /// Its bytes.
    pub size: u64,
}

impl Content {
    /// Verifies that `input` has this content.
    ///
    /// # Errors
    ///
    /// If it has another one, or reading fails; `name` is named then.
    pub fn verify(&self, input: impl Read, name: &str) -> Result<(), InvalidBundle> {
        let most = self.size.saturating_add(1);
        let found = digest::copy(input, most, io::sink()).map_err(InvalidBundle::reading(name))?;
        self.demand(found, name)
    }

    /// Demands that something with this size and digest was read.
    pub(crate) fn demand(&self, found: (u64, Digest), name: &str) -> Result<(), InvalidBundle> {
        if found == (self.size, self.sha256) {
            return Ok(());
        }
        Err(InvalidBundle::new(name, "was changed: it has another digest"))
    }
}

/// What was measured in a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// The file `network.jsonl`, whose lines have times.
    pub network: Content,
    /// Milliseconds from the start of the process to its end.
    pub duration_ms: u64,
    /// Whether a process was killed for lack of memory.
    pub oom_killed: bool,
    /// The tag of the image that ran, which is derived from its id.
    pub image: String,
    /// The version of the program that ran it.
    pub program: String,
}

impl RunResult {
    /// A record of these parts.
    ///
    /// # Errors
    ///
    /// If they cannot be written as JSON.
    pub fn new(outcome: Outcome, measured: Measured) -> Result<Self, InvalidBundle> {
        let digest = Digest::of(&bytes(&outcome)?);
        Ok(Self { version: VERSION, digest, outcome, measured })
    }

    /// The bytes of `result.json`.
    ///
    /// # Errors
    ///
    /// If they cannot be written as JSON.
    pub fn to_bytes(&self) -> Result<Vec<u8>, InvalidBundle> {
        bytes(self)
    }

    /// Reads `result.json`.
    ///
    /// # Errors
    ///
    /// If any byte differs from those that were written.
    pub fn read(text: &[u8]) -> Result<Self, InvalidBundle> {
        let invalid = |problem: String| InvalidBundle::new(NAME, problem);
        let read: Self = canonical::from_bytes(text).map_err(invalid)?;
        if read.version != VERSION {
            return Err(invalid(format!(
                "has version {} of the format, and this program reads version {VERSION}",
                read.version
            )));
        }
        if read.digest != Digest::of(&bytes(&read.outcome)?) {
            return Err(invalid("was changed: its outcome has another digest".to_owned()));
        }
        Ok(read)
    }
}

fn bytes(value: &impl Serialize) -> Result<Vec<u8>, InvalidBundle> {
    canonical::to_bytes(value).map_err(|error| InvalidBundle::new(NAME, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(exit_code: u8, duration_ms: u64) -> RunResult {
        let content = |text: &str| Content { sha256: Digest::of(text.as_bytes()), size: text.len() as u64 };
        let outcome = Outcome {
            bundle: Digest::of(b"bundle"),
            ended: Ended::Exited,
            exit_code,
            agent: None,
            changes: content("changes"),
            omitted: vec![Omitted { path: "pipe".to_owned(), reason: "it is a pipe".to_owned() }],
            omitted_more: 0,
            stdout: content("out"),
            stderr: content(""),
            cut: 0,
        };
        let [image, program] = ["5d0c", "0.1.0"].map(str::to_owned);
        let measured = Measured { network: content(""), duration_ms, oom_killed: false, image, program };
        RunResult::new(outcome, measured).unwrap()
    }

    #[test]
    fn digest_is_that_of_the_outcome_alone() {
        assert_eq!(result(0, 1).digest, result(0, 2).digest, "the time does not count");
        assert_ne!(result(0, 1).digest, result(1, 1).digest, "the control");
    }

    #[test]
    fn changed_record_is_refused() {
        let text = String::from_utf8(result(0, 1).to_bytes().unwrap()).unwrap();
        assert_eq!(RunResult::read(text.as_bytes()).unwrap(), result(0, 1), "the control");
        for (from, to, reason) in [
            (r#""exit_code":0"#, r#""exit_code":1"#, "its outcome has another digest"),
            (r#""reason":"it is a pipe""#, r#""reason":"""#, "its outcome has another digest"),
            (r#""version":1"#, r#""version":2"#, "has version 2"),
            (r#""ended":"exited""#, r#""ended":"lost""#, "is not the expected JSON"),
            (r#""measured":{"#, r#""measured":{"more":1,"#, "is not the expected JSON"),
            (r#""duration_ms":1"#, r#""duration_ms": 1"#, "another form"),
        ] {
            assert!(text.contains(from), "{from}: {text}");
            let error = RunResult::read(text.replacen(from, to, 1).as_bytes()).unwrap_err().to_string();
            assert!(error.contains(reason), "{to}: {error}");
        }
    }
}

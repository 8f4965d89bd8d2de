//! The record of the run of a bundle: what came out of it, and what was measured.

use serde::{Deserialize, Serialize};

use crate::canonical;
use crate::digest::Digest;
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
    /// The digest of [`core`](Self::core): the same for each run of a deterministic command.
    pub digest: Digest,
    /// What came out.
    pub core: Core,
    /// What was measured, which differs from run to run.
    pub measured: Measured,
}

/// What came out of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Core {
    /// The digest of the bundle.
    pub bundle: Digest,
    /// What ended the command.
    pub ended: Ended,
    /// The exit code of `sandbox run`: the command's own, or 124.
    pub exit_code: u8,
    /// The file `changes.tar`.
    pub changes: Content,
    /// Changes that it lacks. None if it is complete.
    pub left: Vec<Left>,
    /// The file `stdout`.
    pub stdout: Content,
    /// The file `stderr`.
    pub stderr: Content,
}

/// What ended a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// Its own end.
    Exited,
    /// The time limit.
    TimedOut,
}

/// A change that a result lacks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Left {
    /// Its path, as text.
    pub path: String,
    /// The reason.
    pub why: String,
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
    /// The version of the program that ran it.
    pub program: String,
}

impl RunResult {
    /// A record of these parts.
    ///
    /// # Errors
    ///
    /// If they cannot be written as JSON.
    pub fn new(core: Core, measured: Measured) -> Result<Self, InvalidBundle> {
        let digest = Digest::of(&bytes(&core)?);
        Ok(Self { version: VERSION, digest, core, measured })
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
        if read.digest != Digest::of(&bytes(&read.core)?) {
            return Err(invalid("was changed: its core has another digest".to_owned()));
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
        let core = Core {
            bundle: Digest::of(b"bundle"),
            ended: Ended::Exited,
            exit_code,
            changes: content("changes"),
            left: vec![Left { path: "pipe".to_owned(), why: "it is a pipe".to_owned() }],
            stdout: content("out"),
            stderr: content(""),
        };
        let program = "0.1.0".to_owned();
        let measured = Measured { network: content(""), duration_ms, oom_killed: false, program };
        RunResult::new(core, measured).unwrap()
    }

    #[test]
    fn digest_is_that_of_the_core_alone() {
        assert_eq!(result(0, 1).digest, result(0, 2).digest, "the time does not count");
        assert_ne!(result(0, 1).digest, result(1, 1).digest, "the control");
    }

    #[test]
    fn changed_record_is_refused() {
        let text = String::from_utf8(result(0, 1).to_bytes().unwrap()).unwrap();
        assert_eq!(RunResult::read(text.as_bytes()).unwrap(), result(0, 1), "the control");
        for (from, to, reason) in [
            (r#""exit_code":0"#, r#""exit_code":1"#, "its core has another digest"),
            (r#""why":"it is a pipe""#, r#""why":"""#, "its core has another digest"),
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

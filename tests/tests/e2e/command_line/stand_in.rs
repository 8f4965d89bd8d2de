//! A script that replaces Claude Code, for behaviour that the real one does not have.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use tempfile::TempDir;

/// The event with the answer `hi`.
pub(crate) const RESULT: &str = r#"{"type":"result","subtype":"success","is_error":false,"result":"hi","session_id":"a-b-c","num_turns":1,"duration_ms":1,"duration_api_ms":1,"total_cost_usd":0}"#;

/// The script, and its own session.
pub(crate) struct StandIn {
    _folder: TempDir,
    program: String,
    session: String,
}

impl StandIn {
    /// Writes `script` after a first line that selects bash.
    pub(crate) fn new(script: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("claude");
        fs::write(&program, format!("#!/bin/bash\n{script}\n")).expect("a script");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("our own file");
        Self {
            program: program.display().to_string(),
            session: folder.path().join("session").display().to_string(),
            _folder: folder,
        }
    }

    /// The arguments of `sandbox` that run the script, including `flags`.
    pub(crate) fn arguments<'a>(&'a self, flags: &[&'a str]) -> Vec<&'a str> {
        let own = ["agent", "--claude-bin", &self.program, "--session-dir", &self.session];
        [&own[..], flags, &["hello"]].concat()
    }

    /// The folder of its session.
    pub(crate) fn session(&self) -> &Path {
        Path::new(&self.session)
    }
}

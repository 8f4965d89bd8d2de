//! The machine of a user who has logged in, and agents on it.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use e2e_tests::DEADLINE;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::vendor::Vendor;
use crate::command_line::project::{Ended, PREFIX, Project};
use crate::command_line::stand_in::{RESULT, StandIn};

/// Reads the prompt, and the access token into a variable.
pub(super) const TOKEN: &str = r#"cat > /dev/null; TOKEN=$(grep -o '"accessToken":"[^"]*"' /root/.claude/.credentials.json | cut -d'"' -f4)"#;

/// The login, where `claude` stores it, and its vendor.
pub(super) struct Machine {
    folder: TempDir,
    host: &'static str,
    pub(super) vendor: Vendor,
}

impl Machine {
    /// A login for `host` whose access token expires in `left`.
    pub(super) fn new(host: &'static str, left: Duration) -> Self {
        // Outside the folders in which the search looks for leftovers of runs.
        let folder = tempfile::tempdir_in("/var/tmp").expect("a folder");
        let machine = Self { folder, host, vendor: Vendor::new(host) };
        machine.write(&machine.vendor.issued(0), left);
        machine
    }

    pub(super) fn file(&self) -> PathBuf {
        self.folder.path().join(".credentials.json")
    }

    /// Writes a login to the file.
    pub(super) fn write(&self, [access, refresh]: &[String; 2], left: Duration) {
        let ends = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock") + left;
        let login = json!({"claudeAiOauth": {
            "accessToken": access, "refreshToken": refresh,
            "expiresAt": u64::try_from(ends.as_millis()).expect("a time"),
            "scopes": ["user:inference", "user:profile"], "subscriptionType": "max",
        }});
        fs::write(self.file(), login.to_string()).expect("a file");
    }

    /// The pair of tokens in the file.
    pub(super) fn stored(&self) -> [String; 2] {
        let file: Value = serde_json::from_slice(&fs::read(self.file()).expect("a file")).expect("JSON");
        ["accessToken", "refreshToken"].map(|name| {
            let token = file.pointer(&format!("/claudeAiOauth/{name}"));
            token.and_then(Value::as_str).expect("a token").to_owned()
        })
    }

    /// A project whose agents use the login.
    pub(super) fn project(&self) -> Project {
        self.project_with_prefix(PREFIX)
    }

    pub(super) fn project_with_prefix(&self, prefix: &str) -> Project {
        let project = Project::with_prefix(prefix);
        project.append(
            ".sandbox/sandbox.yaml",
            &format!(
                "logins: {{claude: {{file: {}, token_url: '{}', scopes: [{}]}}}}\n",
                self.file().display(),
                self.vendor.url(),
                self.host
            ),
        );
        project.write(".sandbox/network-allowlist.yaml", &format!("domains: [{}]\n", self.host));
        project
    }

    /// An agent that sends one request to the service with its access token, and fails if that is
    /// refused.
    pub(super) fn asking_agent(&self) -> StandIn {
        StandIn::new(&format!(
            "{TOKEN}\ncurl -sS --fail -H \"Authorization: Bearer $TOKEN\" https://{}/ >&2 || exit 9\necho '{RESULT}'",
            self.host
        ))
    }
}

/// The command that runs `agent` in `project`.
pub(super) fn command(project: &Project, agent: &StandIn) -> Command {
    project.sandbox(&agent.arguments(&["--workspace", "direct"]))
}

pub(super) fn run(project: &Project, agent: &StandIn) -> Ended {
    command(project, agent).output().expect("the sandbox command").into()
}

/// Waits until `condition` holds.
pub(super) async fn until(what: &str, condition: impl Fn() -> bool) {
    let waiting = async {
        while !condition() {
            // tidy: sleep: between two polls
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    assert!(tokio::time::timeout(DEADLINE, waiting).await.is_ok(), "{what}");
}

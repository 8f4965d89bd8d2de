//! A gate in its own folder, a server for it on loopback, and git.

use std::path::{Path, PathBuf};
use std::process::Output;

use sandbox_gate::{Gate, GateServer, GateToken, Repository};
use tokio::net::TcpListener;
use tokio::process::Command;

pub(crate) struct Fixture {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) gate: Gate,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let gate = Gate::open(&folder.path().join("gate"));
        Self { folder, gate }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs a shell script in the fixture's folder; returns its output.
    pub(crate) async fn sh(&self, script: &str) -> Output {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).current_dir(self.folder.path());
        shell.env("HOME", self.folder.path()).env("GIT_TERMINAL_PROMPT", "0").env("GIT_CONFIG_NOSYSTEM", "1");
        for who in ["AUTHOR", "COMMITTER"] {
            shell.env(format!("GIT_{who}_NAME"), "e2e").env(format!("GIT_{who}_EMAIL"), "e2e@example.test");
        }
        shell.output().await.unwrap()
    }

    /// Runs a script that must succeed; returns its stdout.
    pub(crate) async fn must(&self, script: &str) -> String {
        let output = self.sh(script).await;
        assert!(output.status.success(), "{script}\n{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Serves `repositories`; returns the address for git, without the name of a repository.
    pub(crate) async fn serve(&self, repositories: &[&Repository]) -> String {
        let token = GateToken::mint();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = format!("http://git:{}@{}", token.expose(), listener.local_addr().unwrap());
        let server = GateServer::new(repositories.iter().copied().cloned(), token);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(server.clone().serve(stream));
            }
        });
        address
    }
}

/// The refs of a repository with shortened values; our own are omitted unless `hidden`.
pub(crate) async fn refs(fixture: &Fixture, path: &Path, hidden: bool) -> Vec<String> {
    let script =
        format!("git --git-dir '{}' for-each-ref --format='%(refname) %(contents:subject)'", path.display());
    let all = fixture.must(&script).await;
    let ours = |line: &&str| {
        line.starts_with("refs/sandbox/backup/") == hidden && (hidden || !line.starts_with("refs/sandbox/"))
    };
    all.lines().filter(ours).map(str::to_owned).collect()
}

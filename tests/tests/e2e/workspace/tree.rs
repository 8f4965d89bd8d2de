//! A work tree of the host with a git repository, and programs of the host that run in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use e2e_tests::fixture::{Fixture, Ran};
use e2e_tests::layouts::FIRST_COMMIT;
use sandbox::{CommandSpec, ContainerEnv, Mount, Network};
use tempfile::TempDir;

/// A work tree with one commit.
pub(super) struct Tree {
    folder: TempDir,
}

impl Tree {
    pub(super) fn new() -> Self {
        Self::with_template("")
    }

    /// With `init` as options of `git init`.
    pub(super) fn with_template(init: &str) -> Self {
        let tree = Self { folder: tempfile::tempdir().expect("a folder") };
        fs::create_dir(tree.path()).expect("a folder");
        let script = format!("git init -q -b main {init} . && {FIRST_COMMIT}");
        assert!(tree.host(&script).0, "git failed to create the work tree");
        tree
    }

    pub(super) fn path(&self) -> PathBuf {
        self.folder.path().join("tree")
    }

    /// A folder in which a copy of it can be stored.
    pub(super) fn copy_dir(&self) -> PathBuf {
        self.folder.path().join("copy")
    }

    /// The file that the evil script creates when the host executes it.
    pub(super) fn marker(&self) -> PathBuf {
        self.folder.path().join("pwned")
    }

    pub(super) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path().join(path)).unwrap_or_default()
    }

    /// Runs `script` on the host, in the work tree; returns whether it succeeded, and its output.
    pub(super) fn host(&self, script: &str) -> (bool, String) {
        let output = Command::new("sh")
            .args(["-c", script])
            .current_dir(self.path())
            .env("HOME", self.folder.path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .envs(["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"].map(|name| (name, "e2e")))
            .envs(["GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"].map(|name| (name, "e2e@example.test")))
            .output()
            .expect("a shell on the host");
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    }

    /// A command that runs `script` in `/workspace`, the target of `mount`. `$MARKER` is the
    /// marker's path on the host.
    pub(super) fn spec(&self, fixture: &Fixture, mount: Mount, script: &str) -> CommandSpec {
        let env = [
            ("MARKER", self.marker().display().to_string()),
            ("HOST", self.path().display().to_string()),
            ("GIT_AUTHOR_NAME", "task".to_owned()),
            ("GIT_COMMITTER_NAME", "task".to_owned()),
            ("GIT_AUTHOR_EMAIL", "task@example.test".to_owned()),
            ("GIT_COMMITTER_EMAIL", "task@example.test".to_owned()),
        ];
        fixture
            .command("domains: []", &["bash", "-c", script])
            .network(Network::Disabled)
            .env(env.into_iter().collect::<ContainerEnv>())
            .working_dir("/workspace")
            .mount(mount)
    }

    pub(super) async fn run(&self, fixture: &Fixture, mount: Mount, script: &str) -> Ran {
        fixture.run_spec(self.spec(fixture, mount, script)).await
    }

    pub(super) fn plain(&self) -> Mount {
        Mount::read_write(self.path(), "/workspace")
    }

    pub(super) fn copied(&self) -> Mount {
        Mount::copy_on_write(self.path(), "/workspace", self.copy_dir())
    }
}

/// The reported paths, relative to `root`, sorted.
pub(super) fn planted<'a>(ran: &'a Ran, root: &Path) -> Vec<&'a str> {
    let mut paths: Vec<&str> =
        ran.result.tampered.iter().map(|thing| thing.path_in(root).to_str().expect("a plain name")).collect();
    paths.sort_unstable();
    paths
}

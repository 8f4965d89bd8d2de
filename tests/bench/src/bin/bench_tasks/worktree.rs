//! A git work tree of many files, and the ways to mount it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use sandbox::Mount;
use sandbox::workspace::{ApplyOptions, Protection, WorkspaceCopy};
use test_world::layouts::{FIRST_COMMIT, Layout};

const FILES_IN_A_FOLDER: u32 = 50;
/// The author of the commits.
pub(crate) const IDENTITY: [(&str, &str); 4] = [
    ("GIT_AUTHOR_NAME", "bench"),
    ("GIT_AUTHOR_EMAIL", "bench@bench.test"),
    ("GIT_COMMITTER_NAME", "bench"),
    ("GIT_COMMITTER_EMAIL", "bench@bench.test"),
];

/// How the work tree is mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// As it is.
    Plain,
    /// Protected, as the command mounts it by default.
    Protected,
    /// As a copy created for this execution.
    Copy,
}

/// The work tree.
pub(crate) struct WorkTree {
    tree: PathBuf,
    copy: PathBuf,
}

impl WorkTree {
    /// A work tree with `files` files, not counting those of its repository.
    pub(crate) fn new(folder: &Path, files: u32) -> Result<Self> {
        let tree = folder.join("tree");
        for number in 0..files {
            let inner = tree.join(format!("src/{}", number / FILES_IN_A_FOLDER));
            fs::create_dir_all(&inner).with_context(|| format!("failed to create {}", inner.display()))?;
            fs::write(inner.join(format!("{number}.rs")), format!("// {number}\n"))
                .context("failed to write a file of the work tree")?;
        }
        Self::create(folder, "git init -q . && git add . && git commit -q -m all")
    }

    /// A small work tree of this layout.
    pub(crate) fn with_layout(folder: &Path, layout: Layout) -> Result<Self> {
        let tree = folder.join("tree");
        fs::create_dir_all(&tree).with_context(|| format!("failed to create {}", tree.display()))?;
        let Layout { before, .. } = layout;
        Self::create(folder, &format!("git init -q -b main . && {FIRST_COMMIT} && {before}"))
    }

    #[expect(clippy::disallowed_methods, reason = "git makes the repository")]
    fn create(folder: &Path, script: &str) -> Result<Self> {
        let tree = folder.join("tree");
        let made = std::process::Command::new("sh")
            .args(["-c", script])
            .current_dir(&tree)
            .env("HOME", folder)
            .envs(IDENTITY)
            .status();
        if !made.context("failed to start git")?.success() {
            bail!("git failed to create a repository in {}", tree.display());
        }
        Ok(Self { tree, copy: folder.join("copy") })
    }

    pub(crate) fn mount(&self, way: Way) -> Mount {
        match way {
            Way::Plain => Mount::read_write(&self.tree, "/workspace"),
            Way::Protected => Mount::read_write(&self.tree, "/workspace").protected(Protection::default()),
            Way::Copy => Mount::copy_on_write(&self.tree, "/workspace", &self.copy),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.tree
    }

    /// Applies the copy, in which at least `least` paths must have changed; returns the duration.
    pub(crate) fn apply(&self, least: usize) -> Result<Duration> {
        let begin = Instant::now();
        let copy = WorkspaceCopy::open(&self.copy).context("failed to open the copy")?;
        let copy = copy.context("there is no copy")?;
        let applied = copy.apply(&ApplyOptions::default()).context("failed to apply the copy")?;
        let took = begin.elapsed();
        if applied.applied.len() < least {
            bail!("only {} paths were applied", applied.applied.len());
        }
        Ok(took)
    }

    /// Discards the copy.
    pub(crate) fn discard(&self) -> Result<()> {
        match WorkspaceCopy::open(&self.copy).context("failed to open the copy")? {
            Some(copy) => copy.discard().context("failed to discard the copy"),
            None => Ok(()),
        }
    }
}

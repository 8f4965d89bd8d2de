//! The cost of applying the changes of a copy to its work tree.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use sandbox::Timings;

use super::sandboxed::Library;
use super::worktree::{Way, WorkTree};

/// Files of the large work tree, one of which is changed.
const LARGE: u32 = 100_000;
const CHANGE: &str = "echo changed >> /workspace/src/7/350.rs";
/// 50,000 new files in 500 folders.
pub(crate) const MANY: &str = "d=0; while [ $d -lt 500 ]; do mkdir -p /workspace/new/$d; i=0; while [ $i -lt 100 ]; do \
                    echo \"module.exports = $i\" > /workspace/new/$d/$i.js; i=$((i+1)); done; d=$((d+1)); done";

/// The trees.
pub(crate) struct ApplyTrees {
    large: WorkTree,
    small: WorkTree,
}

/// The results of one round.
pub(crate) struct ApplyRound {
    /// Time to the start on a plain mount of the large tree.
    pub(crate) large_plain: Duration,
    /// Additional time of a start on a copy, including the apply of one changed file.
    pub(crate) large_more: Duration,
    /// The apply alone.
    pub(crate) large_apply: Duration,
    /// The apply of 50,000 new files.
    pub(crate) many_apply: Duration,
    /// `cp -a` of the same files.
    pub(crate) many_copied: Duration,
}

impl ApplyTrees {
    pub(crate) fn new(folder: &Path) -> Result<Self> {
        Ok(Self {
            large: WorkTree::new(&folder.join("large"), LARGE)?,
            small: WorkTree::new(&folder.join("small"), 100)?,
        })
    }

    pub(crate) async fn round(&self, library: &Library) -> Result<ApplyRound> {
        let started = |timings: &Timings| Duration::from_millis(timings.started_ms);
        let (_, timings) = library.run(CHANGE, Some(self.large.mount(Way::Plain))).await?;
        let large_plain = started(&timings);
        let (_, timings) = library.run(CHANGE, Some(self.large.mount(Way::Copy))).await?;
        let large_copy = started(&timings);
        let large_apply = self.large.apply(1)?;
        library.run(MANY, Some(self.small.mount(Way::Copy))).await?;
        let many_apply = self.small.apply(50_000)?;
        let many_copied = self.copy_many()?;
        Ok(ApplyRound {
            large_plain,
            large_more: (large_copy + large_apply).saturating_sub(large_plain),
            large_apply,
            many_apply,
            many_copied,
        })
    }

    /// Copies the applied files, and removes both.
    #[expect(clippy::disallowed_methods, reason = "cp is what an apply is compared with")]
    fn copy_many(&self) -> Result<Duration> {
        let (new, copied) = (self.small.path().join("new"), self.small.path().join("copied"));
        let begin = Instant::now();
        let status = std::process::Command::new("cp").arg("-a").args([&new, &copied]).status();
        let took = begin.elapsed();
        if !status.context("failed to start cp")?.success() {
            bail!("cp failed to copy {}", new.display());
        }
        for folder in [new, copied] {
            std::fs::remove_dir_all(&folder)
                .with_context(|| format!("failed to remove {}", folder.display()))?;
        }
        Ok(took)
    }
}

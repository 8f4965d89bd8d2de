//! An execution's hold on its mounts: a watch over the protected ones, and the copies that it works
//! on.

use std::path::PathBuf;

use super::copy::{CopyInUse, WorkspaceCopy, take_outside};
use super::error::WorkspaceError;
use super::git_view::{GitChanges, Patience, Views, recover};
use super::mount::Mount;
use super::outside::stand_ins;
use super::tampered::TamperedPath;
use super::watch::Watch;

/// The mounts of a running execution, as far as the host must be protected from them.
#[derive(Debug)]
pub struct WorkspaceGuard {
    watch: Watch,
    copies: Vec<CopyInUse>,
    views: Views,
}

/// An execution's changes in its mounts that the host must know.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Findings {
    /// The paths that it tampered with, which have been handled.
    pub tampered: Vec<TamperedPath>,
    /// The imported and rejected changes in repositories of [protected](Mount::protected) mounts.
    pub git: GitChanges,
}

impl Findings {
    /// Whether there is nothing to report.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tampered.is_empty() && self.git.is_empty()
    }
}

impl WorkspaceGuard {
    /// Prepares `mounts`, and returns them with the mounts that guard them. Tampered paths will be
    /// moved to `quarantine`. The views of repositories are stored in `views`, a folder named after
    /// the execution, in one with those of other executions; without it, tasks cannot write in any
    /// repository of a protected mount.
    ///
    /// # Errors
    ///
    /// If a mount cannot be read, or its copy cannot be created or is in use.
    pub async fn take(
        mounts: Vec<Mount>,
        quarantine: PathBuf,
        views: Option<PathBuf>,
    ) -> Result<(Vec<Mount>, Self), WorkspaceError> {
        blocking(move || {
            let copies = mounts.iter().filter_map(|mount| {
                let folder = mount.copy_dir()?;
                let failed = |source| WorkspaceError::new("copy", mount.host_path(), source);
                let tree = mount.tree().map_err(failed);
                // This follows the copy that it belongs to, which locks both.
                let taken = |_| match mount.own_part() {
                    Some(own) => take_outside(mount.host_path(), own, folder).map(|()| None),
                    None => WorkspaceCopy::take(mount.host_path(), folder).map(Some),
                };
                tree.and_then(taken).transpose()
            });
            let copies = copies.collect::<Result<_, _>>()?;
            let stand_ins = stand_ins(&mounts);
            let mut views = Views::new(views);
            let trees = mounts.iter().filter(|mount| !mount.read_only() && mount.copy_dir().is_none());
            let trees: Vec<PathBuf> =
                trees.filter_map(|mount| Some(mount.tree().ok()?.path().to_owned())).collect();
            let (mut mounts, watch) = Watch::begin(mounts, quarantine, &mut views)?;
            if !views.is_empty() || !watch.is_empty() && !trees.is_empty() {
                views.announce(trees)?;
            }
            mounts.extend(stand_ins);
            Ok((mounts, Self { watch, copies, views }))
        })
        .await?
    }

    /// Waits for the preparation that [`take`](Self::take) continues in the background. Call it
    /// before anything of the execution begins.
    ///
    /// # Errors
    ///
    /// If a copy could not be prepared.
    pub async fn prepared(&mut self) -> Result<(), WorkspaceError> {
        let copies = std::mem::take(&mut self.copies);
        self.copies = blocking(move || {
            let waited = copies.into_iter().map(|mut copy| copy.wait().map(|()| copy));
            waited.collect::<Result<_, _>>()
        })
        .await??;
        Ok(())
    }

    /// Whether the host has nothing to do when the execution ends.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.watch.is_empty() && self.copies.is_empty() && self.views.is_empty()
    }

    /// Whether the execution works on copies. They are mounted as long as its container exists.
    #[must_use]
    pub fn has_copies(&self) -> bool {
        !self.copies.is_empty()
    }

    /// Moves tampered paths away, imports the execution's changes in repositories, and returns
    /// both. Call it when the execution has ended. Its copies are free again; `is_gone` states
    /// whether all its processes were seen to end, before which nothing is imported.
    pub async fn release(self, is_gone: bool) -> Findings {
        let unseen = self.unseen("looking through it failed");
        let Self { watch, copies, views } = self;
        let ended = blocking(move || {
            if is_gone {
                copies.into_iter().for_each(CopyInUse::give_back);
            }
            let mut git = GitChanges::default();
            let tampered = watch.end(|| git = views.end(is_gone));
            Findings { tampered, git }
        });
        match ended.await {
            Ok(findings) => findings,
            Err(error) => {
                tracing::error!(%error, "the mounts were not searched for tampered paths");
                unseen
            }
        }
    }

    /// The findings if no comparison was possible: anything in any of the mounts may have been
    /// tampered with.
    #[must_use]
    pub fn unseen(&self, problem: &str) -> Findings {
        let roots = self.watch.roots();
        let tampered = roots.map(|root| TamperedPath::unseen(root.to_owned(), problem)).collect();
        Findings { tampered, git: self.views.unseen(problem) }
    }

    /// Imports the changes in repositories of executions whose program was killed, each once, from
    /// the folder with the views of all executions. Call it when their containers are gone.
    ///
    /// # Errors
    ///
    /// If the work is interrupted. Changes that cannot be imported are not an error: they are
    /// reported, and kept.
    pub async fn recover(views: PathBuf, patience: Patience) -> Result<GitChanges, WorkspaceError> {
        blocking(move || recover(&views, patience)).await
    }
}

/// Runs `work`, which waits for disks, without blocking other tasks.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, WorkspaceError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| WorkspaceError::new("look through", std::path::Path::new("mounts"), error.into()))
}

//! What an execution has of its mounts: a watch over those that are protected, and the copies that it works on.

use std::path::PathBuf;

use super::copy::{CopyInUse, WorkspaceCopy, take_outside};
use super::error::WorkspaceError;
use super::git_view::{GitChanges, Patience, Views, recover};
use super::mount::Mount;
use super::outside::stand_ins;
use super::tampered::TamperedPath;
use super::watch::Watch;

/// The mounts of a running execution, as far as the host has to be kept safe from it.
#[derive(Debug)]
pub struct WorkspaceGuard {
    watch: Watch,
    copies: Vec<CopyInUse>,
    views: Views,
}

/// What an execution did in its mounts that the host has to know.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Findings {
    /// What it tampered with, which is out of the way.
    pub tampered: Vec<TamperedPath>,
    /// What came of what it did in repositories of [protected](Mount::protected) mounts, and what did not.
    pub git: GitChanges,
}

impl Findings {
    /// Whether there is nothing to say.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tampered.is_empty() && self.git.is_empty()
    }
}

impl WorkspaceGuard {
    /// Prepares `mounts`; gives them with those that guard them. What is tampered with is moved to `quarantine`. The views of repositories
    /// are kept in `views`, which is named after the execution and lies in a folder with those of others; without it, tasks write in no
    /// repository of a protected mount.
    ///
    /// # Errors
    ///
    /// When a mount cannot be read, or its copy cannot be made or is in use.
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
                // After the copy that it belongs to, which locks both.
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

    /// To be called before anything of the execution begins: waits for what [`take`](Self::take) left to do meanwhile.
    ///
    /// # Errors
    ///
    /// When a copy could not be prepared.
    pub async fn prepared(&mut self) -> Result<(), WorkspaceError> {
        let copies = std::mem::take(&mut self.copies);
        self.copies = blocking(move || {
            let waited = copies.into_iter().map(|mut copy| copy.wait().map(|()| copy));
            waited.collect::<Result<_, _>>()
        })
        .await??;
        Ok(())
    }

    /// Whether the end of the execution means nothing to the host.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.watch.is_empty() && self.copies.is_empty() && self.views.is_empty()
    }

    /// To be called when the execution has ended: moves away what it tampered with, imports what it did in repositories, and returns both.
    /// Its copies are free again; `is_gone` says whether the container was seen to go, before which nothing is imported.
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

    /// What is reported where no comparison was possible: anything in any of its mounts may have been tampered with.
    #[must_use]
    pub fn unseen(&self, problem: &str) -> Findings {
        let roots = self.watch.roots();
        let tampered = roots.map(|root| TamperedPath::unseen(root.to_owned(), problem)).collect();
        Findings { tampered, git: self.views.unseen(problem) }
    }

    /// Imports what executions did in repositories whose program was killed, from the folder that has the views of all: each once. To be
    /// called when their containers are gone.
    ///
    /// # Errors
    ///
    /// When that ends in its middle. What cannot be imported is no error: it is reported, and stays.
    pub async fn recover(views: PathBuf, patience: Patience) -> Result<GitChanges, WorkspaceError> {
        blocking(move || recover(&views, patience)).await
    }
}

/// Runs `work`, which waits for disks, where it blocks no task.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, WorkspaceError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| WorkspaceError::new("look through", std::path::Path::new("mounts"), error.into()))
}

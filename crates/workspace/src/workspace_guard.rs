//! What an execution has of its mounts: a watch over those that are protected, and the copies that it works on.

use std::path::PathBuf;

use super::copy::{CopyInUse, WorkspaceCopy, take_outside};
use super::error::WorkspaceError;
use super::mount::Mount;
use super::tampered::TamperedPath;
use super::watch::Watch;
use super::worktrees;

/// The mounts of a running execution, as far as the host has to be kept safe from it.
#[derive(Debug)]
pub struct WorkspaceGuard {
    watch: Watch,
    copies: Vec<CopyInUse>,
}

impl WorkspaceGuard {
    /// Prepares `mounts`; gives them with those that guard them.
    ///
    /// # Errors
    ///
    /// When a mount cannot be read, or its copy cannot be made or is in use.
    pub async fn take(mounts: Vec<Mount>, quarantine: PathBuf) -> Result<(Vec<Mount>, Self), WorkspaceError> {
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
            let stand_ins = worktrees::stand_ins(&mounts);
            let (mut mounts, watch) = Watch::begin(mounts, quarantine)?;
            mounts.extend(stand_ins);
            Ok((mounts, Self { watch, copies }))
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
        self.watch.is_empty() && self.copies.is_empty()
    }

    /// To be called when the execution has ended: returns what it tampered with, which is then out of the way. Its copies are free
    /// again; `is_gone` says whether the container was seen to go.
    pub async fn release(self, is_gone: bool) -> Vec<TamperedPath> {
        let unseen = self.unseen("looking through it failed");
        let Self { watch, copies } = self;
        let ended = blocking(move || {
            if is_gone {
                copies.into_iter().for_each(CopyInUse::give_back);
            }
            watch.end()
        });
        match ended.await {
            Ok(tampered) => tampered,
            Err(error) => {
                tracing::error!(%error, "the mounts were not searched for tampered paths");
                unseen
            }
        }
    }

    /// What is reported where no comparison was possible: anything in any of its mounts may have been tampered with.
    #[must_use]
    pub fn unseen(&self, problem: &str) -> Vec<TamperedPath> {
        let roots = self.watch.roots();
        roots.map(|root| TamperedPath::unseen(root.to_owned(), problem)).collect()
    }
}

/// Runs `work`, which waits for disks, where it blocks no task.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, WorkspaceError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| WorkspaceError::new("look through", std::path::Path::new("mounts"), error.into()))
}

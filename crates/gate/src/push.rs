//! What a push removes is kept: a ref of ours stays at it.
//!
//! A backup is made before git sees the push, and removed again if the push turns out to have lost nothing. So none is missing where this
//! process ends in between, and where two clients push at once: each push has backups of its own.

use std::path::{Path, PathBuf};

use allowlist::RefUpdate;
use time::OffsetDateTime;

use crate::GateError;
use crate::refs::{self, Transaction, backup_of};

/// Backups of one push that are looked at again; more than that stay as they are.
const COMPARED: usize = 64;

/// The backups of a push.
#[derive(Debug)]
pub(crate) struct Backups {
    repository: PathBuf,
    made: Vec<Backup>,
}

#[derive(Debug)]
struct Backup {
    of: Vec<u8>,
    old: String,
    name: Vec<u8>,
}

impl Backups {
    /// Backs up what `updates` could remove. `None`, and nothing is, where a ref is not what the push says that it is: git would refuse
    /// such a push, but for the deletion of a ref that is said to be an object that is not there.
    pub(crate) async fn make(repository: &Path, updates: &[RefUpdate]) -> Result<Option<Self>, GateError> {
        let now = OffsetDateTime::now_utc();
        let there = refs::list(repository).await?;
        let mut transaction = Transaction::default();
        let mut made = Vec::new();
        for RefUpdate { name, old, .. } in updates {
            if there.get(name) != old.as_ref() {
                return Ok(None);
            }
            let Some(old) = old.clone() else {
                continue;
            };
            let backup = backup_of(name, &old, now);
            transaction.create(&backup, &old);
            made.push(Backup { of: name.clone(), old, name: backup });
        }
        transaction.apply(repository).await?;
        Ok(Some(Self { repository: repository.to_owned(), made }))
    }

    /// Removes backups of what is still there.
    pub(crate) async fn settle(self) {
        if let Err(error) = self.remove_needless().await {
            tracing::warn!(%error, "backups of a push that lost nothing are left behind");
        }
    }

    async fn remove_needless(&self) -> Result<(), GateError> {
        if self.made.is_empty() || self.made.len() > COMPARED {
            return Ok(());
        }
        let there = refs::list(&self.repository).await?;
        let mut transaction = Transaction::default();
        for Backup { of, old, name } in &self.made {
            let Some(now) = there.get(of) else {
                continue;
            };
            // A tag is more than the commit that it leads to.
            let is_branch = of.starts_with(b"refs/heads/");
            if now == old || (is_branch && refs::is_ancestor(&self.repository, old, now).await) {
                transaction.delete(name, old);
            }
        }
        transaction.apply(&self.repository).await
    }
}

//! Keeps the values that a push removes, with refs of our own.
//!
//! A backup is created before git sees the push, and removed again if the push turns out to have
//! lost nothing. So none is missing if this process ends in between, or if two clients push at
//! once: each push has its own backups.

use std::path::{Path, PathBuf};

use allowlist::RefUpdate;
use time::OffsetDateTime;

use crate::GateError;
use crate::refs::{self, Transaction, backup_of};

/// Backups of one push that are checked again; further ones are kept.
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
    /// Backs up the values that `updates` could remove. Returns `None` without any backup if a ref
    /// differs from the old value in the push: git would refuse such a push, except for the
    /// deletion of a ref whose stated old object does not exist.
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

    /// Removes backups of values that still exist.
    pub(crate) async fn settle(self) {
        if let Err(error) = self.remove_needless().await {
            tracing::warn!(%error, "failed to remove backups of a push that lost nothing");
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

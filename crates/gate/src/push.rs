//! What a push removes is kept: a ref of ours stays at it.
//!
//! A backup is made before git sees the push, and removed again if the push turns out to have lost nothing. So none is missing where this
//! process ends in between, and where two clients push at once.

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
    /// The name of the ref, what it was, and the backup's name.
    made: Vec<(Vec<u8>, String, Vec<u8>)>,
}

impl Backups {
    /// Backs up what `updates` could remove. git itself compares what a client says that a ref is with what it is.
    ///
    /// # Errors
    ///
    /// Where a client says that a ref is an object that is not there, or none, git deletes that ref whatever it is: then nothing is pushed.
    pub(crate) async fn make(repository: &Path, updates: &[RefUpdate]) -> Result<Self, GateError> {
        let now = OffsetDateTime::now_utc();
        let there = refs::list(repository).await?;
        let mut transaction = Transaction::default();
        let mut made = Vec::new();
        for RefUpdate { name, old, new, .. } in updates {
            let old = match (old, new) {
                (Some(old), _) => old.clone(),
                (None, Some(_)) => continue,
                (None, None) => {
                    let message = "the push deletes a ref without saying what it is".to_owned();
                    return Err(GateError::Git { operation: "back up refs", message });
                }
            };
            let backup = backup_of(name, &old, now);
            if !there.contains_key(&backup) && made.iter().all(|(_, _, other)| *other != backup) {
                transaction.create(&backup, &old);
                made.push((name.clone(), old, backup));
            }
        }
        transaction.apply(repository).await?;
        Ok(Self { repository: repository.to_owned(), made })
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
        for (name, old, backup) in &self.made {
            if let Some(now) = there.get(name)
                && (now == old || refs::is_ancestor(&self.repository, old, now).await)
            {
                transaction.delete(backup, old);
            }
        }
        transaction.apply(&self.repository).await
    }
}

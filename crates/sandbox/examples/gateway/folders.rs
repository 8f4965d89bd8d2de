//! The folders of a conversation: `log`, and the session in a folder for each epoch.
//!
//! An attempt works in a copy of the last valid session, and no other attempt reads that copy
//! unless its answer is stored. A worker that was thought dead changes nothing that others use.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use sandbox::workspace::remove_folder;
use tokio::task::spawn_blocking;

use crate::queue::{Claim, Error};
use crate::worker::say;

/// The maximum size of a session, also of one with holes, and of its entries.
const LARGEST: u64 = 1 << 30;
const MOST: usize = 100_000;
const EPOCH: &str = "epoch-";

pub(crate) struct Folders(PathBuf);

impl Folders {
    pub(crate) fn new(dir: &Path, conversation: &str) -> Self {
        Self(dir.join(conversation))
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.0.join("log")
    }

    pub(crate) fn session(&self, epoch: i64) -> PathBuf {
        self.0.join(format!("{EPOCH}{epoch}"))
    }

    /// Copies the conversation's session into the folder of the claim.
    pub(crate) async fn copy(&self, claim: &Claim) -> Result<(), Error> {
        if let Some(valid) = claim.session {
            let (from, to) = (self.session(valid), self.session(claim.epoch));
            spawn_blocking(move || copy(from, to)).await??;
        }
        Ok(())
    }

    /// Removes the session of `epoch`, as far as possible.
    pub(crate) async fn remove(&self, epoch: i64) {
        let path = self.session(epoch);
        let removed = spawn_blocking(move || remove_folder(&path).map_err(|error| (path, error))).await;
        if let Ok(Err((path, error))) = removed {
            say(&format!("failed to remove {}: {error}", path.display()));
        }
    }

    /// Removes the sessions of all epochs up to `last`, except for `valid`. Later ones may be in use.
    pub(crate) async fn remove_old(&self, last: i64, valid: Option<i64>) {
        let Ok(entries) = fs::read_dir(&self.0) else { return };
        let epochs = entries
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_prefix(EPOCH)?.parse::<i64>().ok());
        for epoch in epochs.filter(|epoch| *epoch <= last && Some(*epoch) != valid) {
            self.remove(epoch).await;
        }
    }
}

/// Copies a folder that a task wrote, and that nothing writes now, into a new one: files, folders
/// and links, of which none is followed.
fn copy(from: PathBuf, to: PathBuf) -> io::Result<()> {
    let mut room = LARGEST;
    let mut entries = 0;
    let mut folders = vec![(from, to)];
    while let Some((from, to)) = folders.pop() {
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            entries += 1;
            if entries > MOST {
                return Err(too_large());
            }
            let (from, to) = (entry.path(), to.join(entry.file_name()));
            let facts = entry.metadata()?;
            if facts.is_dir() {
                fs::create_dir_all(&to)?;
                folders.push((from, to));
            } else if facts.is_symlink() {
                symlink(fs::read_link(&from)?, &to)?;
            } else if facts.is_file() {
                let left = room.checked_sub(facts.len());
                room = left.ok_or_else(too_large)?;
                fs::copy(&from, &to)?;
            }
        }
    }
    Ok(())
}

fn too_large() -> io::Error {
    io::Error::other("the session is too large")
}

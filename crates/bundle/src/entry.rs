//! Entries of a tree of the host.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::fstat;
use sandbox_files::tree::{Facts, Kind, Tree, holes};

use crate::digest::{self, Digest};
use crate::error::PackError;
use crate::listing::Entry;
use crate::path::LinkTarget;

/// The permission of the owner to execute a file.
const EXECUTABLE: u32 = 0o100;
/// Bytes of holes in all files together, which a bundle would contain.
pub(crate) const HOLES: u64 = 1 << 30;

/// The digests of files with several names: a task can give one to many.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    digests: BTreeMap<(u64, u64), Digest>,
    /// Bytes of the holes of all files.
    holes: u64,
}

/// The entry `path` of `tree`; `None` if there is none.
pub(crate) fn entry(tree: &Tree, path: &Path) -> Result<Option<Entry>, PackError> {
    Seen::default().entry(tree, path)
}

impl Seen {
    /// The entry `path` of `tree`; `None` if there is none.
    pub(crate) fn entry(&mut self, tree: &Tree, path: &Path) -> Result<Option<Entry>, PackError> {
        let failed = || PackError::io(path, "it cannot be read");
        let refused = |problem: &str| PackError::new(path, problem);
        let Some(facts) = tree.facts(path).map_err(failed())? else { return Ok(None) };
        Ok(Some(match facts.kind {
            Kind::Folder => Entry::Folder,
            Kind::Link => {
                let target = tree.target(path).map_err(failed())?;
                let target = target.to_str().ok_or_else(|| refused("the target of the link is not UTF-8"))?;
                Entry::Link(LinkTarget::try_from(target.to_owned()).map_err(refused)?)
            }
            Kind::File => self.file(&tree.file(path).map_err(failed())?, path)?,
            Kind::Special => return Err(refused("it is a device, a socket or a pipe")),
        }))
    }

    fn file(&mut self, file: &File, path: &Path) -> Result<Entry, PackError> {
        let failed = || PackError::io(path, "it cannot be read");
        // Those of the open file: it may have been replaced since.
        let facts = Facts::of(file).map_err(failed())?;
        let executable = facts.mode & EXECUTABLE != 0;
        let identity = fstat(file).map_err(|error| failed()(error.into()))?;
        let identity = (identity.st_dev, identity.st_ino);
        if let Some(sha256) = self.digests.get(&identity) {
            return Ok(Entry::File { sha256: *sha256, size: facts.size, executable });
        }
        self.holes = self.holes.saturating_add(holes(file, &facts, HOLES).map_err(failed())?);
        if self.holes > HOLES {
            return Err(PackError::new(path, "with it, the holes of all files have more than 1 GiB"));
        }
        let (count, sha256) = digest::copy(file, facts.size, io::sink()).map_err(failed())?;
        if count < facts.size {
            return Err(changed(path));
        }
        if facts.links > 1 {
            self.digests.insert(identity, sha256);
        }
        Ok(Entry::File { sha256, size: facts.size, executable })
    }
}

/// The error of a file that has other bytes than before.
pub(crate) fn changed(path: &Path) -> PackError {
    PackError::new(path, "it changed meanwhile")
}

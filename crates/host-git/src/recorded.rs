//! The files of which git has other versions after an import: a command such as `git stash` or `git
//! checkout` writes them later.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crate::Error;
use crate::git::{Git, Input};
use crate::index::{self, Index};
use crate::object_id::{Format, ObjectId};
use crate::plan::Plan;
use crate::stash::Stash;
use crate::state::{Part, State, commit};

/// The maximum number of files whose versions are examined: each takes memory that its name in a
/// tree does not.
const MOST_FILES: usize = 500_000;
/// The maximum number of new stashes examined.
const MOST_STASHES: usize = 20;

/// The files of which the commit at `HEAD`, the index or a new stash has other versions after an
/// import than before.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recorded {
    /// The mode and object of each version; `None` if the file is deleted.
    files: BTreeMap<Vec<u8>, BTreeSet<Option<(u32, ObjectId)>>>,
    /// There are too many to find all.
    is_cut: bool,
}

/// The entry at a path of the work tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Version {
    /// Nothing.
    None,
    /// A file, and whether its owner can execute it.
    File(Vec<u8>, bool),
    /// A link, and its target.
    Link(Vec<u8>),
    /// An entry that git does not record, or that is not examined.
    Other,
}

impl Version {
    /// Whether git would write this entry for the recorded version. The host's filters are not
    /// applied.
    fn is(&self, recorded: Option<&(u32, ObjectId)>) -> bool {
        match (self, recorded) {
            (Self::None, None) => true,
            (Self::File(content, false), Some((0o100_644, id)))
            | (Self::File(content, true), Some((0o100_755, id)))
            | (Self::Link(content), Some((0o120_000, id))) => index::is_of(id, content),
            _ => false,
        }
    }
}

impl Recorded {
    /// The paths of the files in the work tree.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.keys().map(|path| Path::new(OsStr::from_bytes(path)))
    }

    /// Whether the list is complete: a task can record more files than are examined.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        !self.is_cut
    }

    /// Whether `version` is the only recorded version of `path`.
    #[must_use]
    pub fn is(&self, path: &Path, version: &Version) -> bool {
        let versions = self.files.get(path.as_os_str().as_bytes());
        versions.is_none_or(|versions| versions.iter().all(|recorded| version.is(recorded.as_ref())))
    }

    /// The files that `plan` records on the host, whose state is `now`; `index` is the imported
    /// one. Git sees the new objects.
    pub(crate) fn of(
        git: &Git<'_>,
        now: &State,
        plan: &Plan,
        index: Option<&Index>,
        format: Format,
    ) -> Result<Self, Error> {
        let git = &git.modest();
        let mut recorded = Self::default();
        let head = match &now.head {
            Part::Here(head) => Some(head),
            Part::Same | Part::Bad(_) => None,
        };
        let table = now.refs.table();
        let before = commit(head, &table);
        let after = commit(plan.head.as_ref().or(head), &plan.end);
        if let Some(after) = after.filter(|after| before != Some(*after)) {
            recorded.commits(git, before, after, format)?;
        }
        let is_new = |stash: &&Stash| !now.stash.iter().any(|known| known.id == stash.id);
        let stashes = plan.stashes.iter().flatten().filter(is_new).map(|stash| &stash.id);
        // Users apply them in the same way as stashes.
        let stashes: Vec<&ObjectId> = stashes.chain(&plan.set_aside).collect();
        recorded.is_cut |= stashes.len() > MOST_STASHES;
        for stash in stashes.into_iter().take(MOST_STASHES) {
            recorded.stash(git, stash, format)?;
        }
        if let (Some(index), true, Part::Here(old)) = (index, plan.index, &now.index) {
            // If the old index is not supported, every entry is new.
            let old = old.parse(format).unwrap_or_default();
            for path in index.differing(&old) {
                let versions = index.versions(&path).map(|entry| Some(entry.clone()));
                let all = recorded.files.entry(path.as_os_str().as_bytes().to_vec()).or_default();
                all.extend(versions);
                if index.versions(&path).next().is_none() {
                    all.insert(None);
                }
            }
        }
        Ok(recorded)
    }

    /// Adds the files that `git stash pop` writes: modified ones, those in the index, and new ones.
    fn stash(&mut self, git: &Git<'_>, id: &ObjectId, format: Format) -> Result<(), Error> {
        let arguments = ["rev-list", "--no-walk", "--parents", id.as_str()];
        let Some(output) = self.asked(git, "look at stashes", &arguments)? else { return Ok(()) };
        let parents: Vec<ObjectId> =
            output.trim_ascii().split(|byte| *byte == b' ').skip(1).filter_map(|id| format.id(id)).collect();
        if let [before, index, new @ ..] = parents.as_slice() {
            self.commits(git, Some(before), id, format)?;
            self.commits(git, Some(before), index, format)?;
            for new in new {
                self.commits(git, None, new, format)?;
            }
        }
        Ok(())
    }

    /// Git's output; `None` if it exceeds the limits. Other changes of the task can still be
    /// imported, regardless of the content of its trees.
    fn asked(
        &mut self,
        git: &Git<'_>,
        operation: &'static str,
        arguments: &[&str],
    ) -> Result<Option<Vec<u8>>, Error> {
        if self.is_cut {
            return Ok(None);
        }
        match git.read(operation, arguments, Input::Nothing) {
            Err(Error::TooMuch { .. } | Error::TooLong { .. } | Error::Git { .. }) => {
                self.is_cut = true;
                Ok(None)
            }
            output => output.map(Some),
        }
    }

    /// Adds the output of `git diff-tree --raw -z`: a line of modes, ids and status, then the path.
    fn commits(
        &mut self,
        git: &Git<'_>,
        before: Option<&ObjectId>,
        after: &ObjectId,
        format: Format,
    ) -> Result<(), Error> {
        const OPERATION: &str = "compare commits";
        let before = if let Some(before) = before {
            before.to_string()
        } else {
            // Git knows the empty tree even if a repository does not have it.
            let Some(id) = self.asked(git, OPERATION, &["hash-object", "-t", "tree", "--stdin"])? else {
                return Ok(());
            };
            String::from_utf8_lossy(&id).trim().to_owned()
        };
        let arguments =
            ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", &before, after.as_str()];
        let Some(text) = self.asked(git, OPERATION, &arguments)? else { return Ok(()) };
        let mut parts = text.split(|byte| *byte == 0);
        while let (Some(facts), Some(path)) = (parts.next(), parts.next()) {
            if self.files.len() >= MOST_FILES {
                self.is_cut = true;
                return Ok(());
            }
            let mut facts = facts.split(|byte| *byte == b' ').skip(1);
            let mode = facts.next().and_then(|mode| u32::from_str_radix(str::from_utf8(mode).ok()?, 8).ok());
            let id = facts.nth(1).and_then(|id| format.id(id));
            let entry = mode.zip(id).filter(|(mode, _)| *mode != 0);
            self.files.entry(path.to_vec()).or_default().insert(entry);
        }
        Ok(())
    }
}

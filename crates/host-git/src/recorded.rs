//! Which files git has in other versions after an import: a command such as `git stash` or `git checkout` writes them later.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crate::Error;
use crate::git::{Git, Input};
use crate::index::{self, Index};
use crate::object_id::{Format, ObjectId};
use crate::plan::Plan;
use crate::state::{Part, State, commit};

/// The files of which the commit at `HEAD`, or the index, has other versions after an import than before.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recorded(BTreeMap<Vec<u8>, BTreeSet<Option<ObjectId>>>);

impl Recorded {
    /// Their paths in the work tree.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.keys().map(|path| Path::new(OsStr::from_bytes(path)))
    }

    /// Whether `content`, or no file for `None`, is the only version that is recorded of `path`. No filter of the host's is asked what it
    /// would make of it.
    #[must_use]
    pub fn is(&self, path: &Path, content: Option<&[u8]>) -> bool {
        let is_it = |id: &Option<ObjectId>| match (id, content) {
            (Some(id), Some(content)) => index::is_of(id, content),
            (None, None) => true,
            _ => false,
        };
        self.0.get(path.as_os_str().as_bytes()).is_none_or(|versions| versions.iter().all(is_it))
    }

    /// What `plan` makes of the host, which is as `now` says; `index` is the one that comes. Git sees the new objects.
    pub(crate) fn of(
        git: &Git<'_>,
        now: &State,
        plan: &Plan,
        index: Option<&Index>,
        format: Format,
    ) -> Result<Self, Error> {
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
        if let (Some(index), true, Part::Here(old)) = (index, plan.index, &now.index) {
            // Of one that is not understood, all is new.
            let old = old.parse(format).unwrap_or_default();
            for path in index.differing(&old) {
                let versions = index.versions(&path).map(|id| Some(id.clone()));
                let all = recorded.0.entry(path.as_os_str().as_bytes().to_vec()).or_default();
                all.extend(versions);
                if index.versions(&path).next().is_none() {
                    all.insert(None);
                }
            }
        }
        Ok(recorded)
    }

    /// What `git diff-tree --raw -z` says: a line of modes, ids and what was done, then the path.
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
            // Git knows the empty tree, whether a repository has it or not.
            let id = git.read(OPERATION, &["hash-object", "-t", "tree", "--stdin"], Input::Nothing)?;
            String::from_utf8_lossy(&id).trim().to_owned()
        };
        let arguments =
            ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", &before, after.as_str()];
        let text = git.read(OPERATION, &arguments, Input::Nothing)?;
        let mut parts = text.split(|byte| *byte == 0);
        while let (Some(facts), Some(path)) = (parts.next(), parts.next()) {
            let id = facts.split(|byte| *byte == b' ').nth(3).and_then(|id| format.id(id));
            let is_there = |id: &ObjectId| id.as_str().bytes().any(|digit| digit != b'0');
            self.0.entry(path.to_vec()).or_default().insert(id.filter(is_there));
        }
        Ok(())
    }
}

//! What git did as one step with something that is held back is held back as a whole.
//!
//! A merge or a switch changes files, the index and what `HEAD` names together. Where one of those files is held back and the rest is
//! applied, git on the host takes the old content for a change of the user's. The index says which files git changed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sandbox_files::tree::{Facts, Kind, Tree};

use super::super::git_follow::{Pointer, pointer};
use super::super::git_index::versions;
use super::super::role::text;
use super::change::{Change, HeldBack};
use super::changes::Comparison;

/// Holds back what belongs to such steps. `git` compares the repository, where that is kept outside of the work tree.
pub(super) fn hold_steps(changes: &mut [Change], ours: &Comparison, git: Option<&Comparison>) {
    let is_in_git = |path: &Path| path.components().any(|part| part.as_os_str() == ".git");
    let mut held: BTreeMap<PathBuf, Vec<PathBuf>> = BTreeMap::new();
    for change in changes.iter().filter(|change| change.held_back.is_some() && !is_in_git(&change.path)) {
        if let Some(work_tree) = work_tree(ours, &change.path) {
            let inner = change.path.strip_prefix(&work_tree).unwrap_or(&change.path).to_owned();
            held.entry(work_tree).or_default().push(inner);
        }
    }
    for (work_tree, held) in held {
        let Some((of, folder)) = repository(ours, git, &work_tree) else {
            continue;
        };
        if !is_recorded(of, &folder.join("index"), &held) {
            continue;
        }
        for change in changes.iter_mut() {
            if change.held_back.is_none() && change.path.starts_with(&work_tree) {
                change.held_back = Some(HeldBack::Repository);
            }
        }
    }
}

/// The innermost work tree of git's that `path` lies in.
fn work_tree(ours: &Comparison, path: &Path) -> Option<PathBuf> {
    let has_git = |folder: &&Path| now(ours, &folder.join(".git")).is_some();
    path.ancestors().skip(1).find(has_git).map(Path::to_owned)
}

/// Where its repository keeps what belongs to `work_tree`.
fn repository<'a>(
    ours: &'a Comparison,
    git: Option<&'a Comparison>,
    work_tree: &Path,
) -> Option<(&'a Comparison, PathBuf)> {
    let path = work_tree.join(".git");
    let (tree, facts) = now(ours, &path)?;
    if facts.kind == Kind::Folder {
        return Some((ours, path));
    }
    match pointer(&ours.host, work_tree, &text(tree, &path)?, b"gitdir: ")? {
        Pointer::Inside(folder) => Some((ours, folder)),
        Pointer::Outside(folder) => {
            let git = git?;
            let inner = folder.strip_prefix(git.host.path()).ok()?.to_owned();
            Some((git, inner))
        }
        Pointer::Dangling => None,
    }
}

/// Whether the index at `index` has other versions of what is `held` than that of the host. What cannot be read may have.
fn is_recorded(of: &Comparison, index: &Path, held: &[PathBuf]) -> bool {
    if !matches!(of.upper.facts(index), Ok(Some(_))) {
        return false;
    }
    let is_held = |path: &Path| held.iter().any(|held| path.starts_with(held));
    match (versions(&of.host, index, is_held), versions(&of.upper, index, is_held)) {
        (Some(before), Some(now)) => before != now,
        _ => true,
    }
}

/// What a task has at `path`, and in which tree it is.
fn now<'a>(ours: &'a Comparison, path: &Path) -> Option<(&'a Tree, Facts)> {
    match ours.upper.facts(path) {
        Ok(Some(facts)) => (!facts.is_whiteout).then_some((&ours.upper, facts)),
        _ => Some((&ours.host, ours.host.facts(path).ok()??)),
    }
}

//! What git did as one step is not split: the objects, references and index of a repository are applied together, or held back together.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::change::{Change, ChangeKind, EntryKind, HeldBack};
use super::setting_change::SettingChange;

/// What a commit consists of, in a `.git`, in those of its submodules and in its worktrees.
const HISTORY: [&str; 7] = ["HEAD", "index", "objects", "packed-refs", "refs", "reftable", "shallow"];

/// Holds the history of each repository back of which a part is held back already, or the settings without which git reads it in another
/// way.
pub(super) fn hold_together(changes: &mut [Change]) {
    let is_converted = |change: &Change| {
        change.kind != ChangeKind::Added && change.settings.iter().any(SettingChange::is_of_format)
    };
    let held = changes.iter().filter(|change| change.held_back.is_some());
    let torn = held.filter_map(|change| {
        history(&change.path).or_else(|| is_converted(change).then(|| repository(&change.path)).flatten())
    });
    let torn: BTreeSet<PathBuf> = torn.map(Path::to_owned).collect();
    if torn.is_empty() {
        return;
    }
    for change in changes {
        let is_torn = history(&change.path).is_some_and(|repository| torn.contains(repository));
        if is_torn && change.held_back.is_none() {
            change.held_back = Some(HeldBack::Repository);
        }
    }
}

/// Holds back all of a new repository whose configuration is held back, and of the new part of a linked work tree whose pointer is: the rest
/// alone is of no use. No other history waits for them.
pub(super) fn hold_whole(changes: &mut [Change]) {
    let holds = |change: &Change| {
        let name = change.path.file_name().unwrap_or_default();
        change.held_back.is_some() && ["config", "gitdir", "commondir"].iter().any(|known| name == *known)
    };
    let held = changes.iter().filter(|change| change.kind == ChangeKind::Added && holds(change));
    let held: BTreeSet<&Path> = held.filter_map(|change| change.path.parent()).collect();
    let has_head = |folder: &Path| changes.iter().any(|change| change.path == folder.join("HEAD"));
    let is_new = |change: &&Change| {
        let is_new_folder = change.kind == ChangeKind::Added && change.entry == EntryKind::Folder;
        is_new_folder && held.contains(change.path.as_path()) && has_head(&change.path)
    };
    let whole: BTreeSet<PathBuf> = changes.iter().filter(is_new).map(|change| change.path.clone()).collect();
    if whole.is_empty() {
        return;
    }
    for change in changes.iter_mut().filter(|change| change.held_back.is_none()) {
        if change.path.ancestors().any(|folder| whole.contains(folder)) {
            change.held_back = Some(HeldBack::Repository);
        }
    }
}

/// What the paths of a repository begin with that is kept outside of the work tree: as if it were a folder of that.
pub(super) const OUTSIDE: &str = ".git";

/// When a change of `path`, as seen from a work tree, is applied: a reader of the repository meanwhile finds objects before what names
/// them.
pub(super) fn order(path: &Path) -> u8 {
    let Some(repository) = history(path) else {
        return 1;
    };
    let inner = path.strip_prefix(repository).unwrap_or(path);
    let is = |name: &str| inner.iter().any(|part| part == name);
    match inner.file_name().and_then(OsStr::to_str) {
        _ if is("objects") => 0,
        _ if is("refs") => 2,
        Some("HEAD" | "index") => 3,
        _ => 2,
    }
}

/// The `.git` whose history `path` is a part of.
fn history(path: &Path) -> Option<&Path> {
    let repository = repository(path)?;
    let mut inner = path.strip_prefix(repository).ok()?.components();
    inner.any(|part| HISTORY.iter().any(|name| part.as_os_str() == *name)).then_some(repository)
}

/// The outermost `.git` that `path` is, or is in.
fn repository(path: &Path) -> Option<&Path> {
    path.ancestors().filter(|folder| folder.file_name() == Some(OsStr::new(".git"))).last()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_come_first_and_what_names_them_last() {
        let mut paths = [
            ".git/HEAD",
            ".git/index",
            ".git/refs/heads/index",
            ".git/packed-refs",
            "src/HEAD",
            ".git/modules/sub/objects/ab/c",
            "sub/.git/objects/pack/x.idx",
        ];
        paths.sort_by_key(|path| order(Path::new(path)));
        let expected = [
            ".git/modules/sub/objects/ab/c",
            "sub/.git/objects/pack/x.idx",
            "src/HEAD",
            ".git/refs/heads/index",
            ".git/packed-refs",
            ".git/HEAD",
            ".git/index",
        ];
        assert_eq!(paths, expected);
    }

    #[test]
    fn history_is_what_a_commit_consists_of() {
        for (path, expected) in [
            (".git/HEAD", Some(".git")),
            ("a/.git/refs/heads/config", Some("a/.git")),
            (".git/modules/b/objects/x", Some(".git")),
            (".git/worktrees/w/index", Some(".git")),
            (".git/hooks/pre-commit", None),
            (".git/config", None),
            ("objects/x", None),
            ("src/index", None),
        ] {
            assert_eq!(history(Path::new(path)), expected.map(Path::new), "{path}");
        }
    }
}

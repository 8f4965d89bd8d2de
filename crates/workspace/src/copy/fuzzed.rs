//! Arbitrary changes by a task to its copy of a tree, for the fuzzers: see `fuzzing`.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use fuzz_input::Input;

use super::super::error::WorkspaceError;
use super::super::overlay::overlay_folders;
use super::super::protection::Protection;
use super::{ApplyOptions, ChangeKind, EntryKind, WorkspaceCopy};
use crate::fuzzing::{Fixture, Found, Script, found};

/// The first byte selects what is applied; the rest are the files of the tree, and the task's
/// changes in its copy.
///
/// # Panics
///
/// If something outside the tree is written, if half of the changes are applied, or if the tree
/// then differs from the copy.
pub fn workspace_copy(data: &[u8]) {
    let mut input = Input::new(data);
    let chosen = input.byte();
    let script = Script::new(input.rest());
    let options = ApplyOptions {
        protection: if chosen & 1 == 0 { Protection::default() } else { Protection::none() },
        include_withheld: chosen & 2 != 0,
        force: chosen & 4 != 0,
        git_settings: Vec::new(),
    };
    let fixture = Fixture::new().unwrap_or_else(|error| panic!("{error}"));
    fixture.make(&fixture.tree(), script.entries(true));
    let taken = WorkspaceCopy::take(&fixture.tree(), &fixture.copy());
    let mut taken = taken.unwrap_or_else(|error| panic!("{error}"));
    taken.wait().unwrap_or_else(|error| panic!("{error}"));
    taken.give_back();
    let (upper, _) = overlay_folders(&fixture.copy());
    fixture.make(&upper, script.entries(false));
    let edited = fixture.tree().join("a");
    if chosen & 8 != 0 && edited.symlink_metadata().is_ok_and(|facts| facts.is_file()) {
        // The user works on the host meanwhile.
        let _ = fs::write(edited, "changed on the host");
    }
    apply(&fixture, &options, &found(&upper));
    fixture.check_outside();
}

fn apply(fixture: &Fixture, options: &ApplyOptions, upper: &BTreeMap<PathBuf, Found>) {
    let before = found(&fixture.tree());
    let opened = || WorkspaceCopy::open(fixture.copy()).unwrap_or_else(|error| panic!("{error}"));
    let Some(copy) = opened() else {
        panic!("there is no copy");
    };
    let applied = match copy.apply(options) {
        Ok(applied) => applied,
        Err(WorkspaceError::HalfDone { .. }) => panic!("half of the changes are applied"),
        Err(_) => {
            assert!(found(&fixture.tree()) == before, "a failed apply changed the tree");
            return;
        }
    };
    let after = found(&fixture.tree());
    for change in &applied.applied {
        let (is, was) = (after.get(&change.path), upper.get(&change.path));
        let path = change.path.display();
        assert!(
            change.entry != EntryKind::Special || change.kind == ChangeKind::Removed,
            "{path} is special"
        );
        match change.kind {
            ChangeKind::Removed => assert!(is.is_none(), "{path} is still there"),
            // A repository is created again.
            ChangeKind::Added | ChangeKind::Modified => assert!(is == was, "{path} is not as it was"),
        }
    }
    let imported = applied.git.repositories.iter().map(|repository| &repository.path);
    let touched: Vec<&PathBuf> = applied.applied.iter().map(|change| &change.path).chain(imported).collect();
    let touched = |path: &PathBuf| touched.iter().any(|touched| path.starts_with(touched));
    let same = |all: &BTreeMap<PathBuf, Found>| -> Vec<(PathBuf, Found)> {
        let others = all.iter().filter(|(path, _)| !touched(path));
        others.map(|(path, found)| (path.clone(), found.clone())).collect()
    };
    assert!(same(&before) == same(&after), "more than the reported changes were applied");
    let left = opened().is_some();
    let waits = !applied.git.repositories.is_empty() || !applied.withheld.is_empty();
    assert!(!left || waits, "a copy is left of which all is applied");
}

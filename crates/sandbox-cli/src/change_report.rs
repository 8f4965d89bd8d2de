//! A change of a copy, for people and for programs.

use sandbox::{Change, ChangeKind, EntryKind};
use serde::Serialize;

use crate::printer::harmless_name;

/// A change for people. Names come from the task.
pub(crate) fn line(change: &Change) -> String {
    let path = harmless_name(&change.path.display().to_string());
    let slash = if change.entry == EntryKind::Folder {
        "/"
    } else {
        ""
    };
    let mark = if change.conflict { '!' } else { ' ' };
    let held = change
        .held_back
        .map(|held| format!(" (held back: {})", held.as_str()))
        .unwrap_or_default();
    let privileged = if change.privileged {
        " (set-user-id is dropped)"
    } else {
        ""
    };
    format!("{}{mark} {path}{slash}{held}{privileged}", change.kind.letter())
}

/// A change for programs.
#[derive(Debug, Serialize)]
pub(crate) struct ChangeReport {
    path: String,
    change: &'static str,
    entry: &'static str,
    held_back: Option<&'static str>,
    conflict: bool,
    privileged: bool,
}

/// Changes for programs.
pub(crate) fn reports(changes: &[Change]) -> Vec<ChangeReport> {
    let report = |change: &Change| ChangeReport {
        path: change.path.display().to_string(),
        change: match change.kind {
            ChangeKind::Added => "added",
            ChangeKind::Modified => "modified",
            ChangeKind::Removed => "removed",
        },
        entry: match change.entry {
            EntryKind::File => "file",
            EntryKind::Folder => "folder",
            EntryKind::Link => "link",
            EntryKind::Special => "special",
        },
        held_back: change.held_back.map(sandbox::HeldBack::as_str),
        conflict: change.conflict,
        privileged: change.privileged,
    };
    changes.iter().map(report).collect()
}

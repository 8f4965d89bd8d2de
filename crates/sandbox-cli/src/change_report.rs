//! Formats a change in a copy, as text and as JSON.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use sandbox::workspace::{Change, ChangeKind, EntryKind, Withheld};
use serde::Serialize;

use crate::printer::sanitize_name;

/// The change as a line of text. Names come from the task.
pub(crate) fn line(change: &Change) -> String {
    let path = sanitize_name(&change.path.display().to_string());
    let slash = if change.entry == EntryKind::Folder { "/" } else { "" };
    let mark = if change.conflict { '!' } else { ' ' };
    let held = change.withheld.map(|held| format!(" (withheld: {})", held.as_str())).unwrap_or_default();
    let privileged = if change.privileged { " (set-user-id is dropped)" } else { "" };
    format!("{}{mark} {path}{slash}{held}{privileged}", change.kind.letter())
}

/// Why such a change is withheld, and how to apply it.
pub(crate) fn hint(held: Withheld) -> &'static str {
    match held {
        Withheld::Protected => {
            "host tools execute or obey it; review it, then `sandbox apply --include-protected`"
        }
        Withheld::LeadsOut => {
            "the link leads out of the work tree; review it, then `sandbox apply --include-protected`"
        }
        Withheld::Repository => {
            "it belongs to a new repository or a withheld git operation; review all of it, then `sandbox apply --include-protected`"
        }
        Withheld::Special => "devices, pipes and sockets are never applied",
        _ => "review it, then `sandbox apply --include-protected`",
    }
}

/// The change as JSON.
#[derive(Debug, Default, Serialize)]
pub(crate) struct ChangeReport {
    path: String,
    /// The percent-encoded bytes of a name that is not UTF-8; `path` has the lossy text.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
    change: &'static str,
    entry: &'static str,
    withheld: Option<&'static str>,
    conflict: bool,
    privileged: bool,
}

/// The changes as JSON.
pub(crate) fn reports(changes: &[Change]) -> Vec<ChangeReport> {
    let report = |change: &Change| ChangeReport {
        path: change.path.display().to_string(),
        path_bytes: change.path.to_str().is_none().then(|| percent_encoded(&change.path)),
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
        withheld: change.withheld.map(Withheld::as_str),
        conflict: change.conflict,
        privileged: change.privileged,
    };
    changes.iter().map(report).collect()
}

/// Encodes `%` and every byte that is not printable ASCII as `%` and two digits.
fn percent_encoded(path: &Path) -> String {
    let mut text = String::new();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b' '..=b'~' if *byte != b'%' => text.push(char::from(*byte)),
            byte => {
                // Writing to a string cannot fail.
                let _ = write!(text, "%{byte:02X}");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn invalid_utf8_names_keep_their_bytes() {
        let path = Path::new(OsStr::from_bytes(b"a/\xff 50%\n"));
        assert_eq!(percent_encoded(path), "a/%FF 50%25%0A");
    }
}

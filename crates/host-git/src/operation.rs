//! A merge or a cherry-pick in progress.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::object_id::{Format, ObjectId, lines};
use crate::text::is_unseen;
use crate::view::{Found, View};

/// Bytes of a message.
const MESSAGE: u64 = 64 * 1024;
/// The maximum number of commits merged at once.
const HEADS: usize = 64;

/// The kind of operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    Merge,
    CherryPick,
}

/// An operation that the next commit ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Operation {
    pub(crate) kind: Kind,
    pub(crate) heads: Vec<ObjectId>,
    pub(crate) message: String,
}

impl Kind {
    pub(crate) const ALL: [Self; 2] = [Self::Merge, Self::CherryPick];

    /// The file with its commits.
    pub(crate) fn file(self) -> &'static str {
        match self {
            Self::Merge => "MERGE_HEAD",
            Self::CherryPick => "CHERRY_PICK_HEAD",
        }
    }
}

/// The user's changes that git sets aside until a merge or a rebase ends.
pub(crate) const AUTOSTASH: &str = "MERGE_AUTOSTASH";
const AUTOSTASHES: [&str; 3] = [AUTOSTASH, "rebase-merge/autostash", "rebase-apply/autostash"];

/// The file with the message of the commit that ends the operation.
pub(crate) const MESSAGE_FILE: &str = "MERGE_MSG";

/// Files that show another operation in progress, which a task's operation would disrupt.
const OTHERS: [&str; 3] = ["REVERT_HEAD", "rebase-merge", "rebase-apply"];

/// The one that the work tree has whose folder in `view` is `own`.
pub(crate) fn other(view: &View, own: &Path) -> Option<&'static str> {
    OTHERS.into_iter().find(|name| !matches!(view.open(&own.join(name)), Found::Absent))
}

/// The changes that git set aside in the work tree whose folder in `view` is `own`.
pub(crate) fn set_aside(view: &View, own: &Path, format: Format) -> Vec<ObjectId> {
    AUTOSTASHES.into_iter().filter_map(|name| set_aside_for(view, &own.join(name), format)).collect()
}

/// The changes that git set aside for a merge of the host, and restored in `view`.
pub(crate) fn taken_back(view: &View, host: &View, own: &Path, format: Format) -> Option<ObjectId> {
    let path = own.join(AUTOSTASH);
    let is_taken = matches!(view.open(&path), Found::Absent);
    is_taken.then(|| set_aside_for(host, &path, format)).flatten()
}

fn set_aside_for(view: &View, path: &Path, format: Format) -> Option<ObjectId> {
    match view.read(path, MESSAGE) {
        Found::Here(text) => format.id(text.trim_ascii()),
        _ => None,
    }
}

impl Operation {
    /// The operation in progress in the work tree whose folder in `view` is `own`. Files that an
    /// upper layer lacks are as in `base`.
    pub(crate) fn read(
        view: &View,
        own: &Path,
        base: Option<&Self>,
        format: Format,
    ) -> Result<Option<Self>, &'static str> {
        for kind in Kind::ALL {
            let base = base.filter(|base| base.kind == kind);
            let heads = match view.read(&own.join(kind.file()), MESSAGE) {
                Found::Same => base.map(|base| base.heads.clone()),
                Found::Absent => None,
                Found::Odd(why) => return Err(why),
                Found::Here(text) => Some(heads(&text, format).ok_or("it does not name commits")?),
            };
            let Some(heads) = heads else { continue };
            let message = match view.read(&own.join(MESSAGE_FILE), MESSAGE) {
                Found::Same => base.map(|base| base.message.clone()).unwrap_or_default(),
                Found::Absent => String::new(),
                Found::Odd(why) => return Err(why),
                Found::Here(text) => message(text).ok_or("its message is not text")?,
            };
            return Ok(Some(Self { kind, heads, message }));
        }
        Ok(None)
    }

    /// The content of the file with its commits.
    pub(crate) fn heads_text(&self) -> String {
        lines("", self.heads.iter())
    }
}

fn heads(text: &[u8], format: Format) -> Option<Vec<ObjectId>> {
    let lines = text.trim_ascii_end().split(|byte| *byte == b'\n');
    let heads: Vec<ObjectId> = lines.map(|line| format.id(line)).collect::<Option<_>>()?;
    (heads.len() <= HEADS).then_some(heads)
}

/// The message without invisible characters, since the next commit uses it unchanged.
fn message(text: Vec<u8>) -> Option<String> {
    let mut text = String::from_utf8(text).ok()?;
    text.retain(|c| matches!(c, '\n' | '\t') || !is_unseen(c));
    Some(text)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use sandbox_files::tree::Tree;

    use super::*;

    #[test]
    fn only_commits_and_text_are_taken() {
        let id = "a".repeat(40);
        for (heads, message, expected) in [
            (format!("{id}\n"), &b"Merge x\n\n# Conflicts:\n#\ta\n"[..], Some(1)),
            (format!("{id}\n{id}\n"), b"x", Some(2)),
            ("../../x\n".to_owned(), b"x", None),
            (String::new(), b"x", None),
            (format!("{id}\n").repeat(65), b"x", None),
            (format!("{id}\n"), b"\xff", None),
        ] {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join("MERGE_HEAD"), &heads).unwrap();
            fs::write(folder.path().join("MERGE_MSG"), message).unwrap();
            let view = View::whole(Tree::open(folder.path()).unwrap());
            let read = Operation::read(&view, Path::new(""), None, Format::Sha1);
            let count = read.ok().flatten().map(|operation| operation.heads.len());
            assert_eq!(count, expected, "{heads} {message:?}");
        }
    }

    #[test]
    fn message_has_no_invisible_characters() {
        let text = "Merge\r\n\n\ta\u{202e}b\u{200b}c\x1b[2J\u{9b}\u{2028}ä\n";
        assert_eq!(message(text.into()).as_deref(), Some("Merge\n\n\tabc[2Jä\n"));
    }
}

//! Added and removed rights of files, compared with the last trusted version.

use std::collections::BTreeSet;

use serde::Serialize;

use super::store::Trusted;
use super::{Digest, Rights};
use crate::printer::plain_or_quoted;

/// The changes of the rights of files.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    files: Vec<FileChanges>,
}

/// The changes of one file.
#[derive(Debug, Serialize)]
struct FileChanges {
    path: String,
    /// `None` if nothing there needs trust.
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    /// When this version was trusted, if another one was trusted after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    formerly_trusted: Option<String>,
    rights: BTreeSet<String>,
    new: Vec<String>,
    gone: Vec<String>,
}

impl Changes {
    /// Adds an existing file; `trusted` is its last trusted version, `formerly` the time when this
    /// version was trusted.
    pub(crate) fn add(
        &mut self,
        path: String,
        digest: &Digest,
        rights: &Rights,
        trusted: Option<&Trusted>,
        formerly: Option<&str>,
    ) {
        let known = trusted.map(|trusted| &trusted.rights);
        let is_known = |line: &&String| known.is_some_and(|known| known.contains(*line));
        let lines = rights.lines();
        self.files.push(FileChanges {
            path,
            digest: Some(digest.to_string()),
            formerly_trusted: formerly.map(str::to_owned),
            rights: lines.clone(),
            new: lines.iter().filter(|line| !is_known(line)).cloned().collect(),
            gone: known.into_iter().flatten().filter(|line| !lines.contains(*line)).cloned().collect(),
        });
    }

    /// Adds a trusted version at a place where nothing needs trust any more.
    pub(crate) fn add_gone(&mut self, path: String, trusted: &Trusted) {
        self.files.push(FileChanges {
            path,
            digest: None,
            formerly_trusted: None,
            rights: BTreeSet::new(),
            new: Vec::new(),
            gone: trusted.rights.iter().cloned().collect(),
        });
    }

    /// The changes as text: added rights, then removed ones, with `all` also the unchanged ones,
    /// then the counts.
    pub(crate) fn text(&self, all: bool) -> String {
        let mut lines = Vec::new();
        for file in &self.files {
            if let Some(at) = &file.formerly_trusted {
                lines.push(format!(
                    "  {} is an older version, which you trusted at {at}",
                    plain_or_quoted(&file.path)
                ));
            }
        }
        self.part('+', |file| file.new.iter().collect(), &mut lines);
        self.part('-', |file| file.gone.iter().collect(), &mut lines);
        if all {
            self.part(' ', |file| file.kept().collect(), &mut lines);
        }
        let count = |of: fn(&FileChanges) -> usize| self.files.iter().map(of).sum::<usize>();
        let kept = count(|file| file.kept().count());
        let counts = [
            (count(|file| file.new.len()), "new"),
            (count(|file| file.gone.len()), "gone"),
            (kept, "as before"),
        ];
        let counts: Vec<_> = counts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, how)| format!("{count} {how}"))
            .collect();
        if !counts.is_empty() {
            let how = if all || kept == 0 { "" } else { "; `sandbox trust --show` lists all" };
            lines.push(format!("  rights: {}{how}", counts.join(", ")));
        }
        lines.join("\n")
    }

    fn part<'a>(
        &'a self,
        mark: char,
        rights: impl Fn(&'a FileChanges) -> Vec<&'a String>,
        lines: &mut Vec<String>,
    ) {
        for file in &self.files {
            let rights = rights(file);
            if !rights.is_empty() {
                lines.push(format!("  {}:", plain_or_quoted(&file.path)));
                lines.extend(rights.into_iter().map(|right| format!("    {mark} {right}")));
            }
        }
    }
}

impl Serialize for Changes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.files.serialize(serializer)
    }
}

impl FileChanges {
    fn kept(&self) -> impl Iterator<Item = &String> {
        let new: BTreeSet<&String> = self.new.iter().collect();
        self.rights.iter().filter(move |right| !new.contains(right))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::{Input, Record, Role, Store};
    use super::*;

    fn rights(lines: &[&str]) -> Rights {
        let mut rights = Rights::default();
        for line in lines {
            rights.ask(line);
        }
        rights
    }

    fn input(path: &str, text: &str) -> Input {
        Input::new(Role::Allowlist, Path::new(path), text.as_bytes())
    }

    /// The changes of the file at `path` with these rights, compared with `record`.
    fn of(input: &Input, lines: &[&str], record: &Record) -> Changes {
        let mut changes = Changes::default();
        let path = input.path.display().to_string();
        let (trusted, formerly) = (record.at(&input.place()), record.formerly(input));
        changes.add(path, &input.digest, &rights(lines), trusted, formerly);
        changes
    }

    #[test]
    fn without_trust_all_rights_are_added() {
        let changes = of(&input("a/b.yaml", "1"), &["x", "y"], &Record::default());
        assert_eq!(changes.text(false), "  a/b.yaml:\n    + x\n    + y\n  rights: 2 new");
        assert_eq!(Changes::default().text(false), "");
    }

    #[test]
    fn changes_list_added_then_removed_then_counts() {
        let state = tempfile::tempdir().unwrap();
        let store = Store::new(state.path().join("x"), Path::new("/x"));
        store.trust([(&input("a", "1"), &rights(&["kept", "other", "z"]))], &[]).unwrap();
        let record = store.record();
        let changes = of(&input("a", "2"), &["kept", "new", "other"], &record);
        let text = "  a:\n    + new\n  a:\n    - z\n";
        let counts = "  rights: 1 new, 1 gone, 2 as before";
        let hint = "; `sandbox trust --show` lists all";
        assert_eq!(changes.text(false), format!("{text}{counts}{hint}"));
        assert_eq!(changes.text(true), format!("{text}  a:\n      kept\n      other\n{counts}"));
        let mut gone = Changes::default();
        gone.add_gone("a".to_owned(), record.at(&input("a", "").place()).unwrap());
        assert_eq!(gone.text(false), "  a:\n    - kept\n    - other\n    - z\n  rights: 3 gone");
    }

    #[test]
    fn json_has_all_added_and_removed_rights() {
        let state = tempfile::tempdir().unwrap();
        let store = Store::new(state.path().join("x"), Path::new("/x"));
        store.trust([(&input("a", "1"), &rights(&["kept", "z"]))], &[]).unwrap();
        let changed = input("a", "2");
        let json = serde_json::to_value(of(&changed, &["kept", "new"], &store.record())).unwrap();
        let expected = serde_json::json!([{
            "path": "a", "digest": changed.digest.to_string(), "rights": ["kept", "new"], "new": ["new"], "gone": ["z"]
        }]);
        assert_eq!(json, expected);
    }

    #[test]
    fn formerly_trusted_version_has_its_time() {
        let state = tempfile::tempdir().unwrap();
        let store = Store::new(state.path().join("x"), Path::new("/x"));
        for version in ["1", "2"] {
            store.trust([(&input("a", version), &rights(&["x"]))], &[]).unwrap();
        }
        let text = of(&input("a", "1"), &["x"], &store.record()).text(false);
        let first = text.lines().next().unwrap();
        assert!(first.starts_with("  a is an older version, which you trusted at 20"), "{text}");
        assert!(first.ends_with('Z'), "{text}");
    }

    #[test]
    fn name_cannot_forge_a_line() {
        let hostile = "  + reach nothing\n    - b\u{1b}[2J\u{2028}";
        let text = of(&input(hostile, "1"), &[&format!("read `{hostile}`")], &Record::default()).text(true);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(
            lines[0].starts_with("  ` \\x20+ reach nothing\\n") && lines[1].starts_with("    + read `"),
            "{text}"
        );
        assert!(!text.chars().any(|c| (c.is_control() && c != '\n') || c == '\u{2028}'), "{text:?}");
    }
}

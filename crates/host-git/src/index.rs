//! Git's index: the version of each file in the next commit.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use sandbox_files::hex;
use sha1::Sha1;
use sha2::{Digest as _, Sha256};

use crate::object_id::{Format, ObjectId};
use crate::view::{Found, View};

/// Enough for several hundred thousand files.
const LARGEST: u64 = 128 << 20;
/// Bytes before an entry's object name: times, numbers, mode, owner and size.
const STAT: usize = 40;
/// Bytes of a path: the kernel's maximum.
const LONGEST_PATH: usize = 4096;
/// Bytes of all paths together. An index may omit the prefix that a path shares with the previous
/// one, so a short index can hold gigabytes.
const MOST_PATHS: usize = 64 * 1024 * 1024;
const SUBMODULE: u32 = 0o160_000;

/// The mode and object of each path and stage. It omits the times, numbers and flags of files, and
/// entries that are only intended to be added.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Index(BTreeMap<(Vec<u8>, u8), (u32, ObjectId)>);

/// Whether `id` names a file with this content.
pub(crate) fn is_of(id: &ObjectId, content: &[u8]) -> bool {
    let head = format!("blob {}\0", content.len());
    match id.as_str().len() {
        40 => hex(&Sha1::new().chain_update(&head).chain_update(content).finalize()) == id.as_str(),
        _ => hex(&Sha256::new().chain_update(&head).chain_update(content).finalize()) == id.as_str(),
    }
}

impl Index {
    /// The entries of the paths in `wanted` in the file `index` of `view`, the folder of a work
    /// tree's `HEAD`: empty if there is no index, `None` if it is not supported.
    #[must_use]
    pub fn of(view: &View, wanted: impl Fn(&Path) -> bool) -> Option<Self> {
        let text = match view.read(Path::new("index"), LARGEST) {
            Found::Same | Found::Absent => return Some(Self::default()),
            Found::Odd(_) => return None,
            Found::Here(text) => text,
        };
        // The index itself does not state the length of object names.
        let formats = [Format::Sha1, Format::Sha256].into_iter();
        formats.flat_map(|format| Self::parse_some(&text, format, &wanted)).next()
    }

    /// Parses an index, or returns the reason for refusing it.
    pub(crate) fn parse(text: &[u8], format: Format) -> Result<Self, &'static str> {
        Self::parse_some(text, format, |_| true)
    }

    fn parse_some(text: &[u8], format: Format, wanted: impl Fn(&Path) -> bool) -> Result<Self, &'static str> {
        let mut entries = BTreeMap::new();
        let mut is_odd = false;
        Reader { rest: text, format }.walk(|path, entry| {
            if !wanted(Path::new(OsStr::from_bytes(path))) {
                return;
            }
            let id = format.binary(entry.id);
            let before = id.and_then(|id| entries.insert((path.to_vec(), entry.stage), (entry.mode, id)));
            is_odd |= before.is_some();
        })?;
        if is_odd {
            return Err("it contains a path twice");
        }
        // Git dies whenever it reads such an index.
        let is_merged = |path: &[u8]| entries.contains_key(&(path.to_vec(), 0));
        if entries.keys().any(|(path, stage)| *stage > 0 && is_merged(path)) {
            return Err("it has a path both as merged and in conflict");
        }
        Ok(Self(entries))
    }

    /// The objects that it names; commits of submodules are stored elsewhere.
    pub(crate) fn objects(&self) -> impl Iterator<Item = &ObjectId> {
        self.0.values().filter(|(mode, _)| *mode != SUBMODULE).map(|(_, id)| id)
    }

    /// The paths of which `other` has other versions.
    #[must_use]
    pub fn differing(&self, other: &Self) -> BTreeSet<PathBuf> {
        let paths = self.changed(other).into_iter();
        paths.map(|path| PathBuf::from(OsStr::from_bytes(path))).collect()
    }

    /// Whether it records exactly `content` for the file `path`: the host's filters are not
    /// applied.
    #[must_use]
    pub fn records(&self, path: &Path, content: &[u8]) -> bool {
        let entry = self.0.get(&(path.as_os_str().as_bytes().to_vec(), 0));
        entry.is_some_and(|(_, id)| is_of(id, content))
    }

    /// The versions of `path`, one per stage.
    pub(crate) fn versions(&self, path: &Path) -> impl Iterator<Item = &(u32, ObjectId)> {
        let at = |stage| (path.as_os_str().as_bytes().to_vec(), stage);
        self.0.range(at(0)..=at(u8::MAX)).map(|(_, entry)| entry)
    }

    fn changed<'a>(&'a self, before: &'a Self) -> BTreeSet<&'a [u8]> {
        let new = self.0.iter().filter(|(key, entry)| before.0.get(*key) != Some(*entry));
        let gone = before.0.iter().filter(|(key, _)| !self.0.contains_key(*key));
        new.chain(gone).map(|((path, _), _)| path.as_slice()).collect()
    }

    /// The input of `git update-index -z --index-info` that turns `before` into this index.
    pub(crate) fn changes_from(&self, before: &Self, format: Format) -> Vec<u8> {
        let paths = self.changed(before);
        let mut text = Vec::new();
        // Removed paths come first: a file may replace a folder.
        for path in &paths {
            text.extend(format!("0 {}\t", format.nothing()).bytes().chain(path.iter().copied()).chain([0]));
        }
        for path in &paths {
            for ((path, stage), (mode, id)) in self.0.range((path.to_vec(), 0)..=(path.to_vec(), u8::MAX)) {
                let mut head = String::new();
                let _ = write!(head, "{mode:06o} {id} {stage}\t");
                text.extend(head.bytes().chain(path.iter().copied()).chain([0]));
            }
        }
        text
    }
}

/// A digest of an index's entries. It ignores the times and numbers of files, which git corrects
/// whenever it looks.
pub(crate) fn digest(text: &[u8], format: Format) -> Result<String, &'static str> {
    let mut hash = Sha256::new();
    Reader { rest: text, format }.walk(|path, entry| {
        hash.update(path);
        hash.update([0, entry.stage]);
        hash.update(entry.mode.to_be_bytes());
        hash.update(entry.id);
    })?;
    Ok(hex(&hash.finalize()))
}

/// The digest of a missing index.
pub(crate) fn digest_of_none() -> String {
    hex(&Sha256::new().finalize())
}

struct Reader<'a> {
    rest: &'a [u8],
    format: Format,
}

impl<'a> Reader<'a> {
    /// Passes each entry to `each`, or returns the reason for refusing the index.
    fn walk(mut self, mut each: impl FnMut(&[u8], &Entry<'a>)) -> Result<(), &'static str> {
        const TORN: &str = "it is not a complete index";
        if self.take(4) != Some(b"DIRC") {
            return Err(TORN);
        }
        let (version, count) = (self.number().ok_or(TORN)?, self.number().ok_or(TORN)?);
        if !(2..=4).contains(&version) {
            return Err("it has an unsupported version");
        }
        let mut path: Vec<u8> = Vec::new();
        let mut room = MOST_PATHS;
        for _ in 0..count {
            let entry = self.entry(version, &mut path).ok_or(TORN)?;
            room = room
                .checked_sub(path.len())
                .filter(|_| path.len() <= LONGEST_PATH)
                .ok_or("its paths are too long")?;
            if !is_good_path(&path) {
                return Err("it has a path that leads elsewhere");
            }
            match entry.mode {
                0o100_644 | 0o100_755 | 0o120_000 | SUBMODULE => {}
                0o040_000 => {
                    return Err(
                        "it is sparse: `git sparse-checkout reapply --no-sparse-index` makes it whole",
                    );
                }
                _ => return Err("it has an unsupported mode"),
            }
            if !entry.is_intent {
                each(&path, &entry);
            }
        }
        if self.ends_well() { Ok(()) } else { Err("it is split, or is completed by another file") }
    }

    fn entry(&mut self, version: u32, path: &mut Vec<u8>) -> Option<Entry<'a>> {
        let before = self.rest.len();
        let stat = self.take(STAT)?;
        let id = self.take(self.format.length())?;
        let flags = self.take(2)?.first()?;
        let extended = if flags & 0x40 == 0 { &[][..] } else { self.take(2)? };
        if version < 3 && !extended.is_empty() {
            return None;
        }
        if version == 4 {
            let dropped = self.varint()?;
            path.truncate(path.len().checked_sub(dropped)?);
        } else {
            path.clear();
        }
        let end = self.rest.iter().position(|byte| *byte == 0)?;
        path.extend_from_slice(self.take(end)?);
        if version == 4 {
            self.take(1)?;
        } else {
            // One to eight zeros pad it to a multiple of eight.
            let length = before - self.rest.len();
            self.take(8 - length % 8)?;
        }
        let mode = u32::from_be_bytes(stat.get(24..28)?.try_into().ok()?);
        let is_intent = extended.first().is_some_and(|flags| flags & 0x20 != 0);
        Some(Entry { mode, id, stage: (flags >> 4) & 3, is_intent })
    }

    /// Whether only extensions that change no entry, and the checksum, follow.
    fn ends_well(mut self) -> bool {
        let checksum = self.format.length();
        while self.rest.len() > checksum {
            let (Some(name), Some(size)) = (self.take(4), self.number()) else {
                return false;
            };
            let is_optional = name.first().is_some_and(u8::is_ascii_uppercase);
            if !is_optional || usize::try_from(size).ok().and_then(|size| self.take(size)).is_none() {
                return false;
            }
        }
        self.rest.len() == checksum
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    /// Git's own encoding: each further byte counts from one.
    fn varint(&mut self) -> Option<usize> {
        let mut byte = *self.take(1)?.first()?;
        let mut value = usize::from(byte & 0x7f);
        while byte & 0x80 != 0 {
            byte = *self.take(1)?.first()?;
            value = value.checked_add(1)?.checked_mul(128)?.checked_add(usize::from(byte & 0x7f))?;
        }
        Some(value)
    }
}

struct Entry<'a> {
    mode: u32,
    id: &'a [u8],
    stage: u8,
    is_intent: bool,
}

/// Whether git creates a file in the work tree for it on every system. Git itself checks again.
fn is_good_path(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').all(|part| !matches!(part, b"" | b"." | b"..") && !is_git_folder(part))
}

/// Whether a file system treats it as `.git`.
fn is_git_folder(part: &[u8]) -> bool {
    // No other letter becomes one of these in lower case. This check settles most names.
    if !part.iter().any(|byte| matches!(byte, b'g' | b'G')) {
        return false;
    }
    let text = String::from_utf8_lossy(part).to_lowercase();
    let is_ignored = |c: char| matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}');
    let text: String = text.chars().filter(|c| !is_ignored(*c)).collect();
    let first = text.split([':', '\\']).next().unwrap_or_default();
    matches!(first.trim_end_matches(['.', ' ']), ".git" | "git~1")
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;
    use sandbox_files::tree::Tree;

    use super::*;

    #[expect(clippy::disallowed_methods, reason = "git itself writes the indexes that are read")]
    fn git(folder: &Path, arguments: &[&str]) {
        let done = Command::new("git").arg("-C").arg(folder).args(arguments).output().unwrap();
        assert!(done.status.success(), "{arguments:?}: {done:?}");
    }

    #[test]
    fn every_valid_form_of_an_index_is_read_alike_and_others_are_refused() {
        for (format, name) in [(Format::Sha1, "sha1"), (Format::Sha256, "sha256")] {
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path();
            git(root, &["init", "-q", "--object-format", name]);
            for name in ["a", "src/long/name/of/a/file.rs", "meant"] {
                let path = root.join(name);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, name).unwrap();
            }
            git(root, &["add", "a", "src"]);
            let read = || Index::parse(&std::fs::read(root.join(".git/index")).unwrap(), format);
            let summary = || digest(&std::fs::read(root.join(".git/index")).unwrap(), format).unwrap();
            let (before, same) = (read().unwrap(), summary());
            assert_eq!(before.0.len(), 2, "{before:?}");
            for arguments in [
                ["update-index", "--index-version", "4"],
                ["update-index", "--skip-worktree", "a"],
                ["add", "-N", "meant"],
            ] {
                git(root, &arguments);
                assert_eq!((summary(), read().unwrap()), (same.clone(), before.clone()), "{arguments:?}");
            }
            std::fs::write(root.join("a"), "b").unwrap();
            git(root, &["update-index", "--no-skip-worktree", "a"]);
            git(root, &["add", "-A"]);
            assert_ne!(summary(), same);
            let index = read().unwrap();
            assert!(index.records(Path::new("a"), b"b") && !index.records(Path::new("a"), b"a"));
            assert!(!index.records(Path::new("c"), b"b"));
            git(root, &["update-index", "--split-index"]);
            assert!(read().is_err());
        }
    }

    #[test]
    fn index_of_either_format_is_read_for_the_wanted_paths() {
        for format in ["sha1", "sha256"] {
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path();
            git(root, &["init", "-q", "--object-format", format]);
            let view = View::whole(Tree::open(&root.join(".git")).unwrap());
            let settings = || Index::of(&view, |path| path.starts_with(".vscode"));
            assert_eq!(settings(), Some(Index::default()), "there is none yet");
            std::fs::create_dir(root.join(".vscode")).unwrap();
            for name in ["a", ".vscode/settings.json", ".vscode/tasks.json"] {
                std::fs::write(root.join(name), name).unwrap();
            }
            git(root, &["add", "-A"]);
            let before = settings().unwrap();
            assert_eq!(before.0.len(), 2, "{before:?}");
            for name in ["a", ".vscode/tasks.json"] {
                std::fs::write(root.join(name), "x").unwrap();
            }
            git(root, &["add", "-A"]);
            let differing = settings().unwrap().differing(&before);
            assert_eq!(differing, BTreeSet::from([".vscode/tasks.json".into()]));
            git(root, &["update-index", "--split-index"]);
            assert_eq!(settings(), None, "a split index");
        }
    }

    /// An index of version 4 with these parts of paths.
    fn index(parts: &[&[u8]]) -> Vec<u8> {
        index_of(&parts.iter().map(|part| (*part, 0)).collect::<Vec<_>>())
    }

    /// An index of version 4 with these parts of paths and their stages.
    fn index_of(parts: &[(&[u8], u8)]) -> Vec<u8> {
        let count = u32::try_from(parts.len()).unwrap();
        let mut text = [b"DIRC".as_slice(), &4_u32.to_be_bytes(), &count.to_be_bytes()].concat();
        let mut last = 0_u8;
        for (part, stage) in parts {
            text.extend([0; 24]);
            text.extend(0o100_644_u32.to_be_bytes());
            text.extend([0; 12]);
            text.extend([7; 20]);
            text.extend([stage << 4, 0, last]);
            text.extend(*part);
            text.push(0);
            last = u8::try_from(part.len()).unwrap_or(0);
        }
        text.extend([0; 20]);
        text
    }

    #[test]
    fn paths_that_lead_elsewhere_are_refused() {
        for (path, expected) in [
            ("a/b", true),
            ("a/.gitignore", true),
            ("../x", false),
            ("/etc/passwd", false),
            ("a/../../x", false),
            ("a//b", false),
            ("./a", false),
            (".git/config", false),
            ("sub/.GIT/hooks/x", false),
            ("git~1/config", false),
            (".git./config", false),
            (".git::$INDEX_ALLOCATION/config", false),
            (".g\u{200c}it/config", false),
            (".git\\hooks", false),
        ] {
            assert_eq!(Index::parse(&index(&[path.as_bytes()]), Format::Sha1).is_ok(), expected, "{path}");
        }
        assert_eq!(Index::parse(&index(&[b"a", b"a"]), Format::Sha1), Err("it contains a path twice"));
    }

    #[test]
    fn path_that_is_merged_and_has_conflicts_is_refused() {
        for (stages, expected) in [(&[0_u8][..], true), (&[1, 2, 3], true), (&[2, 3], true), (&[0, 2], false)]
        {
            let parts: Vec<(&[u8], u8)> = stages.iter().map(|stage| (&b"a"[..], *stage)).collect();
            assert_eq!(Index::parse(&index_of(&parts), Format::Sha1).is_ok(), expected, "{stages:?}");
        }
    }

    #[test]
    fn short_index_with_gigabytes_of_paths_is_refused() {
        let long = vec![b'x'; LONGEST_PATH + 1];
        assert_eq!(Index::parse(&index(&[&long]), Format::Sha1), Err("its paths are too long"));
        let most = MOST_PATHS / LONGEST_PATH;
        for (count, expected) in [(most, Ok(())), (most + 1, Err("its paths are too long"))] {
            let mut parts = vec![&b""[..]; count];
            parts[0] = &long[1..];
            let text = index(&parts);
            assert!(text.len() < 2 * 1024 * 1024);
            assert_eq!(Index::parse_some(&text, Format::Sha1, |_| false).map(drop), expected, "{count}");
        }
    }

    #[test]
    fn changes_name_exactly_the_differences() {
        let of = |entries: &[(&str, u8, char)]| {
            let entry = |(path, stage, digit): &(&str, u8, char)| {
                let id = Format::Sha1.id(digit.to_string().repeat(40).as_bytes()).unwrap();
                ((path.as_bytes().to_vec(), *stage), (0o100_644, id))
            };
            Index(entries.iter().map(entry).collect())
        };
        let before = of(&[("a", 0, '1'), ("b", 0, '2'), ("c", 0, '3')]);
        let now = of(&[("a", 0, '1'), ("b", 1, '2'), ("b", 2, '4'), ("d", 0, '5')]);
        let text = String::from_utf8(now.changes_from(&before, Format::Sha1)).unwrap();
        let nothing = "0".repeat(40);
        let expected = [
            format!("0 {nothing}\tb"),
            format!("0 {nothing}\tc"),
            format!("0 {nothing}\td"),
            format!("100644 {} 1\tb", "2".repeat(40)),
            format!("100644 {} 2\tb", "4".repeat(40)),
            format!("100644 {} 0\td", "5".repeat(40)),
        ];
        assert_eq!(text.split_terminator('\0').collect::<Vec<_>>(), expected);
        assert!(now.changes_from(&now, Format::Sha1).is_empty());
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(mut bytes: Vec<u8>, version in 0_u8..6, count in 0_u8..4) {
            let head = [b"DIRC".as_slice(), &[0, 0, 0, version, 0, 0, 0, count]].concat();
            bytes.splice(0..0, head);
            let _ = Index::parse(&bytes, Format::Sha1);
        }
    }
}

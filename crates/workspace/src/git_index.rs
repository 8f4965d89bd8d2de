//! Git's index: which version of each file the next commit has.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use sandbox_files::tree::Tree;

/// Some hundred thousand files.
const LARGEST: u64 = 128 * 1024 * 1024;
/// Lengths of the names of objects: SHA-1's, and SHA-256's.
const LENGTHS: [usize; 2] = [20, 32];
/// What comes before the name of an object: times, numbers, mode, owner and size.
const STAT: usize = 40;

/// Bytes of a path: the kernel takes no more.
const LONGEST_PATH: usize = 4096;
/// Bytes of all paths together. An index may leave out what a path has in common with the one before, so a short one can hold gigabytes.
const MOST_PATHS: usize = 64 * 1024 * 1024;

/// Versions by path: mode, stage and object, for each entry of the path.
pub(super) type Versions = BTreeMap<PathBuf, Vec<Vec<u8>>>;

/// The versions of the paths that `wanted` names, by the index at `path` of `tree`: none where there is no index, and `None` where it
/// cannot be read, or says what only another file or a folder completes.
pub(super) fn versions(tree: &Tree, path: &Path, wanted: impl Fn(&Path) -> bool) -> Option<Versions> {
    if tree.facts(path).ok()?.is_none() {
        return Some(Versions::new());
    }
    parse(&read(tree, path)?, wanted)
}

fn read(tree: &Tree, path: &Path) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    tree.file(path).ok()?.take(LARGEST + 1).read_to_end(&mut text).ok()?;
    (text.len() as u64 <= LARGEST).then_some(text)
}

/// The same of what an index holds. The index does not say how long the names of its objects are.
pub(super) fn parse(text: &[u8], wanted: impl Fn(&Path) -> bool) -> Option<Versions> {
    LENGTHS.into_iter().find_map(|length| {
        let mut versions = Versions::new();
        Reader { rest: text, length }.walk(|path, entry| {
            if wanted(path) {
                versions.entry(path.to_owned()).or_default().push(entry.to_vec());
            }
        })?;
        Some(versions)
    })
}

struct Reader<'a> {
    rest: &'a [u8],
    length: usize,
}

impl<'a> Reader<'a> {
    /// Gives each entry's path, and its mode, stage and object. `None` where it turns out that the text is none.
    fn walk(mut self, mut each: impl FnMut(&Path, &[u8])) -> Option<()> {
        if self.take(4)? != b"DIRC" {
            return None;
        }
        let (version, count) = (self.number()?, self.number()?);
        if !(2..=4).contains(&version) {
            return None;
        }
        let mut name: Vec<u8> = Vec::new();
        let mut room = MOST_PATHS;
        for _ in 0..count {
            let before = self.rest.len();
            let stat = self.take(STAT)?;
            let object = self.take(self.length)?;
            let flags = self.take(2)?;
            let is_extended = flags.first()? & 0x40 != 0;
            if is_extended && (version < 3 || self.take(2).is_none()) {
                return None;
            }
            if version == 4 {
                let dropped = self.varint()?;
                name.truncate(name.len().checked_sub(dropped)?);
            } else {
                name.clear();
            }
            let end = self.rest.iter().position(|byte| *byte == 0)?;
            name.extend_from_slice(self.take(end)?);
            room = room.checked_sub(name.len()).filter(|_| name.len() <= LONGEST_PATH)?;
            if version == 4 {
                self.take(1)?;
            } else {
                // One to eight zeros, to a multiple of eight.
                let length = before - self.rest.len();
                self.take(8 - length % 8)?;
            }
            let mode = stat.get(24..28)?;
            // A folder of a sparse index stands for what is in it.
            if mode == [0, 0, 0x40, 0] {
                return None;
            }
            let stage = flags.first()? & 0x30;
            each(Path::new(OsStr::from_bytes(&name)), &[mode, &[stage], object].concat());
        }
        self.ends_well().then_some(())
    }

    /// Whether nothing follows but extensions that change no entry, and the checksum.
    fn ends_well(mut self) -> bool {
        while self.rest.len() > self.length {
            let (Some(name), Some(size)) = (self.take(4), self.number()) else {
                return false;
            };
            let is_optional = name.first().is_some_and(u8::is_ascii_uppercase);
            if !is_optional || usize::try_from(size).ok().and_then(|size| self.take(size)).is_none() {
                return false;
            }
        }
        self.rest.len() == self.length
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    /// Git's own: each further byte counts from one.
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

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    #[expect(clippy::disallowed_methods, reason = "git itself writes the indexes that are read")]
    fn git(folder: &Path, arguments: &[&str]) {
        let done = Command::new("git").arg("-C").arg(folder).args(arguments).output().unwrap();
        assert!(done.status.success(), "{arguments:?}: {done:?}");
    }

    #[test]
    fn every_form_of_an_index_says_the_same_and_others_are_refused() {
        for format in ["sha1", "sha256"] {
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path();
            git(root, &["init", "-q", "--object-format", format]);
            for name in ["a", ".vscode/settings.json", ".vscode/tasks.json", "src/long/name/of/a/file.rs"] {
                let path = root.join(name);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, name).unwrap();
            }
            git(root, &["add", "-A"]);
            let tree = Tree::open(root).unwrap();
            let index = Path::new(".git/index");
            let all = || versions(&tree, index, |_| true);
            let before = all().unwrap();
            assert_eq!(before.len(), 4, "{before:?}");
            git(root, &["update-index", "--index-version", "4"]);
            assert_eq!(all().unwrap(), before);
            git(root, &["update-index", "--skip-worktree", "a"]);
            assert_eq!(all().unwrap(), before, "extended flags");
            git(root, &["update-index", "--no-skip-worktree", "a"]);
            std::fs::write(root.join(".vscode/tasks.json"), "x").unwrap();
            git(root, &["add", "-A"]);
            let settings = |path: &Path| path.starts_with(".vscode");
            let (now, then) = (
                versions(&tree, index, settings).unwrap(),
                parse(&std::fs::read(root.join(index)).unwrap(), settings),
            );
            assert_eq!(Some(&now), then.as_ref());
            assert_ne!(now[Path::new(".vscode/tasks.json")], before[Path::new(".vscode/tasks.json")]);
            assert_eq!(now[Path::new(".vscode/settings.json")], before[Path::new(".vscode/settings.json")]);
            git(root, &["update-index", "--split-index"]);
            assert_eq!(all(), None, "a split index");
        }
        let folder = tempfile::tempdir().unwrap();
        let tree = Tree::open(folder.path()).unwrap();
        assert_eq!(versions(&tree, Path::new("index"), |_| true), Some(Versions::new()));
    }

    /// An index that leaves out what each path has in common with the one before.
    fn compressed(first: usize, count: u32) -> Vec<u8> {
        let mut text = [b"DIRC".as_slice(), &4_u32.to_be_bytes(), &count.to_be_bytes()].concat();
        for entry in 0..count {
            text.extend([0; STAT + 20 + 2 + 1]);
            text.extend(std::iter::repeat_n(b'x', if entry == 0 { first } else { 0 }));
            text.push(0);
        }
        text.extend([0; 20]);
        text
    }

    #[test]
    fn a_short_index_with_gigabytes_of_paths_is_refused() {
        for (first, count, expected) in [
            (LONGEST_PATH, 100, true),
            (LONGEST_PATH + 1, 1, false),
            (LONGEST_PATH, u32::try_from(MOST_PATHS / LONGEST_PATH).unwrap(), true),
            (LONGEST_PATH, u32::try_from(MOST_PATHS / LONGEST_PATH).unwrap() + 1, false),
        ] {
            let text = compressed(first, count);
            assert!(text.len() < 2 * 1024 * 1024);
            assert_eq!(parse(&text, |_| false).is_some(), expected, "{first} {count}");
        }
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(mut bytes: Vec<u8>, version in 0_u8..6, count in 0_u8..4) {
            let head = [b"DIRC".as_slice(), &[0, 0, 0, version, 0, 0, 0, count]].concat();
            bytes.splice(0..0, head);
            parse(&bytes, |_| true);
        }
    }
}

//! The refs of a repository, read from its files without git.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use sandbox_files::tree::Kind;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::object_id::{Format, ObjectId};
use crate::ref_name::RefName;
use crate::view::{Found, View};

/// Bytes of a file with one ref.
pub(crate) const LOOSE: u64 = 2048;
/// The maximum depth of folders.
pub(crate) const DEPTH: usize = 40;
/// Folders of refs: git never replaces one of them with a file.
const FOLDERS: [&str; 4] = ["refs/heads", "refs/notes", "refs/remotes", "refs/tags"];

/// The value of a ref.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RefValue {
    Object(ObjectId),
    /// It has the value of another ref.
    Symbolic(RefName),
}

impl RefValue {
    pub(crate) fn object(&self) -> Option<&ObjectId> {
        match self {
            Self::Object(id) => Some(id),
            Self::Symbolic(_) => None,
        }
    }

    /// Parses the content of a file with one ref; `HEAD` is such a file too.
    pub(crate) fn parse(text: &[u8], format: Format) -> Option<Self> {
        let text = text.trim_ascii_end();
        match text.strip_prefix(b"ref:") {
            Some(name) => RefName::parse(name.trim_ascii_start()).map(Self::Symbolic),
            None => format.id(text).map(Self::Object),
        }
    }
}

impl fmt::Display for RefValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object(id) => id.fmt(formatter),
            Self::Symbolic(name) => name.fmt(formatter),
        }
    }
}

pub(crate) type Table = BTreeMap<RefName, RefValue>;

/// Refs by their place of storage: a loose ref overrides a packed one of the same name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Refs {
    loose: Table,
    packed: Table,
}

/// Names below `refs` that are not refs.
pub(crate) type Odd = Vec<(PathBuf, &'static str)>;

impl Refs {
    /// Reads the refs of `view`. Files that an upper layer lacks are as in `base`, except for refs
    /// that `host` packed meanwhile: if the host no longer has a loose ref, and the upper layer
    /// does not freeze refs, that does not mean that the task packed it too.
    pub(crate) fn read(
        view: &View,
        host: &View,
        base: &Self,
        format: Format,
        file_bytes: u64,
        most: u64,
    ) -> Result<(Self, Odd), Error> {
        let mut reader = Reader { view, format, most, refs: Self::default(), odd: Odd::new() };
        // Git packs a ref before it removes the loose one: reading in this order misses none.
        let root = Path::new("refs");
        match view.folder(root) {
            Found::Here(()) => reader.loose(root, DEPTH)?,
            Found::Same => {}
            Found::Absent | Found::Odd(_) => reader.odd(root.to_owned(), "it is not a folder")?,
        }
        let kept = reader.keep(&base.loose);
        let packed = Path::new("packed-refs");
        match view.read(packed, file_bytes) {
            Found::Same => reader.refs.packed.clone_from(&base.packed),
            // Git writes the file without lines when the last ref is removed. Without it, refs
            // would seem to be deleted.
            Found::Absent if !base.packed.is_empty() => {
                reader.odd.push((packed.to_owned(), "it is gone"));
                reader.refs.packed.clone_from(&base.packed);
            }
            Found::Absent => {}
            // A loss of power leaves the file like this, or a task does.
            Found::Here(text) if !text.ends_with(b"\n") && !base.packed.is_empty() => {
                reader.odd.push((packed.to_owned(), "it is not complete"));
                reader.refs.packed.clone_from(&base.packed);
            }
            Found::Here(text) => {
                reader.packed(&text)?;
                for name in kept {
                    let value = reader.refs.packed.get(name);
                    let is_packed_anew = value.is_some() && value != base.packed.get(name);
                    if is_packed_anew && matches!(host.open(Path::new(name.as_str())), Found::Absent) {
                        reader.refs.loose.remove(name);
                    }
                }
            }
            Found::Odd(why) => {
                reader.odd.push((packed.to_owned(), why));
                reader.refs.packed.clone_from(&base.packed);
            }
        }
        Ok((reader.refs, reader.odd))
    }

    /// The value of one ref.
    pub(crate) fn get(&self, name: &RefName) -> Option<&RefValue> {
        self.loose.get(name).or_else(|| self.packed.get(name))
    }

    /// Undoes the changes since `start`, except for `most` refs: `first`, and those that can be
    /// imported, sorted by name. Returns the number undone.
    pub(crate) fn undo(&mut self, start: &Self, most: u64, first: Option<&RefName>) -> usize {
        let (before, now) = (start.table(), self.table());
        let is_changed = |name: &&RefName| before.get(name) != now.get(name);
        let of_start = before.keys().filter(|name| !now.contains_key(name));
        let mut changed: Vec<&RefName> = now.keys().chain(of_start).filter(is_changed).collect();
        changed.sort_by_key(|name| (Some(*name) != first, name.space().is_none(), *name));
        let rest = changed.get(usize::try_from(most).unwrap_or(usize::MAX)..).unwrap_or_default();
        for name in rest {
            self.packed.remove(name);
            match before.get(name) {
                Some(value) => self.loose.insert((*name).clone(), value.clone()),
                None => self.loose.remove(name),
            };
        }
        rest.len()
    }

    /// The effective value of each ref.
    pub(crate) fn table(&self) -> Table {
        let mut table = self.packed.clone();
        table.extend(self.loose.iter().map(|(name, value)| (name.clone(), value.clone())));
        table
    }
}

struct Reader<'a> {
    view: &'a View,
    format: Format,
    most: u64,
    refs: Refs,
    odd: Odd,
}

impl Reader<'_> {
    fn loose(&mut self, folder: &Path, depth: usize) -> Result<(), Error> {
        for (name, kind) in self.view.list(folder)? {
            let path = folder.join(&name);
            match (kind, depth.checked_sub(1)) {
                (Kind::Folder, Some(depth)) => self.loose(&path, depth)?,
                (Kind::Folder, None) => self.odd(path, "it is too deep")?,
                // An entry that hides one of the lower layer is not a ref.
                (Kind::Special, _) if matches!(self.view.open(&path), Found::Absent) => {}
                // It belongs to a running process, or one that was killed.
                (Kind::File, _) if path.extension().is_some_and(|extension| extension == "lock") => {}
                _ => self.one(path)?,
            }
        }
        Ok(())
    }

    /// Keeps refs as they were at the start. Git did not delete a ref whose place something odd
    /// took. Returns the refs that were unchanged.
    fn keep<'a>(&mut self, base: &'a Table) -> Vec<&'a RefName> {
        let mut kept = Vec::new();
        let odd: BTreeSet<&Path> = self.odd.iter().map(|(path, _)| path.as_path()).collect();
        for (name, value) in base {
            let path = Path::new(name.as_str());
            let is_untouched = self.view.is_upper() && !self.view.is_hidden(path);
            if !self.refs.loose.contains_key(name)
                && (is_untouched || path.ancestors().any(|folder| odd.contains(folder)))
            {
                self.refs.loose.insert(name.clone(), value.clone());
                kept.extend(is_untouched.then_some(name));
            }
        }
        kept
    }

    fn one(&mut self, path: PathBuf) -> Result<(), Error> {
        // Even with an id, it is not a ref, and deletes none.
        if FOLDERS.iter().any(|folder| path == Path::new(folder)) {
            return self.odd(path, "it is not a folder");
        }
        let Some(name) = RefName::parse(path.as_os_str().as_encoded_bytes()) else {
            return self.odd(path, "it is not a valid name of a ref");
        };
        let value = match self.view.read(&path, LOOSE) {
            Found::Here(text) => RefValue::parse(&text, self.format),
            Found::Odd(why) => return self.odd(path, why),
            Found::Same | Found::Absent => return Ok(()),
        };
        match value {
            Some(value) => {
                self.refs.loose.insert(name, value);
                self.check()
            }
            None => self.odd(path, "it does not name an object"),
        }
    }

    fn packed(&mut self, text: &[u8]) -> Result<(), Error> {
        let length = 2 * self.format.length();
        let mut lost = 0_u64;
        for line in text.split(|byte| *byte == b'\n') {
            // A header, the target of the tag in the line before, or the end.
            if matches!(line.first(), None | Some(b'#' | b'^')) {
                continue;
            }
            let parts = line.split_at_checked(length).and_then(|(id, rest)| {
                let name = RefName::parse(rest.strip_prefix(b" ")?)?;
                Some((name, RefValue::Object(self.format.id(id)?)))
            });
            match parts {
                Some((name, value)) => {
                    self.refs.packed.insert(name, value);
                    self.check()?;
                }
                None => lost += 1,
            }
            if lost > self.most {
                return Err(Error::TooMuch { what: "refs", limit: self.most });
            }
        }
        if lost > 0 {
            self.odd.push(("packed-refs".into(), "it has lines that are not refs"));
        }
        Ok(())
    }

    fn odd(&mut self, path: PathBuf, why: &'static str) -> Result<(), Error> {
        self.odd.push((path, why));
        self.check()
    }

    fn check(&self) -> Result<(), Error> {
        let count = self.refs.loose.len().max(self.refs.packed.len()).max(self.odd.len());
        if count as u64 > self.most {
            return Err(Error::TooMuch { what: "refs", limit: self.most });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;
    use sandbox_files::tree::Tree;

    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef01234567";
    const OTHER: &str = "1123456789abcdef0123456789abcdef01234567";

    fn read(view: &View, base: &Refs) -> (Refs, Odd) {
        Refs::read(view, view, base, Format::Sha1, 1 << 20, 100).unwrap()
    }

    fn names(table: &Table) -> Vec<&str> {
        table.keys().map(RefName::as_str).collect()
    }

    #[test]
    fn loose_refs_override_packed_ones_and_oddities_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(
            "packed-refs",
            &format!(
                "# pack-refs with: peeled\n{ID} refs/heads/main\n{ID} refs/tags/v1\n^{OTHER}\n{ID} ../x\n"
            ),
        );
        write("refs/heads/main", &format!("{OTHER}\n"));
        write("refs/remotes/o/HEAD", "ref: refs/remotes/o/main\n");
        write("refs/heads/bad", "ref: /etc/passwd\n");
        write("refs/heads/x.lock", "");
        std::os::unix::fs::symlink("main", folder.path().join("refs/heads/link")).unwrap();
        let (refs, odd) = read(&View::whole(Tree::open(folder.path()).unwrap()), &Refs::default());
        let table = refs.table();
        assert_eq!(names(&table), ["refs/heads/main", "refs/remotes/o/HEAD", "refs/tags/v1"]);
        let main = &table[&RefName::parse(b"refs/heads/main").unwrap()];
        assert_eq!(main.object().unwrap().as_str(), OTHER);
        let odd: Vec<String> = odd.iter().map(|(path, _)| path.display().to_string()).collect();
        assert_eq!(odd, ["refs/heads/bad", "refs/heads/link", "packed-refs"]);
    }

    #[test]
    fn upper_layer_keeps_the_refs_of_the_start() {
        let name = |text: &str| RefName::parse(text.as_bytes()).unwrap();
        let value = |id: &str| RefValue::Object(Format::Sha1.id(id.as_bytes()).unwrap());
        let mut base = Refs::default();
        base.loose.insert(name("refs/heads/main"), value(ID));
        base.packed.insert(name("refs/tags/v1"), value(ID));
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("refs/heads")).unwrap();
        fs::write(folder.path().join("refs/heads/new"), OTHER).unwrap();
        let (refs, odd) = read(&View::upper(Tree::open(folder.path()).unwrap()), &base);
        assert_eq!(names(&refs.table()), ["refs/heads/main", "refs/heads/new", "refs/tags/v1"]);
        assert!(odd.is_empty());
    }

    #[test]
    fn refs_replaced_by_odd_files_are_not_deleted() {
        let name = RefName::parse(b"refs/heads/main").unwrap();
        let mut base = Refs::default();
        base.loose.insert(name, RefValue::Object(Format::Sha1.id(ID.as_bytes()).unwrap()));
        for odd in ["refs/heads/main", "refs/heads", "refs"] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join(odd);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink("/etc/passwd", path).unwrap();
            let (refs, found) = read(&View::whole(Tree::open(folder.path()).unwrap()), &base);
            assert_eq!((refs, found.len()), (base.clone(), 1), "{odd}");
        }
    }

    #[test]
    fn files_that_replace_folders_of_refs_delete_nothing() {
        let value = |id: &str| RefValue::Object(Format::Sha1.id(id.as_bytes()).unwrap());
        let mut base = Refs::default();
        for name in ["refs/heads/main", "refs/heads/a/b", "refs/tags/v1", "refs/remotes/o/x", "refs/notes/n"]
        {
            base.loose.insert(RefName::parse(name.as_bytes()).unwrap(), value(ID));
        }
        base.packed.insert(RefName::parse(b"refs/heads/packed").unwrap(), value(ID));
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("refs")).unwrap();
        for name in FOLDERS {
            fs::write(folder.path().join(name), OTHER).unwrap();
        }
        let (refs, odd) = read(&View::whole(Tree::open(folder.path()).unwrap()), &base);
        assert_eq!((refs, odd.len()), (base, 5), "{odd:?}");
    }

    #[test]
    fn packed_refs_that_are_cut_off_are_as_they_were() {
        let mut base = Refs::default();
        let name = RefName::parse(b"refs/heads/main").unwrap();
        base.packed.insert(name, RefValue::Object(Format::Sha1.id(ID.as_bytes()).unwrap()));
        for text in ["", "# pack-refs with: peeled", "# pack-refs\n0123"] {
            let folder = tempfile::tempdir().unwrap();
            fs::create_dir(folder.path().join("refs")).unwrap();
            fs::write(folder.path().join("packed-refs"), text).unwrap();
            let (refs, odd) = read(&View::whole(Tree::open(folder.path()).unwrap()), &base);
            assert_eq!((refs.packed, odd.len()), (base.packed.clone(), 1), "{text}");
        }
    }

    #[test]
    fn more_refs_than_the_limit_are_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let lines: Vec<String> = (0..101).map(|number| format!("{ID} refs/heads/{number}\n")).collect();
        fs::write(folder.path().join("packed-refs"), lines.concat()).unwrap();
        let view = View::whole(Tree::open(folder.path()).unwrap());
        let read = Refs::read(&view, &view, &Refs::default(), Format::Sha1, 1 << 20, 100);
        assert!(matches!(read, Err(Error::TooMuch { what: "refs", .. })));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text: Vec<u8>) {
            RefValue::parse(&text, Format::Sha1);
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join("packed-refs"), text).unwrap();
            read(&View::whole(Tree::open(folder.path()).unwrap()), &Refs::default());
        }
    }
}

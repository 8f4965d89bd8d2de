//! A task's version of a repository: hostile files, read without following a link and within
//! limits.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsFd;
use std::path::Path;

use sandbox_files::overlay;
use sandbox_files::tree::{Facts, Kind, Tree};

use crate::Error;

/// The maximum number of names in one folder.
const MOST_NAMES: usize = 200_000;

/// The common folder of a repository in the state that a task left.
#[derive(Debug)]
pub struct View {
    tree: Tree,
    is_upper: bool,
}

/// The entry at a path of a view.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found<T> {
    /// The task did not change it.
    Same,
    /// There is no entry.
    Absent,
    Here(T),
    /// It is not a file, or its size is not supported.
    Odd(&'static str),
}

impl View {
    /// A view with all files of the repository, such as a copy.
    #[must_use]
    pub fn whole(tree: Tree) -> Self {
        Self { tree, is_upper: false }
    }

    /// The upper layer of an overlay over the host's repository: files that are not in it are
    /// unchanged since the start.
    #[must_use]
    pub fn upper(tree: Tree) -> Self {
        Self { tree, is_upper: true }
    }

    /// The folder `path` in the upper layer of an overlay whose lower layer has the host's
    /// repository there; `None` if the task left no such folder. If the task replaced the folder,
    /// the view is complete in itself.
    ///
    /// # Errors
    ///
    /// If it cannot be opened, or is in a folder that the kernel redirects to another one.
    pub fn in_upper(upper: &Tree, path: &Path) -> Result<Option<Self>, Error> {
        let full = upper.path().join(path);
        let mut hides = false;
        for folder in path.ancestors() {
            match upper.facts(folder) {
                Ok(Some(Facts { kind: Kind::Folder, .. })) => {}
                _ if folder.as_os_str().is_empty() => {}
                Ok(_) => return Ok(None),
                Err(error) => return Err(Error::files("open", &full)(error)),
            }
            let open = upper.folder(folder).map_err(Error::files("open", &full))?;
            if has_note(&open, "redirect") {
                let problem = "was moved by the kernel with redirect_dir, which is not supported";
                return Err(Error::Unsupported { path: full, problem });
            }
            hides |= has_note(&open, "opaque");
        }
        let tree = upper.inner(path).map_err(Error::files("open", &full))?;
        Ok(Some(Self { tree, is_upper: !hides }))
    }

    /// Whether it is a complete repository, by the rules that git uses to recognise one.
    #[must_use]
    pub fn is_repository(&self) -> bool {
        let is = |name: &str, kind: Kind| {
            self.tree.facts(Path::new(name)).is_ok_and(|facts| facts.is_some_and(|facts| facts.kind == kind))
        };
        let has_parts = is("HEAD", Kind::File) && is("objects", Kind::Folder) && is("refs", Kind::Folder);
        has_parts && matches!(self.tree.facts(Path::new("commondir")), Ok(None))
    }

    /// The folder that it is read from.
    pub(crate) fn path(&self) -> &Path {
        self.tree.path()
    }

    pub(crate) fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Whether it lacks the files that the task did not change.
    pub(crate) fn is_upper(&self) -> bool {
        self.is_upper
    }

    /// The bytes of a file of at most `most` bytes.
    pub(crate) fn read(&self, path: &Path, most: u64) -> Found<Vec<u8>> {
        let mut text = Vec::new();
        match self.open(path) {
            Found::Same => Found::Same,
            Found::Absent => Found::Absent,
            Found::Odd(why) => Found::Odd(why),
            Found::Here((file, _)) => match file.take(most.saturating_add(1)).read_to_end(&mut text) {
                Ok(read) if read as u64 <= most => Found::Here(text),
                Ok(_) => Found::Odd("it is too large"),
                Err(_) => Found::Odd("it cannot be read"),
            },
        }
    }

    /// A file and its size.
    pub(crate) fn open(&self, path: &Path) -> Found<(File, u64)> {
        let facts = match self.tree.facts(path) {
            Ok(Some(facts)) => facts,
            Ok(None) => return self.missing(path),
            Err(_) => return Found::Odd("it is not accessible"),
        };
        match facts.kind {
            Kind::File => {}
            Kind::Special if self.is_upper && facts.is_whiteout => return Found::Absent,
            Kind::Folder => return Found::Odd("it is a folder"),
            Kind::Link => return Found::Odd("it is a link"),
            Kind::Special => return Found::Odd("it is not a regular file"),
        }
        match self.tree.file(path) {
            // Only its metadata changed: its content is in the lower layer.
            Ok(file) if self.is_upper && has_note(&file, "metacopy") => Found::Same,
            Ok(file) => Found::Here((file, facts.size)),
            Err(_) => Found::Odd("it cannot be opened"),
        }
    }

    /// The entries of a folder, sorted by name, with those that hide entries of the lower layer. A
    /// path that is not a folder is empty. A folder with too many names is an error, since the
    /// unlisted ones would seem to be deleted.
    pub(crate) fn list(&self, path: &Path) -> Result<Vec<(OsString, Kind)>, Error> {
        self.list_at_most(path, MOST_NAMES)
    }

    fn list_at_most(&self, path: &Path, most: usize) -> Result<Vec<(OsString, Kind)>, Error> {
        match self.tree.list_at_most(path, most) {
            Ok(entries) => Ok(entries),
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                Err(Error::TooMuch { what: "files in one folder", limit: most as u64 })
            }
            Err(_) => Ok(Vec::new()),
        }
    }

    /// Whether there is a folder at `path`.
    pub(crate) fn folder(&self, path: &Path) -> Found<()> {
        match self.tree.facts(path) {
            Ok(Some(Facts { kind: Kind::Folder, .. })) => Found::Here(()),
            Ok(Some(facts)) if self.is_upper && facts.is_whiteout => Found::Absent,
            Ok(Some(_)) => Found::Odd("it is not a folder"),
            Ok(None) => self.missing(path),
            Err(_) => Found::Odd("it is not accessible"),
        }
    }

    /// Whether the lower layer's entry at `path` is hidden: the task created an entry there, or hid
    /// a folder on the way to it.
    #[must_use]
    pub fn is_hidden(&self, path: &Path) -> bool {
        let is_there = || !matches!(self.tree.facts(path), Ok(None));
        self.is_upper && (is_there() || !matches!(self.missing::<()>(path), Found::Same))
    }

    /// The result for a path that is not in the tree.
    fn missing<T>(&self, path: &Path) -> Found<T> {
        if !self.is_upper {
            return Found::Absent;
        }
        let mut folders: Vec<&Path> =
            path.ancestors().filter(|folder| !folder.as_os_str().is_empty()).collect();
        folders.reverse();
        for folder in folders {
            match self.tree.facts(folder) {
                Ok(Some(facts)) if facts.kind == Kind::Folder => {
                    let opened = self.tree.folder(folder);
                    // The path itself has to exist to hide something.
                    let is_new = |open| has_note(&open, "opaque") || has_note(&open, "redirect");
                    if opened.map_or(true, is_new) {
                        return Found::Absent;
                    }
                }
                Ok(None) => return Found::Same,
                Ok(Some(_)) | Err(_) => return Found::Absent,
            }
        }
        Found::Same
    }
}

/// Whether the overlay set its attribute `name` on the open file.
fn has_note(open: impl AsFd, name: &str) -> bool {
    overlay::has_note(open, name).unwrap_or(false)
}

/// Whether the host has no identical file at `path`; at most `most` bytes are compared.
pub(crate) fn differs(view: &View, host: &View, path: &Path, most: u64) -> io::Result<bool> {
    let read = |file: File| {
        let mut text = Vec::new();
        file.take(most).read_to_end(&mut text).map(|_| text)
    };
    let Found::Here((file, size)) = view.open(path) else {
        return Ok(false);
    };
    match host.open(path) {
        Found::Here((other, other_size)) if other_size == size => Ok(read(file)? != read(other)?),
        _ => Ok(true),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn path_that_is_not_a_regular_file_of_valid_size_is_odd() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "12345").unwrap();
        fs::create_dir(at("folder")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", at("link")).unwrap();
        std::os::unix::fs::symlink("/etc", at("etc")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), 0o600.into()).unwrap();
        let view = View::whole(Tree::open(folder.path()).unwrap());
        let read = |path: &str, most| view.read(Path::new(path), most);
        assert_eq!(read("file", 5), Found::Here(b"12345".to_vec()));
        assert_eq!(read("file", 4), Found::Odd("it is too large"));
        assert_eq!(read("folder", 9), Found::Odd("it is a folder"));
        assert_eq!(read("link", 9), Found::Odd("it is a link"));
        assert_eq!(read("pipe", 9), Found::Odd("it is not a regular file"));
        assert_eq!(read("etc/passwd", 9999), Found::Absent, "a link on the way is nothing");
        assert_eq!(read("none", 9), Found::Absent);
        assert!(view.list(Path::new("etc")).unwrap().is_empty());
        let listed = |most| view.list_at_most(Path::new(""), most);
        assert_eq!(listed(5).unwrap().len(), 5);
        assert!(matches!(listed(4), Err(Error::TooMuch { limit: 4, .. })));
    }

    #[test]
    fn files_missing_from_an_upper_layer_are_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("refs/heads")).unwrap();
        let view = View::upper(Tree::open(folder.path()).unwrap());
        assert_eq!(view.read(Path::new("HEAD"), 9), Found::Same);
        assert_eq!(view.read(Path::new("refs/heads/main"), 9), Found::Same);
        assert!(!view.is_hidden(Path::new("refs/heads/main")));
        fs::write(folder.path().join("refs/tags"), "").unwrap();
        assert!(view.is_hidden(Path::new("refs/tags/v1")), "a file has taken the folder's place");
    }
}

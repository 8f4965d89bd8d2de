//! A repository of the host, which its owner's git trusts.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf, absolute};

use sandbox_files::tree::{Kind, Tree};

use crate::Error;
use crate::config::{self, Setting};
use crate::object_id::Format;
use crate::ref_name::RefName;
use crate::refs::RefValue;
use crate::view::{Found, View};

/// Bytes of a file of the host that is read as a whole.
pub(crate) const OWN_FILE: u64 = 256 << 20;

/// A repository of the host, by its common folder, and which of its work trees a task had.
#[derive(Debug)]
pub struct HostRepository {
    view: View,
    /// The folder of the work tree's `HEAD` and index, in the common folder.
    own: PathBuf,
    settings: Vec<Setting>,
    format: Format,
}

impl HostRepository {
    /// The repository at `common` (`.git`, `.git/modules/NAME`, a bare one) with its main work tree.
    ///
    /// # Errors
    ///
    /// When it is no repository, or one that is not understood: with refs in another form than files.
    pub fn open(common: &Path) -> Result<Self, Error> {
        Self::with(common, PathBuf::new())
    }

    /// The same with its linked work tree whose folder in `worktrees` is called `name`.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), and when it has no such work tree.
    pub fn open_linked(common: &Path, name: &OsStr) -> Result<Self, Error> {
        Self::with(common, Path::new("worktrees").join(name))
    }

    fn with(common: &Path, own: PathBuf) -> Result<Self, Error> {
        // Git runs in another folder than the caller.
        let common = &absolute(common).map_err(Error::files("find", common))?;
        let tree = Tree::open(common).map_err(Error::files("open", common))?;
        let unsupported = |problem| Error::Unsupported { path: common.to_owned(), problem };
        let is = |path: &Path, kind: Kind| matches!(tree.facts(path), Ok(Some(facts)) if facts.kind == kind);
        let is_folder = |name: &str| is(Path::new(name), Kind::Folder);
        if !is_folder("objects") || !is_folder("refs") || !is(&own.join("HEAD"), Kind::File) {
            return Err(unsupported("is none, or keeps `HEAD`, refs or objects elsewhere"));
        }
        let view = View::whole(tree);
        let settings = match view.read(Path::new("config"), OWN_FILE) {
            Found::Here(text) => config::settings(&text),
            Found::Absent => Some(Vec::new()),
            Found::Same | Found::Odd(_) => None,
        };
        let settings = settings.ok_or_else(|| unsupported("has a configuration that cannot be read"))?;
        if is_reftable(&settings) {
            return Err(unsupported("keeps its refs in a reftable, which is not understood yet"));
        }
        let format = match last(&settings, "extensions", "objectformat") {
            None => Format::Sha1,
            Some(name) if name.eq_ignore_ascii_case(b"sha1") => Format::Sha1,
            Some(name) if name.eq_ignore_ascii_case(b"sha256") => Format::Sha256,
            Some(_) => return Err(unsupported("names its objects in a way that is not understood")),
        };
        Ok(Self { view, own, settings, format })
    }

    pub(crate) fn common(&self) -> &Path {
        self.view.path()
    }

    /// The folder that git is given.
    pub(crate) fn git_dir(&self) -> PathBuf {
        self.common().join(&self.own)
    }

    pub(crate) fn objects(&self) -> PathBuf {
        self.common().join("objects")
    }

    /// The place of a file of the work tree's, in the common folder.
    pub(crate) fn own(&self, name: &str) -> PathBuf {
        self.own.join(name)
    }

    pub(crate) fn format(&self) -> Format {
        self.format
    }

    pub(crate) fn view(&self) -> &View {
        &self.view
    }

    /// Whether it has no main work tree.
    pub(crate) fn is_bare(&self) -> bool {
        last(&self.settings, "core", "bare").is_some_and(|value| value.eq_ignore_ascii_case(b"true"))
    }

    /// Whether it lacks objects that a remote has promised.
    pub(crate) fn is_partial(&self) -> bool {
        last(&self.settings, "extensions", "partialclone").is_some()
    }

    /// Branches that other work trees than the task's are at, or will be again after a rebase.
    pub(crate) fn branches_elsewhere(&self) -> BTreeSet<RefName> {
        let worktrees = Path::new("worktrees");
        let linked = self.view.list(worktrees).into_iter().map(|(name, _)| worktrees.join(name));
        let main = (!self.is_bare()).then(PathBuf::new);
        let others = linked.chain(main).filter(|folder| *folder != self.own);
        others.flat_map(|folder| self.branches_at(&folder)).collect()
    }

    fn branches_at(&self, folder: &Path) -> Vec<RefName> {
        let read = |name: &str| match self.view.read(&folder.join(name), 4096) {
            Found::Here(text) => Some(text.trim_ascii().to_owned()),
            _ => None,
        };
        let head = read("HEAD").and_then(|text| match RefValue::parse(&text, self.format)? {
            RefValue::Symbolic(name) => Some(name),
            RefValue::Object(_) => None,
        });
        let rebased =
            ["rebase-merge/head-name", "rebase-apply/head-name"].map(|name| RefName::parse(&read(name)?));
        let bisected = read("BISECT_START").and_then(|text| RefName::branch(&text));
        [head, bisected].into_iter().chain(rebased).flatten().collect()
    }
}

/// Whether refs are kept in another form than files.
pub(crate) fn is_reftable(settings: &[Setting]) -> bool {
    last(settings, "extensions", "refstorage").is_some_and(|value| !value.eq_ignore_ascii_case(b"files"))
}

/// The value of `section.key` that counts.
fn last<'a>(settings: &'a [Setting], section: &str, key: &str) -> Option<&'a [u8]> {
    let is_it = |it: &&Setting| it.subsection.is_none() && it.section == section && it.key == key;
    settings.iter().rfind(is_it).map(|it| it.value.as_slice())
}

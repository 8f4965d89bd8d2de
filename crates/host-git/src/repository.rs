//! A repository of the host, which its owner's git trusts.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf, absolute};

use sandbox_files::tree::{Kind, Tree};

use crate::config::{self, Setting};
use crate::git::{Git, Input};
use crate::index::Index;
use crate::object_id::Format;
use crate::ref_name::RefName;
use crate::refs::RefValue;
use crate::view::{Found, View};
use crate::{Error, Limits};

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
    /// When it is not a repository, or one that is not understood: with refs in another form than files.
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

    /// Makes one in the folder `common`, which must not be there, for what is in `view`: without hooks, refs and objects, and with the
    /// settings that every repository has, a bare one if `is_bare` says so.
    ///
    /// # Errors
    ///
    /// When it cannot be made, or `view` has none that is understood.
    pub fn create(common: &Path, view: &View, is_bare: bool) -> Result<Self, Error> {
        let failed = || Error::files("make", common);
        let format = match view.read(Path::new("config"), OWN_FILE) {
            Found::Here(text) => format(&config::settings(&text).unwrap_or_default()),
            _ => Some(Format::Sha1),
        };
        let settings = match format {
            Some(Format::Sha1) => "[core]\n\trepositoryformatversion = 0\n".to_owned(),
            Some(Format::Sha256) => {
                "[extensions]\n\tobjectformat = sha256\n[core]\n\trepositoryformatversion = 1\n".to_owned()
            }
            None => {
                let problem = "names its objects in a way that is not understood";
                return Err(Error::Unsupported { path: view.path().to_owned(), problem });
            }
        };
        let settings = format!("{settings}\tfilemode = true\n\tbare = {is_bare}\n");
        fs::create_dir(common).map_err(failed())?;
        for folder in ["objects/info", "objects/pack", "refs/heads", "refs/tags"] {
            fs::create_dir_all(common.join(folder)).map_err(failed())?;
        }
        fs::write(common.join("config"), settings).map_err(failed())?;
        fs::write(common.join("HEAD"), "ref: refs/heads/main\n").map_err(failed())?;
        Self::open(common)
    }

    /// Gives the setting `key` these values, and no other ones; none removes it.
    ///
    /// # Errors
    ///
    /// When git refuses.
    pub fn set(&self, key: &str, values: &[String]) -> Result<(), Error> {
        let git = Git::new(&self.git_dir(), &Limits::default());
        let file = self.common().join("config").display().to_string();
        let config = |action: &str, value: Option<&str>| {
            let mut arguments = vec!["config", "--file", &file, action, "--", key];
            arguments.extend(value);
            git.read("write a setting", &arguments, Input::Nothing).map(drop)
        };
        let is_there = settings_of(self.view()).is_some_and(|all| all.iter().any(|it| it.name() == key));
        match values {
            [value] => config("--replace-all", Some(value)),
            values => {
                if is_there {
                    config("--unset-all", None)?;
                }
                values.iter().try_for_each(|value| config("--add", Some(value)))
            }
        }
    }

    /// Which paths the index in `view` has other versions of than the host's; `None` where one of the two is not understood.
    #[must_use]
    pub fn recorded(&self, view: &View) -> Option<BTreeSet<PathBuf>> {
        let read = |view: &View, most: u64| match view.read(&self.own("index"), most) {
            Found::Same => Some(None),
            Found::Absent => Some(Some(Index::default())),
            Found::Odd(_) => None,
            Found::Here(text) => Index::parse(&text, self.format).ok().map(Some),
        };
        let Some(now) = read(view, Limits::default().file_bytes)? else {
            return Some(BTreeSet::new());
        };
        Some(now.differing(&read(self.view(), OWN_FILE)?.unwrap_or_default()))
    }

    fn with(common: &Path, own: PathBuf) -> Result<Self, Error> {
        // Git runs in another folder than the caller.
        let common = &absolute(common).map_err(Error::files("find", common))?;
        let tree = Tree::open(common).map_err(Error::files("open", common))?;
        let unsupported = |problem| Error::Unsupported { path: common.to_owned(), problem };
        let is = |path: &Path, kind: Kind| matches!(tree.facts(path), Ok(Some(facts)) if facts.kind == kind);
        let is_folder = |name: &str| is(Path::new(name), Kind::Folder);
        if !is_folder("objects") || !is_folder("refs") || !is(&own.join("HEAD"), Kind::File) {
            return Err(unsupported("is not a repository, or keeps `HEAD`, refs or objects elsewhere"));
        }
        let view = View::whole(tree);
        let settings =
            settings_of(&view).ok_or_else(|| unsupported("has a configuration that cannot be read"))?;
        if is_reftable(&settings) {
            return Err(unsupported("keeps its refs in a reftable, which is not understood yet"));
        }
        let format = format(&settings)
            .ok_or_else(|| unsupported("names its objects in a way that is not understood"))?;
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
        let linked =
            self.view.list(worktrees).unwrap_or_default().into_iter().map(|(name, _)| worktrees.join(name));
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

fn settings_of(view: &View) -> Option<Vec<Setting>> {
    match view.read(Path::new("config"), OWN_FILE) {
        Found::Here(text) => config::settings(&text),
        Found::Absent => Some(Vec::new()),
        Found::Same | Found::Odd(_) => None,
    }
}

/// How objects are named; `None` where that is not understood.
fn format(settings: &[Setting]) -> Option<Format> {
    match last(settings, "extensions", "objectformat") {
        None => Some(Format::Sha1),
        Some(name) if name.eq_ignore_ascii_case(b"sha1") => Some(Format::Sha1),
        Some(name) if name.eq_ignore_ascii_case(b"sha256") => Some(Format::Sha256),
        Some(_) => None,
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

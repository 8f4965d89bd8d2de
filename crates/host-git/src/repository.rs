//! A host repository, which its owner's git trusts.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use sandbox_files::tree::{Kind, Tree};

use crate::config::{self, Setting};
use crate::git::{Git, HERE, Input};
use crate::object_id::Format;
use crate::ref_name::RefName;
use crate::refs::RefValue;
use crate::view::{Found, View};
use crate::{Error, Limits};

/// The size limit in bytes of a host file that is read as a whole.
pub(crate) const OWN_FILE: u64 = 256 << 20;

/// A host repository, identified by its common folder, and the work tree that a task had.
#[derive(Debug)]
pub struct HostRepository {
    view: View,
    /// The folder of the work tree's `HEAD` and index, in the common folder.
    own: PathBuf,
    settings: Vec<Setting>,
    format: Format,
}

/// Files that an import, or git on its behalf, writes in a common folder and in a work tree's
/// folder. Other files, such as `rr-cache`, may be links that the host made.
const WRITTEN: [&str; 16] = [
    "AUTO_MERGE",
    "CHERRY_PICK_HEAD",
    "COMMIT_EDITMSG",
    "HEAD",
    "MERGE_HEAD",
    "MERGE_MODE",
    "MERGE_MSG",
    "ORIG_HEAD",
    "config",
    "index",
    "logs",
    "objects",
    "packed-refs",
    "refs",
    "shallow",
    "worktrees",
];

impl HostRepository {
    /// The repository whose common folder is `tree`, with its main work tree, or with the linked
    /// one whose folder in `worktrees` is called `linked`. It remains the same repository if
    /// someone moves or replaces its folder.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open) and [`open_linked`](Self::open_linked).
    pub fn of(tree: Tree, linked: Option<&OsStr>) -> Result<Self, Error> {
        let own = linked.map_or_else(PathBuf::new, |name| Path::new("worktrees").join(name));
        let path = tree.path().to_owned();
        let unsupported = |problem| Error::Unsupported { path, problem };
        let is = |path: &Path, kind: Kind| matches!(tree.facts(path), Ok(Some(facts)) if facts.kind == kind);
        let is_folder = |name: &str| is(Path::new(name), Kind::Folder);
        if !is_folder("objects") || !is_folder("refs") || !is(&own.join("HEAD"), Kind::File) {
            return Err(unsupported("is not a repository, or keeps `HEAD`, refs or objects elsewhere"));
        }
        if let Some(link) = link(&tree, &own) {
            let path = tree.path().join(link);
            return Err(Error::Unsupported { path, problem: "has a link, or a device, where git writes" });
        }
        let view = View::whole(tree);
        let Some(settings) = settings_of(&view) else {
            return Err(unsupported("has a configuration that cannot be read"));
        };
        if is_reftable(&settings) {
            return Err(unsupported("keeps its refs in a reftable, which is not supported yet"));
        }
        match format(&settings) {
            Some(format) => Ok(Self { view, own, settings, format }),
            None => Err(unsupported("has an unsupported object format")),
        }
    }

    /// The repository at `common` (`.git`, `.git/modules/NAME`, a bare one) with its main work
    /// tree.
    ///
    /// # Errors
    ///
    /// If it is not a repository, or an unsupported one: its refs are not stored as files.
    pub fn open(common: &Path) -> Result<Self, Error> {
        Self::of(Tree::open(common).map_err(Error::files("open", common))?, None)
    }

    /// The repository with its linked work tree whose folder in `worktrees` is called `name`.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), and if that work tree does not exist.
    pub fn open_linked(common: &Path, name: &OsStr) -> Result<Self, Error> {
        Self::of(Tree::open(common).map_err(Error::files("open", common))?, Some(name))
    }

    /// Creates a repository with `view`'s object format in the folder `common`, which must not
    /// exist. It has no hooks, refs or objects, only the settings of every repository, and is bare
    /// if `is_bare` is set.
    ///
    /// # Errors
    ///
    /// If the repository cannot be created, or the one in `view` is not supported.
    pub fn create(common: &Path, view: &View, is_bare: bool) -> Result<Self, Error> {
        let failed = || Error::files("create", common);
        let format = match view.read(Path::new("config"), Limits::default().config_bytes) {
            Found::Here(text) => format(&config::settings(&text).unwrap_or_default()),
            _ => Some(Format::Sha1),
        };
        let settings = match format {
            Some(Format::Sha1) => "[core]\n\trepositoryformatversion = 0\n".to_owned(),
            Some(Format::Sha256) => {
                "[extensions]\n\tobjectformat = sha256\n[core]\n\trepositoryformatversion = 1\n".to_owned()
            }
            None => {
                let problem = "has an unsupported object format";
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

    /// Replaces all values of the setting `key` with `values`; an empty list removes the setting.
    ///
    /// # Errors
    ///
    /// If git refuses.
    pub fn set(&self, key: &str, values: &[String]) -> Result<(), Error> {
        let git = self.git(&Limits::default());
        let file = format!("{HERE}/config");
        let config = |action: &str, value: Option<&str>| {
            let mut arguments = vec!["config", "--file", &file, action, "--", key];
            arguments.extend(value);
            git.read("write a setting", &arguments, Input::Nothing)
                .map(drop)
                .map_err(|error| self.named(error))
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

    /// Its path when it was opened.
    pub(crate) fn path(&self) -> &Path {
        self.view.path()
    }

    /// The path by which this process reaches its common folder.
    pub(crate) fn reached(&self) -> PathBuf {
        self.view.tree().reached()
    }

    /// The path by which this process reaches the folder of the work tree's `HEAD` and index.
    pub(crate) fn git_dir(&self) -> PathBuf {
        self.reached().join(&self.own)
    }

    pub(crate) fn git(&self, limits: &Limits) -> Git<'_> {
        Git::new(self.view.tree(), &self.own, limits)
    }

    /// Replaces the paths by which this process and git reach the repository with the repository's
    /// own path.
    pub(crate) fn named(&self, error: Error) -> Error {
        match error {
            Error::Files { operation, path, source } => {
                let inner = path.strip_prefix(self.reached()).map(|inner| self.path().join(inner));
                Error::Files { operation, path: inner.unwrap_or(path), source }
            }
            Error::Git { operation, message } => {
                Error::Git { operation, message: message.replace(HERE, &self.path().to_string_lossy()) }
            }
            Error::Unfinished { source } => Error::Unfinished { source: Box::new(self.named(*source)) },
            error => error,
        }
    }

    pub(crate) fn objects(&self) -> PathBuf {
        self.reached().join("objects")
    }

    /// The path of the work tree's file `name` in the common folder.
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

    /// Branches that are checked out in work trees other than the task's, or will be again after a
    /// rebase.
    pub(crate) fn branches_elsewhere(&self) -> BTreeSet<RefName> {
        let worktrees = Path::new("worktrees");
        let linked =
            self.view.list(worktrees).unwrap_or_default().into_iter().map(|(name, _)| worktrees.join(name));
        let main = (!self.is_bare()).then(PathBuf::new);
        let others = linked.chain(main).filter(|folder| *folder != self.own);
        others.flat_map(|folder| self.branches_at(&folder)).collect()
    }

    /// Branches of the work tree whose own folder is `folder`.
    pub(crate) fn branches_at(&self, folder: &Path) -> Vec<RefName> {
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

/// A link or device through which git would write: a task that created a repository can have linked
/// anything into it.
fn link(tree: &Tree, own: &Path) -> Option<PathBuf> {
    let mut folders: Vec<PathBuf> =
        ["refs", "logs", "objects/info", "objects/pack"].map(PathBuf::from).into();
    let is_odd = |path: &Path| matches!(tree.facts(path), Ok(Some(facts)) if !matches!(facts.kind, Kind::File | Kind::Folder));
    for folder in [Path::new(""), Path::new("objects"), own] {
        for (name, kind) in tree.list(folder).unwrap_or_default() {
            let is_written = folder.ends_with("objects") || WRITTEN.iter().any(|written| name == *written);
            if is_written && matches!(kind, Kind::Link | Kind::Special) {
                return Some(folder.join(name));
            }
        }
    }
    folders.extend(
        ["refs", "logs"].map(|name| own.join(name)).into_iter().filter(|_| !own.as_os_str().is_empty()),
    );
    while let Some(folder) = folders.pop() {
        if is_odd(&folder) {
            return Some(folder);
        }
        for (name, kind) in tree.list(&folder).unwrap_or_default() {
            match kind {
                Kind::File => {}
                Kind::Folder => folders.push(folder.join(name)),
                Kind::Link | Kind::Special => return Some(folder.join(name)),
            }
        }
    }
    None
}

fn settings_of(view: &View) -> Option<Vec<Setting>> {
    match view.read(Path::new("config"), OWN_FILE) {
        Found::Here(text) => config::settings(&text),
        Found::Absent => Some(Vec::new()),
        Found::Same | Found::Odd(_) => None,
    }
}

/// The object format; `None` if it is not supported.
fn format(settings: &[Setting]) -> Option<Format> {
    match last(settings, "extensions", "objectformat") {
        None => Some(Format::Sha1),
        Some(name) if name.eq_ignore_ascii_case(b"sha1") => Some(Format::Sha1),
        Some(name) if name.eq_ignore_ascii_case(b"sha256") => Some(Format::Sha256),
        Some(_) => None,
    }
}

/// Whether refs are stored in another form than files.
pub(crate) fn is_reftable(settings: &[Setting]) -> bool {
    last(settings, "extensions", "refstorage").is_some_and(|value| !value.eq_ignore_ascii_case(b"files"))
}

/// The effective value of `section.key`.
fn last<'a>(settings: &'a [Setting], section: &str, key: &str) -> Option<&'a [u8]> {
    settings.iter().rfind(|it| it.is(section, key)).map(|it| it.value.as_slice())
}

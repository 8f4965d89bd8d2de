//! A host repository, and a task with a copy of it.
#![expect(clippy::disallowed_methods, reason = "the tests run git")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use sandbox_files::tree::Tree;

use crate::fail_point::FailPoints;
use crate::{Error, HostRepository, Import, Limits, Report, Snapshot, View};

pub(crate) struct Fixture {
    folder: tempfile::TempDir,
    pub(crate) start: Snapshot,
    /// The host's files that an import must not write, at the start.
    before: BTreeMap<PathBuf, Vec<u8>>,
    pub(crate) limits: Limits,
    /// Whether the view has the form of an overlay's upper layer.
    pub(crate) is_upper: bool,
}

/// Parts of a repository that an import writes; settings are compared separately.
const LIST: [&str; 16] = [
    "AUTO_MERGE",
    "MERGE_MODE",
    "COMMIT_EDITMSG",
    "info/refs",
    "objects",
    "refs",
    "packed-refs",
    "HEAD",
    "index",
    "logs",
    "MERGE_AUTOSTASH",
    "MERGE_HEAD",
    "MERGE_MSG",
    "CHERRY_PICK_HEAD",
    "config",
    "ORIG_HEAD",
];

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::with("sha1", |_| {})
    }

    /// A repository with two commits, a branch, a tag and a remote, and the changes of `more` on
    /// the host; then the task begins.
    pub(crate) fn with(format: &str, more: impl FnOnce(&Path)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let host = folder.path().join("host");
        run(folder.path(), &["cp", "-a", &format!("{}/.", template(format).display()), "."]);
        more(&host);
        let mut fixture = Self {
            start: snapshot(&host.join(".git")),
            folder,
            before: BTreeMap::new(),
            limits: Limits::default(),
            is_upper: false,
        };
        fixture.before = outside_of_list(&fixture.common());
        run(fixture.folder.path(), &["cp", "-a", "host", "task"]);
        run(fixture.folder.path(), &["cp", "-a", "host", "start"]);
        fixture
    }

    pub(crate) fn host(&self) -> PathBuf {
        self.folder.path().join("host")
    }

    pub(crate) fn task(&self) -> PathBuf {
        self.folder.path().join("task")
    }

    pub(crate) fn common(&self) -> PathBuf {
        self.host().join(".git")
    }

    pub(crate) fn quarantine(&self) -> PathBuf {
        self.folder.path().join("quarantine")
    }

    /// Runs each line in the task's work tree.
    pub(crate) fn script(&self, lines: &str) {
        script(&self.task(), lines);
    }

    pub(crate) fn view(&self) -> View {
        if self.is_upper {
            let upper = self.folder.path().join("upper");
            let _ = fs::remove_dir_all(&upper);
            upper_of(&self.folder.path().join("start/.git"), &self.task().join(".git"), &upper);
            return View::upper(Tree::open(&upper).unwrap());
        }
        View::whole(Tree::open(&self.task().join(".git")).unwrap())
    }

    pub(crate) fn prepare_and<T>(&self, then: impl FnOnce(Import<'_>) -> T) -> Result<T, Error> {
        let host = HostRepository::open(&self.common()).unwrap();
        let run = "run-1".parse().unwrap();
        Import::prepare(&host, &self.view(), &self.start, &run, &self.limits, &self.quarantine()).map(then)
    }

    pub(crate) fn import_with(&self, points: FailPoints<'_>) -> Result<Report, Error> {
        self.prepare_and(|import| import.commit_with(points)).flatten()
    }

    /// Imports, and checks the invariants of every import.
    pub(crate) fn import(&self) -> Report {
        let report = self.import_with(&mut |_| true).unwrap();
        self.check();
        report
    }

    /// Checks that only listed files were written, and that git finds no problem.
    pub(crate) fn check(&self) {
        let now = outside_of_list(&self.common());
        let names = |files: &BTreeMap<PathBuf, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&now), names(&self.before));
        assert!(now == self.before, "a file outside of the list was changed");
        let text = git(&self.host(), "fsck --strict --no-dangling");
        assert!(text.trim().is_empty(), "{text}");
        assert!(!self.quarantine().exists());
        let pack = files(&self.common().join("objects"));
        assert!(!pack.keys().any(|path| path.extension().is_some_and(|it| it == "keep")), "{pack:?}");
    }

    /// The state of the host's repository, as git reports it.
    pub(crate) fn host_state(&self) -> String {
        git_state(&self.host())
    }

    pub(crate) fn task_state(&self) -> String {
        git_state(&self.task())
    }

    pub(crate) fn git(&self, arguments: &str) -> String {
        git(&self.host(), arguments).trim_end().to_owned()
    }
}

thread_local! {
    /// Removed when the test ends.
    static TEMPLATES: RefCell<BTreeMap<String, tempfile::TempDir>> = const { RefCell::new(BTreeMap::new()) };
}

/// A host repository to copy: created once per test thread.
fn template(format: &str) -> PathBuf {
    TEMPLATES.with_borrow_mut(|made| {
        made.entry(format.to_owned()).or_insert_with(|| make(format)).path().to_owned()
    })
}

fn make(format: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let host = folder.path().join("host");
    fs::create_dir(&host).unwrap();
    git(&host, &format!("init -q -b main --object-format {format}"));
    fs::write(host.join("a"), "one\n").unwrap();
    fs::write(host.join("b"), "one\n").unwrap();
    git(&host, "add -A");
    git(&host, "commit -qm first");
    git(&host, "tag v1");
    git(&host, "branch side");
    fs::write(host.join("a"), "two\n").unwrap();
    git(&host, "commit -qam second");
    git(folder.path(), &format!("init -q --bare --object-format {format} remote.git"));
    git(&host, "remote add origin ../remote.git");
    folder
}

pub(crate) fn snapshot(common: &Path) -> Snapshot {
    let taken = Snapshot::take(&HostRepository::open(common).unwrap()).unwrap();
    // As after a crash: the snapshot is stored and loaded.
    serde_json::from_str(&serde_json::to_string(&taken).unwrap()).unwrap()
}

/// Refs, `HEAD`, index, stashes and the operation in progress.
pub(crate) fn git_state(work_tree: &Path) -> String {
    let mut text = git(work_tree, "for-each-ref --format=%(refname)=%(objectname)%(symref)");
    text += &fs::read_to_string(work_tree.join(".git/HEAD")).unwrap();
    text += &git(work_tree, "ls-files -s");
    text += &git(work_tree, "stash list --format=%H%gs");
    for name in ["MERGE_HEAD", "CHERRY_PICK_HEAD", "MERGE_MSG"] {
        if let Ok(content) = fs::read_to_string(work_tree.join(".git").join(name)) {
            text.extend([name, ": ", &content]);
        }
    }
    text
}

pub(crate) fn script(folder: &Path, lines: &str) {
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        // A line that may fail begins with `-`: a merge with conflicts does.
        let (line, may_fail) = line.strip_prefix('-').map_or((line, false), |line| (line, true));
        let done = command(folder, "sh").args(["-c", line]).output().unwrap();
        assert!(done.status.success() || may_fail, "{line}: {}", String::from_utf8_lossy(&done.stderr));
    }
}

pub(crate) fn git(folder: &Path, arguments: &str) -> String {
    let done = command(folder, "git").args(arguments.split(' ')).output().unwrap();
    assert!(done.status.success(), "git {arguments}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).into_owned()
}

pub(crate) fn run(folder: &Path, arguments: &[&str]) {
    let done = command(folder, arguments[0]).args(&arguments[1..]).output().unwrap();
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
}

fn command(folder: &Path, program: &str) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    for (name, value) in [
        ("HOME", "/nonexistent"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_AUTHOR_NAME", "A"),
        ("GIT_AUTHOR_EMAIL", "a@x"),
        ("GIT_COMMITTER_NAME", "A"),
        ("GIT_COMMITTER_EMAIL", "a@x"),
        ("GIT_EDITOR", "true"),
        ("LC_ALL", "C"),
    ] {
        command.env(name, value);
    }
    command
}

fn outside_of_list(common: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = files(common);
    found.retain(|path, _| !LIST.iter().any(|name| path.starts_with(name)));
    let config = fs::read_to_string(common.join("config")).unwrap();
    // Tests that are about the two settings of branches compare them.
    let others = config.split("[branch ").next().unwrap_or_default().trim_end().to_owned();
    found.insert("config".into(), others.into_bytes());
    found
}

/// Every file below `folder`; links and others by their kind.
pub(crate) fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let entry = entry.unwrap();
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            let name = path.strip_prefix(folder).unwrap().to_owned();
            if kind.is_dir() {
                found.insert(name, b"folder".to_vec());
                folders.push(path);
            } else if kind.is_file() {
                found.insert(name, fs::read(&path).unwrap());
            } else if kind.is_symlink() {
                found.insert(name, fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec());
            } else {
                found.insert(name, b"special".to_vec());
            }
        }
    }
    found
}

/// Fills an overlay's upper layer with the difference between `before` and `after`.
fn upper_of(before: &Path, after: &Path, upper: &Path) {
    fs::create_dir_all(upper).unwrap();
    let (old, new) = (files(before), files(after));
    for (path, content) in &new {
        let is_folder = content == b"folder" && after.join(path).is_dir();
        if is_folder && !old.contains_key(path) {
            fs::create_dir_all(upper.join(path)).unwrap();
        }
        if !is_folder && old.get(path) != Some(content) {
            fs::create_dir_all(upper.join(path).parent().unwrap()).unwrap();
            if fs::symlink_metadata(after.join(path)).unwrap().is_file() {
                fs::copy(after.join(path), upper.join(path)).unwrap();
            } else {
                run(
                    upper,
                    &["cp", "-a", after.join(path).to_str().unwrap(), upper.join(path).to_str().unwrap()],
                );
            }
        }
    }
    let mut hidden: Vec<&PathBuf> = Vec::new();
    for path in old.keys().filter(|path| !new.contains_key(*path)) {
        // An entry that hides a folder hides its content.
        let is_hidden = hidden.iter().any(|folder| path.starts_with(folder));
        let is_in_file = path.ancestors().skip(1).any(|folder| {
            folder.as_os_str() != ""
                && new.contains_key(folder)
                && !after.join(folder).symlink_metadata().unwrap().is_dir()
        });
        if is_hidden || is_in_file {
            continue;
        }
        fs::create_dir_all(upper.join(path).parent().unwrap()).unwrap();
        let kind = rustix::fs::FileType::CharacterDevice;
        rustix::fs::mknodat(rustix::fs::CWD, upper.join(path), kind, 0o000.into(), 0).unwrap();
        hidden.push(path);
    }
    assert!(fs::metadata(upper).unwrap().ino() > 0);
}

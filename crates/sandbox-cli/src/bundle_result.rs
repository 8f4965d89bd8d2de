//! The result of a run of a bundle: a folder with the changes, the output and the network log, which
//! exists as a whole or not at all.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Seek as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, Mode, OFlags, fsync, mkdirat, openat, renameat, unlinkat};
use sandbox::host_path::{Found, Resolver};
use sandbox::workspace::{Change, ChangeKind, EntryKind, Protection, Withheld, WorkspaceCopy};
use sandbox_bundle::{
    Content, Core, Digest, Ended, Left, LinkTarget, Measured, RunResult, Snapshot, TreePath,
};
use sandbox_files::tree::Tree;

use crate::failure::Failure;
use crate::printer::sanitize_name;

/// The files of a result.
const RECORD: &str = "result.json";
const CHANGES: &str = "changes.tar";
const STDOUT: &str = "stdout";
const STDERR: &str = "stderr";
const NETWORK: &str = "network.jsonl";
/// Changes that a result names although it lacks them.
const MOST_LEFT: usize = 1_000;

/// The folder of a result, which does not exist yet.
#[derive(Debug)]
pub(crate) struct ResultFolder {
    parent: OwnedFd,
    name: OsString,
    shown: String,
}

/// The end of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EndedRun<'a> {
    /// The digest of its bundle.
    pub(crate) bundle: Digest,
    /// The exit code of the command line.
    pub(crate) exit_code: u8,
    pub(crate) ended: Ended,
    pub(crate) stdout: &'a [u8],
    pub(crate) stderr: &'a [u8],
    pub(crate) duration: Duration,
    pub(crate) oom_killed: bool,
    /// The command's changes.
    pub(crate) copy: &'a WorkspaceCopy,
    /// The network log as JSON, which need not exist.
    pub(crate) log: &'a Path,
}

/// The changes in a copy.
#[derive(Debug, Default)]
struct Exported {
    there: Vec<PathBuf>,
    removed: BTreeSet<TreePath>,
    left: Vec<Left>,
}

impl ResultFolder {
    /// The folder at `path`.
    ///
    /// # Errors
    ///
    /// If it exists, or is in none.
    pub(crate) fn at(path: &Path, resolver: &Resolver) -> Result<Self, Failure> {
        let shown = sanitize_name(&path.display().to_string());
        let name = path.file_name();
        let name = name.ok_or_else(|| Failure::usage(format!("`{shown}` is not the name of a folder")))?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = resolver.find(parent.unwrap_or(Path::new(".")))?;
        match parent.child(name) {
            Ok(_) => {
                return Err(Failure::usage(format!("`{shown}` exists already"))
                    .with_hint("a result is never replaced: name a new folder"));
            }
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
        let parent = opened(&parent).map_err(Failure::doing(format!("open the folder of `{shown}`")))?;
        Ok(Self { parent, name: name.to_owned(), shown })
    }

    /// Writes the result of `run`, and returns its record.
    ///
    /// # Errors
    ///
    /// If the changes cannot be read, or the files cannot be written. There is no folder then.
    pub(crate) fn write(&self, run: &EndedRun<'_>) -> Result<RunResult, Failure> {
        let EndedRun { bundle, exit_code, ended, copy, log, .. } = *run;
        let tree = copy.changed_tree()?;
        let Exported { there, removed, left } = exported(copy, &tree)?;
        self.create(|folder| {
            let changes = new_file(folder, CHANGES, |file| {
                let mut output = BufWriter::new(file);
                Ok(Snapshot::read(&tree, there)?.write_changes(&mut output, removed)?)
            })?;
            let stdout = new_file(folder, STDOUT, |file| Ok(file.write_all(run.stdout)?))?;
            let stderr = new_file(folder, STDERR, |file| Ok(file.write_all(run.stderr)?))?;
            let network = new_file(folder, NETWORK, |file| match File::open(log) {
                Ok(mut log) => {
                    io::copy(&mut log, file)?;
                    Ok(())
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                Err(error) => Err(error.into()),
            })?;
            let core = Core { bundle, ended, exit_code, changes, left, stdout, stderr };
            let measured = Measured {
                network,
                duration_ms: u64::try_from(run.duration.as_millis()).unwrap_or(u64::MAX),
                oom_killed: run.oom_killed,
                program: env!("CARGO_PKG_VERSION").to_owned(),
            };
            let record = RunResult::new(core, measured)?;
            let bytes = record.to_bytes()?;
            new_file(folder, RECORD, |file| Ok(file.write_all(&bytes)?))?;
            Ok(record)
        })
    }

    /// Creates the folder with what `fill` writes: as a whole, or not at all.
    fn create<T>(&self, fill: impl FnOnce(&OwnedFd) -> Result<T, Failure>) -> Result<T, Failure> {
        let mut hidden = OsString::from(".");
        hidden.push(&self.name);
        hidden.push(format!(".{:016x}", rand::random::<u64>()));
        let failed = || Failure::doing(format!("write `{}`", self.shown));
        mkdirat(&self.parent, &hidden, Mode::RWXU).map_err(failed())?;
        let filled = openat(&self.parent, &hidden, FOLDER | OFlags::NOFOLLOW, Mode::empty());
        let filled = filled.map_err(failed()).and_then(|folder| {
            let named = fill(&folder).and_then(|value| {
                fsync(&folder).map_err(failed())?;
                // The kernel replaces only an empty folder.
                renameat(&self.parent, &hidden, &self.parent, &self.name).map_err(failed())?;
                Ok(value)
            });
            if named.is_err() {
                for name in [RECORD, CHANGES, STDOUT, STDERR, NETWORK] {
                    // The first failure is the one to report, here and below.
                    let _ = unlinkat(&folder, name, AtFlags::empty());
                }
            }
            named
        });
        if filled.is_err() {
            let _ = unlinkat(&self.parent, &hidden, AtFlags::REMOVEDIR);
        } else {
            fsync(&self.parent).map_err(failed())?;
        }
        filled
    }
}

/// An open folder can be flushed only if it was opened for reading.
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

fn opened(folder: &Found) -> io::Result<OwnedFd> {
    Ok(openat(folder, ".", FOLDER, Mode::empty())?)
}

/// Creates the file `name`, which `write` fills.
fn new_file(
    folder: impl AsFd,
    name: &str,
    write: impl FnOnce(&mut File) -> Result<(), Failure>,
) -> Result<Content, Failure> {
    let failed = || Failure::doing(format!("write `{name}`"));
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = openat(folder, name, flags, Mode::RUSR | Mode::WUSR).map_err(io::Error::from);
    let mut file = File::from(opened.map_err(failed())?);
    write(&mut file)?;
    file.sync_all().map_err(failed())?;
    file.rewind().map_err(failed())?;
    let (size, sha256) = Digest::of_all(&file).map_err(failed())?;
    Ok(Content { sha256, size })
}

/// The changes in `copy`: paths that are there, paths that are gone, and those that no result can have.
fn exported(copy: &WorkspaceCopy, tree: &Tree) -> Result<Exported, Failure> {
    let (changes, git) = copy.waiting(&Protection::none())?;
    let mut exported = Exported::default();
    let left = git?.left.into_iter().map(|left| Left { path: left.path, why: left.why });
    exported.left.extend(left);
    for change in changes {
        match path_of(&change, tree) {
            Ok(path) if change.kind == ChangeKind::Removed => {
                exported.removed.insert(path);
            }
            Ok(_) => exported.there.push(change.path),
            Err(why) => {
                let path = change.path.display().to_string();
                exported.left.push(Left { path, why: why.to_owned() });
            }
        }
    }
    exported.left.sort_unstable();
    let more = exported.left.len().saturating_sub(MOST_LEFT);
    if more > 0 {
        exported.left.truncate(MOST_LEFT);
        exported.left.push(Left { path: String::new(), why: format!("and {more} more") });
    }
    Ok(exported)
}

/// The path of a change in a result, or the reason why no result can have it.
fn path_of(change: &Change, tree: &Tree) -> Result<TreePath, &'static str> {
    let text = |path: &Path| path.to_str().map(str::to_owned).ok_or("the name is not UTF-8");
    if change.withheld == Some(Withheld::Repository) {
        return Err("it is a git repository");
    }
    if change.kind != ChangeKind::Removed {
        match change.entry {
            EntryKind::File | EntryKind::Folder => {}
            EntryKind::Special => return Err("it is a device, a socket or a pipe"),
            EntryKind::Link => {
                let target = tree.target(&change.path).map_err(|_| "the link cannot be read")?;
                LinkTarget::try_from(text(&target).map_err(|_| "the target of the link is not UTF-8")?)?;
            }
        }
    }
    TreePath::try_from(text(&change.path)?)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::fs;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, FileType, mknodat};
    use sandbox::Mount;
    use sandbox_bundle::{Changes, Entry};
    use sandbox_workspace::WorkspaceGuard;

    use super::*;

    /// A copy of a tree that a task changed.
    async fn changed_copy(folder: &Path) -> WorkspaceCopy {
        let (tree, copy) = (folder.join("tree"), folder.join("copy"));
        fs::create_dir_all(tree.join("src")).unwrap();
        for file in ["src/old", "src/same", "gone"] {
            fs::write(tree.join(file), "old").unwrap();
        }
        let mounts = vec![Mount::copy_on_write(&tree, "/workspace", &copy)];
        let taken = WorkspaceGuard::take(mounts, folder.join("quarantine"), None).await;
        let (_, mut guard) = taken.unwrap();
        guard.prepared().await.unwrap();
        let layer = copy.join("upper");
        for inner in ["src", "repository/.git/objects", "repository/.git/refs"] {
            fs::create_dir_all(layer.join(inner)).unwrap();
        }
        fs::write(layer.join("repository/.git/HEAD"), "ref: refs/heads/main\n").unwrap();
        for (file, text) in [("src/old", "new"), ("src/same", "old"), ("added", "added")] {
            fs::write(layer.join(file), text).unwrap();
        }
        symlink("/etc/passwd", layer.join("link")).unwrap();
        fs::write(layer.join(OsStr::from_bytes(b"name\xff")), "x").unwrap();
        mknodat(CWD, layer.join("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        Tree::open(&layer).unwrap().hide(Path::new("gone")).unwrap();
        drop(guard.release(true).await);
        WorkspaceCopy::open(copy).unwrap().unwrap()
    }

    #[tokio::test]
    async fn result_has_the_changes_and_names_what_it_lacks() {
        let folder = tempfile::tempdir().unwrap();
        let copy = changed_copy(folder.path()).await;
        let log = folder.path().join("log");
        fs::write(&log, "{}\n").unwrap();
        let run = EndedRun {
            bundle: Digest::of(b"bundle"),
            exit_code: 3,
            ended: Ended::Exited,
            stdout: b"out",
            stderr: b"err",
            duration: Duration::from_millis(1500),
            oom_killed: false,
            copy: &copy,
            log: &log,
        };
        let write = |name: &str, run: &EndedRun<'_>| {
            let path = folder.path().join(name);
            (ResultFolder::at(&path, &Resolver::default()).unwrap().write(run).unwrap(), path)
        };
        let (record, path) = write("result", &run);
        assert_eq!(names(&path), [CHANGES, NETWORK, RECORD, STDERR, STDOUT]);
        assert_eq!(RunResult::read(&fs::read(path.join(RECORD)).unwrap()).unwrap(), record);
        let Core { changes, stdout, stderr, left, exit_code, .. } = &record.core;
        for (name, content) in
            [(CHANGES, changes), (STDOUT, stdout), (STDERR, stderr), (NETWORK, &record.measured.network)]
        {
            let bytes = fs::read(path.join(name)).unwrap();
            assert_eq!((content.sha256, content.size), (Digest::of(&bytes), bytes.len() as u64), "{name}");
        }
        assert_eq!((*exit_code, record.measured.duration_ms), (3, 1500));
        let changes = Changes::read(File::open(path.join(CHANGES)).unwrap()).unwrap();
        let there: Vec<_> = changes.tree.entries().map(|(path, _)| path.to_string()).collect();
        assert_eq!(there, ["added", "link", "repository", "src", "src/old"]);
        let link = changes.tree.entry(&TreePath::try_from("link".to_owned()).unwrap());
        assert!(matches!(link, Some(Entry::Link(target)) if target.as_path() == Path::new("/etc/passwd")));
        let removed: Vec<_> = changes.removed.iter().map(ToString::to_string).collect();
        assert_eq!(removed, ["gone"]);
        let left: Vec<_> = left.iter().map(|left| (left.path.as_str(), left.why.as_str())).collect();
        assert_eq!(
            left,
            [
                ("name\u{fffd}", "the name is not UTF-8"),
                ("pipe", "it is a device, a socket or a pipe"),
                ("repository/.git", "it is a git repository"),
            ]
        );
        let later = EndedRun { duration: Duration::ZERO, log: Path::new("/no/log"), ..run };
        assert_eq!(write("later", &later).0.digest, record.digest, "times and the log do not count");
        assert_ne!(write("other", &EndedRun { stdout: b"Out", ..run }).0.digest, record.digest);
        fs::write(folder.path().join("copy/upper/added"), "other").unwrap();
        assert_ne!(write("third", &run).0.digest, record.digest);
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn existing_name_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| ResultFolder::at(&folder.path().join(name), &Resolver::default()).map(drop);
        fs::create_dir(folder.path().join("folder")).unwrap();
        fs::write(folder.path().join("file"), "").unwrap();
        symlink("nowhere", folder.path().join("link")).unwrap();
        for name in ["folder", "file", "link", "folder/.."] {
            assert!(at(name).is_err(), "{name}");
        }
        assert!(at("none/new").is_err());
        assert!(at("new").is_ok(), "the control");
    }

    #[test]
    fn folder_is_complete_or_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let target = ResultFolder::at(&folder.path().join("result"), &Resolver::default()).unwrap();
        let failed = target.create(|inner| -> Result<(), Failure> {
            new_file(inner, STDOUT, |file| Ok(file.write_all(b"x")?))?;
            assert_eq!(names(folder.path()).len(), 1, "a hidden one");
            Err(Failure::new("no"))
        });
        assert!(failed.is_err());
        assert_eq!(names(folder.path()), [""; 0]);
        let written = target.create(|inner| new_file(inner, STDOUT, |file| Ok(file.write_all(b"x")?)));
        let content = Content { sha256: Digest::of(b"x"), size: 1 };
        assert_eq!(written.unwrap(), content);
        assert_eq!(
            (names(folder.path()), names(&folder.path().join("result"))),
            (vec!["result".to_owned()], vec![STDOUT.to_owned()])
        );
        // Another run was faster.
        assert!(target.create(|inner| new_file(inner, STDOUT, |file| Ok(file.write_all(b"y")?))).is_err());
        assert_eq!(fs::read(folder.path().join("result/stdout")).unwrap(), b"x");
        assert_eq!(names(folder.path()), ["result"]);
    }
}

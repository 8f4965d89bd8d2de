//! The result of a run of a bundle: a folder with the changes, the output and the network log, which
//! exists as a whole or not at all.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Seek as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Access, AtFlags, Mode, OFlags, accessat, fsync, mkdirat, openat, renameat, unlinkat};
use sandbox::host_path::{Found, Resolver};
use sandbox::network::NetworkLog;
use sandbox::network_event::{Event, RequestOutcome};
use sandbox::workspace::{
    Change, ChangeKind, EntryKind, Protection, Withheld, WorkspaceCopy, WorkspaceError,
};
use sandbox_bundle::{
    AgentEnd, AgentSummary, Content, Digest, Ended, LinkTarget, Measured, Omitted, Outcome, Receipt,
    ReceiptKey, RequestedHost, RunResult, Snapshot, TreePath,
};
use sandbox_files::tree::Tree;

use crate::failure::Failure;
use crate::printer::sanitize_name;

/// The files of a result.
pub(crate) const RECORD: &str = "result.json";
pub(crate) const CHANGES: &str = "changes.tar";
const STDOUT: &str = "stdout";
const STDERR: &str = "stderr";
const NETWORK: &str = "network.jsonl";
pub(crate) const RECEIPT: &str = "receipt.json";
/// Those of an agent.
const AGENT: &str = "agent.json";
const CONTEXT: &str = "context.json";
const FILES: [&str; 8] = [RECORD, CHANGES, STDOUT, STDERR, NETWORK, RECEIPT, AGENT, CONTEXT];
/// Changes that a result names although it lacks them.
const MOST_OMITTED: usize = 1_000;
/// Hosts that a receipt names.
const MOST_HOSTS: usize = 1_000;

/// The folder of a result, which does not exist yet.
#[derive(Debug)]
pub(crate) struct ResultFolder {
    parent: OwnedFd,
    name: OsString,
    shown: String,
}

/// A run whose command or agent ended.
#[derive(Debug)]
pub(crate) struct EndedRun {
    /// The digest of its bundle, and that of the listing of the files.
    pub(crate) bundle: Digest,
    pub(crate) tree: Digest,
    /// That of the policy at the start.
    pub(crate) policy: Digest,
    /// The key of this host.
    pub(crate) key: ReceiptKey,
    /// The exit code of the command line.
    pub(crate) exit_code: u8,
    pub(crate) process: EndedProcess,
    /// The tag of its image.
    pub(crate) image: String,
    /// Its changes.
    pub(crate) copy: WorkspaceCopy,
    /// The folder of the network log, which need not exist.
    pub(crate) log: PathBuf,
}

/// A command or an agent that ended.
#[derive(Debug)]
pub(crate) struct EndedProcess {
    pub(crate) ended: Ended,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    /// Bytes of both that were not kept.
    pub(crate) cut: u64,
    pub(crate) duration: Duration,
    pub(crate) oom_killed: bool,
    pub(crate) agent: Option<EndedAgent>,
}

/// What there is only of an agent.
#[derive(Debug)]
pub(crate) struct EndedAgent {
    pub(crate) summary: AgentSummary,
    /// The document of `--output json`.
    pub(crate) report: String,
    /// The folder of its session.
    pub(crate) session: PathBuf,
}

/// The requests of a run.
#[derive(Debug, Default)]
struct Requests {
    /// Permitted and refused ones, by host.
    hosts: BTreeMap<String, (u64, u64)>,
    policy_changed: bool,
}

/// The changes in a copy.
#[derive(Debug, Default)]
struct Exported {
    present: Vec<PathBuf>,
    removed: BTreeSet<TreePath>,
    omitted: Vec<Omitted>,
    /// Further ones.
    omitted_more: u64,
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
        let failed = || Failure::doing(format!("open the folder of `{shown}`"));
        let parent = opened(&parent).map_err(failed())?;
        // The result would be lost otherwise.
        accessat(&parent, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)
            .map_err(Failure::doing(format!("create `{shown}` in its folder")))?;
        Ok(Self { parent, name: name.to_owned(), shown })
    }

    /// Writes the result of `run`, and returns its record.
    ///
    /// # Errors
    ///
    /// If the changes cannot be read, or the files cannot be written. There is no folder then.
    pub(crate) fn write(&self, run: &EndedRun) -> Result<RunResult, Failure> {
        self.create(|folder| filled(folder, run)).map_err(Failure::doing(format!("write {self}")))
    }

    /// Creates the folder with what `fill` writes: as a whole, or not at all.
    fn create<T>(&self, fill: impl FnOnce(&OwnedFd) -> anyhow::Result<T>) -> anyhow::Result<T> {
        let mut hidden = OsString::from(".");
        hidden.push(&self.name);
        hidden.push(format!(".{:016x}", rand::random::<u64>()));
        mkdirat(&self.parent, &hidden, Mode::RWXU)?;
        let filled = openat(&self.parent, &hidden, FOLDER | OFlags::NOFOLLOW, Mode::empty());
        let filled = filled.map_err(anyhow::Error::from).and_then(|folder| {
            let named = fill(&folder).and_then(|value| {
                fsync(&folder)?;
                // The kernel replaces only an empty folder.
                renameat(&self.parent, &hidden, &self.parent, &self.name)?;
                Ok(value)
            });
            if named.is_err() {
                for name in FILES {
                    // The first failure is the one to report, here and below.
                    let _ = unlinkat(&folder, name, AtFlags::empty());
                }
            }
            named
        });
        if filled.is_err() {
            let _ = unlinkat(&self.parent, &hidden, AtFlags::REMOVEDIR);
        } else {
            fsync(&self.parent)?;
        }
        filled
    }
}

/// The files of a result besides its record, with the content that they had.
pub(crate) fn files(record: &RunResult) -> impl Iterator<Item = (&'static str, Content)> {
    let RunResult { outcome, measured, .. } = record;
    let files = [
        (CHANGES, outcome.changes),
        (STDOUT, outcome.stdout),
        (STDERR, outcome.stderr),
        (NETWORK, measured.network),
    ];
    let agent = outcome.agent.iter().flat_map(|agent| [(AGENT, agent.report), (CONTEXT, agent.session)]);
    files.into_iter().chain(agent)
}

/// Writes the files of the result of `run` to `folder`.
fn filled(folder: &OwnedFd, run: &EndedRun) -> anyhow::Result<RunResult> {
    let EndedRun { tree: listing, policy, key, bundle, exit_code, process, image, copy, log } = run;
    let EndedProcess { ended, stdout, stderr, cut, duration, oom_killed, agent } = process;
    let tree = copy.changed_tree()?;
    let Exported { present, removed, omitted, omitted_more } = exported(copy, &tree)?;
    let changes = new_file(folder, CHANGES, |file| {
        Ok(Snapshot::read(&tree, present)?.write_changes(&mut BufWriter::new(file), removed)?)
    })?;
    let stdout = new_file(folder, STDOUT, |file| Ok(file.write_all(stdout)?))?;
    let stderr = new_file(folder, STDERR, |file| Ok(file.write_all(stderr)?))?;
    let network = new_file(folder, NETWORK, |file| match File::open(NetworkLog::new(log).json_path()) {
        Ok(mut log) => Ok(io::copy(&mut log, file).map(drop)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error.into()),
    })?;
    let agent = agent.as_ref().map(|EndedAgent { summary, report, session }| {
        let report = new_file(folder, AGENT, |file| Ok(writeln!(file, "{report}")?))?;
        let session = new_file(folder, CONTEXT, |file| {
            Ok(io::copy(&mut File::open(session.join(CONTEXT))?, file).map(drop)?)
        })?;
        anyhow::Ok(AgentEnd { summary: *summary, report, session })
    });
    let outcome = Outcome {
        bundle: *bundle,
        ended: *ended,
        exit_code: *exit_code,
        agent: agent.transpose()?,
        changes,
        omitted,
        omitted_more,
        stdout,
        stderr,
        cut: *cut,
    };
    let measured = Measured {
        network,
        duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
        oom_killed: *oom_killed,
        image: image.clone(),
        program: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let record = RunResult::new(outcome, measured)?;
    let bytes = record.to_bytes()?;
    new_file(folder, RECORD, |file| Ok(file.write_all(&bytes)?))?;
    let Requests { hosts, policy_changed } = Requests::read(log)?;
    let (hosts, hosts_more) = first(hosts);
    let receipt = Receipt {
        bundle: *bundle,
        tree: *listing,
        policy: *policy,
        policy_changed,
        image: image.clone(),
        changes: record.outcome.changes.sha256,
        ended: *ended,
        exit_code: *exit_code,
        agent: record.outcome.agent.as_ref().map(|agent| agent.summary),
        duration_ms: record.measured.duration_ms,
        hosts,
        hosts_more,
    };
    let receipt = receipt.sign(&record, key)?;
    new_file(folder, RECEIPT, |file| Ok(file.write_all(&receipt)?))?;
    Ok(record)
}

impl Requests {
    /// Those in the network log in `folder`.
    fn read(folder: &Path) -> io::Result<Self> {
        let mut requests = Self::default();
        let entries = match NetworkLog::new(folder).entries() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(requests),
            entries => entries?,
        };
        for entry in entries {
            let entry = match entry {
                Err(error) if error.kind() == io::ErrorKind::InvalidData => continue,
                entry => entry?,
            };
            match entry.event {
                Event::Request(request) => {
                    let (permitted, refused) = requests.hosts.entry(request.host).or_default();
                    let is_refused = request.decision == RequestOutcome::Blocked;
                    *(if is_refused { refused } else { permitted }) += entry.repeated.max(1);
                }
                Event::Policy { .. } => requests.policy_changed = true,
                _ => {}
            }
        }
        Ok(requests)
    }
}

/// The hosts that a receipt names, and the number of the others. A command could hide one behind many
/// that are refused, so those with a permitted request come first.
fn first(hosts: BTreeMap<String, (u64, u64)>) -> (Vec<RequestedHost>, u64) {
    let host = |(host, (permitted, refused))| RequestedHost { host, permitted, refused };
    let mut hosts: Vec<_> = hosts.into_iter().map(host).collect();
    hosts.sort_by_key(|host| host.permitted == 0);
    let more = hosts.len().saturating_sub(MOST_HOSTS) as u64;
    hosts.truncate(MOST_HOSTS);
    (hosts, more)
}

/// An open folder can be flushed only if it was opened for reading.
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

fn opened(folder: &Found) -> io::Result<OwnedFd> {
    Ok(openat(folder, ".", FOLDER, Mode::empty())?)
}

impl fmt::Display for ResultFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.shown)
    }
}

/// Creates the file `name`, which `write` fills.
fn new_file(
    folder: impl AsFd,
    name: &str,
    write: impl FnOnce(&mut File) -> anyhow::Result<()>,
) -> anyhow::Result<Content> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(openat(folder, name, flags, Mode::RUSR | Mode::WUSR)?);
    write(&mut file)?;
    file.sync_all()?;
    file.rewind()?;
    let (size, sha256) = Digest::of_all(&file)?;
    Ok(Content { sha256, size })
}

/// The changes in `copy`: paths that are there, paths that are gone, and those that no result can have.
fn exported(copy: &WorkspaceCopy, tree: &Tree) -> Result<Exported, WorkspaceError> {
    let (changes, git) = copy.waiting(&Protection::none())?;
    let mut exported = Exported::default();
    let left = git?.left.into_iter().map(|left| Omitted { path: left.path, reason: left.why });
    exported.omitted.extend(left);
    for change in changes {
        match path_of(&change, tree) {
            Ok(path) if change.kind == ChangeKind::Removed => {
                exported.present.extend(path.parent().map(|folder| folder.as_path().to_owned()));
                exported.removed.insert(path);
            }
            Ok(_) => exported.present.push(change.path),
            Err(reason) => {
                let path = change.path.display().to_string();
                exported.omitted.push(Omitted { path, reason: reason.to_owned() });
            }
        }
    }
    exported.omitted.sort_unstable();
    exported.omitted_more = exported.omitted.len().saturating_sub(MOST_OMITTED) as u64;
    exported.omitted.truncate(MOST_OMITTED);
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
            EntryKind::Folder => {}
            // On a rootless engine, it may belong to a user of the container.
            EntryKind::File => drop(tree.file(&change.path).map_err(|_| "it cannot be read")?),
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
        fs::create_dir(&log).unwrap();
        fs::write(NetworkLog::new(&log).json_path(), "{}\n").unwrap();
        let run = EndedRun {
            bundle: Digest::of(b"bundle"),
            tree: Digest::of(b"tree"),
            policy: Digest::of(b"policy"),
            key: ReceiptKey::new(&[7; 32]),
            exit_code: 3,
            process: EndedProcess {
                ended: Ended::Exited,
                stdout: b"out".to_vec(),
                stderr: b"err".to_vec(),
                cut: 0,
                duration: Duration::from_millis(1500),
                oom_killed: false,
                agent: None,
            },
            image: "x".to_owned(),
            copy,
            log,
        };
        let write = |name: &str, run: &EndedRun| {
            let path = folder.path().join(name);
            (ResultFolder::at(&path, &Resolver::default()).unwrap().write(run).unwrap(), path)
        };
        let (record, path) = write("result", &run);
        assert_eq!(names(&path), [CHANGES, NETWORK, RECEIPT, RECORD, STDERR, STDOUT]);
        let receipt = fs::read(path.join(RECEIPT)).unwrap();
        assert!(Receipt::verify(&receipt, &record, &[run.key.public()]).is_ok());
        assert_eq!(RunResult::read(&fs::read(path.join(RECORD)).unwrap()).unwrap(), record);
        for (name, content) in files(&record) {
            let bytes = fs::read(path.join(name)).unwrap();
            assert_eq!((content.sha256, content.size), (Digest::of(&bytes), bytes.len() as u64), "{name}");
        }
        assert_eq!((record.outcome.exit_code, record.measured.duration_ms), (3, 1500));
        let changes = Changes::read(File::open(path.join(CHANGES)).unwrap()).unwrap();
        let there: Vec<_> = changes.tree.entries().map(|(path, _)| path.to_string()).collect();
        assert_eq!(there, ["added", "link", "repository", "src", "src/old"]);
        let link = changes.tree.entry(&TreePath::try_from("link".to_owned()).unwrap());
        assert!(matches!(link, Some(Entry::Link(target)) if target.as_path() == Path::new("/etc/passwd")));
        let removed: Vec<_> = changes.removed.iter().map(ToString::to_string).collect();
        assert_eq!(removed, ["gone"]);
        let omitted = record.outcome.omitted.iter();
        let omitted: Vec<_> = omitted.map(|change| (change.path.as_str(), change.reason.as_str())).collect();
        assert_eq!(
            omitted,
            [
                ("name\u{fffd}", "the name is not UTF-8"),
                ("pipe", "it is a device, a socket or a pipe"),
                ("repository/.git", "it is a git repository"),
            ]
        );
        let mut other = EndedRun { log: "/no/log".into(), ..run };
        other.process.duration = Duration::ZERO;
        assert_eq!(write("later", &other).0.digest, record.digest, "times and the log do not count");
        other.process.stdout = b"Out".to_vec();
        assert_ne!(write("other", &other).0.digest, record.digest);
        other.process.stdout = b"out".to_vec();
        fs::write(folder.path().join("copy/upper/added"), "other").unwrap();
        assert_ne!(write("third", &other).0.digest, record.digest);
    }

    #[test]
    fn permitted_host_is_named_before_many_that_are_refused() {
        let refused = (0..MOST_HOSTS).map(|number| (format!("{number:04}.example"), (0, 1)));
        let (hosts, more) = first(refused.chain([("z.example".to_owned(), (1, 0))]).collect());
        assert_eq!((hosts[0].host.as_str(), hosts[1].host.as_str()), ("z.example", "0000.example"));
        assert_eq!((hosts.len(), more), (MOST_HOSTS, 1));
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
        let failed = target.create(|inner| -> anyhow::Result<()> {
            new_file(inner, STDOUT, |file| Ok(file.write_all(b"x")?))?;
            assert_eq!(names(folder.path()).len(), 1, "a hidden one");
            anyhow::bail!("no")
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

//! The lock by which other instances see that this one is alive.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The first line of a lock file: only such files are ever removed. The second one names the process,
/// the third one its [view](here) of the file system.
const MARK: &str = "sandbox instance";
/// The fourth line, or the third one of an earlier version, if that process only removes what the
/// instance left.
const REMOVAL: &str = "removal";
const FOLDER: &str = "instances";
/// The extension of a lock file before it is locked.
const FRESH: &str = "new";
/// The longest time until the lock: after that its instance is dead.
const BIRTH: Duration = Duration::from_mins(5);
/// The time for which the file of a dead instance with another view of the file system stays unless its
/// objects are removed.
const ELSEWHERE: Duration = Duration::from_hours(30 * 24);

/// The lock of this instance could not be acquired.
#[derive(Debug, thiserror::Error)]
#[error("failed to {operation} `{}`", path.display())]
pub struct LockError {
    operation: &'static str,
    path: PathBuf,
    source: io::Error,
}

/// The lock of an instance that has ended: its dead objects are not removed yet.
#[derive(Debug)]
pub struct HandedOver {
    /// The path of the locked file.
    pub path: PathBuf,
    /// The locked file. A process that inherits it holds the lock too.
    pub file: File,
}

/// The location of an instance's lock.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LockLocation {
    /// The file.
    pub(crate) path: PathBuf,
    /// The view of the file system that has the file: see [`here`].
    pub(crate) view: String,
}

impl LockLocation {
    /// Whether both are in the same state directory.
    pub(crate) fn has_same_state_dir(&self, other: &Self) -> bool {
        self.view == other.view && self.path.parent() == other.path.parent()
    }

    /// Whether this process has the same view of the file system.
    pub(crate) fn is_here(&self) -> bool {
        self.view == here()
    }
}

/// Identifies a view of the file system: the running kernel's boot, and the mount namespace. An
/// engine may be shared by processes that do not see each other's files, on other machines or in
/// containers.
fn here() -> &'static str {
    static HERE: LazyLock<String> = LazyLock::new(|| {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let mounts = fs::metadata("/proc/self/ns/mnt").map_or(0, |namespace| namespace.ino());
        format!("{}.{mounts}", boot.trim())
    });
    &HERE
}

/// Whether an instance is alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Liveness {
    /// Its lock is held, or its state is unknown: objects of a possibly living instance are not
    /// touched.
    Alive,
    /// Its lock is free, or its file is missing where it would be visible.
    Dead,
}

/// An exclusive lock on `<state_dir>/instances/<id>.lock`, held until this is dropped or the
/// process ends in any way.
#[derive(Debug)]
pub(crate) struct InstanceLock {
    id: String,
    location: LockLocation,
    /// The lock is released with it and all its duplicates.
    file: File,
    is_handed_over: AtomicBool,
}

impl InstanceLock {
    /// Creates a new instance in `state_dir` (created if missing, mode 0700) and removes the files
    /// of dead ones.
    pub(crate) fn acquire(state_dir: &Path) -> Result<Self, LockError> {
        let folder = state_dir.join(FOLDER);
        let failed = |operation, path: &Path| {
            let path = path.to_owned();
            move |source| LockError { operation, path, source }
        };
        DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(failed("create", &folder))?;
        // The labels name this path, and other processes have other working directories.
        let folder = folder.canonicalize().map_err(failed("resolve", &folder))?;
        remove_dead_files(&folder);
        let id = format!("{:016x}", rand::random::<u64>());
        let path = folder.join(Self::file_name(&id));
        // Locked under another name first: the file is never visible while its lock is still free.
        let fresh = folder.join(format!("{id}.{FRESH}"));
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&fresh)
            .map_err(failed("create", &fresh))?;
        let published = file
            .try_lock()
            .map_err(|error| failed("lock", &fresh)(error.into()))
            .and_then(|()| file.write_all(head().as_bytes()).map_err(failed("write", &fresh)))
            .and_then(|()| fs::rename(&fresh, &path).map_err(failed("rename", &fresh)));
        if let Err(error) = published {
            let _ = fs::remove_file(&fresh);
            return Err(error);
        }
        tracing::debug!(instance = %id, "instance lock acquired");
        Ok(Self::held(id, path, file))
    }

    fn held(id: String, path: PathBuf, file: File) -> Self {
        let location = LockLocation { path, view: here().to_owned() };
        Self { id, location, file, is_handed_over: AtomicBool::new(false) }
    }

    /// The lock, for a process that removes what this instance left.
    pub(crate) fn hand_over(&self) -> Result<HandedOver, LockError> {
        self.announce_removal()?;
        let path = self.location.path.clone();
        let file = self.file.try_clone().map_err(|source| LockError {
            operation: "duplicate",
            path: path.clone(),
            source,
        })?;
        self.is_handed_over.store(true, Ordering::Relaxed);
        Ok(HandedOver { path, file })
    }

    /// The lock that another process [handed over](Self::hand_over).
    pub(crate) fn take_over(HandedOver { path, file }: HandedOver) -> Result<Self, LockError> {
        let is_same = || {
            let (held, named) = (file.metadata()?, fs::symlink_metadata(&path)?);
            let is_same = (held.dev(), held.ino()) == (named.dev(), named.ino());
            if is_same { Ok(()) } else { Err(io::Error::other("it is not the file that was handed over")) }
        };
        is_same().map_err(|source| LockError { operation: "take over", path: path.clone(), source })?;
        let id = path.file_stem().and_then(OsStr::to_str).unwrap_or_default().to_owned();
        let lock = Self::held(id, path, file);
        lock.announce_removal()?;
        Ok(lock)
    }

    fn announce_removal(&self) -> Result<(), LockError> {
        let text = format!("{}{REMOVAL}\n", head());
        // Readers see only its first four lines.
        self.file.write_all_at(text.as_bytes(), 0).map_err(|source| LockError {
            operation: "write",
            path: self.location.path.clone(),
            source,
        })
    }

    /// The id of this instance: 16 hexadecimal digits.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// The locked file.
    pub(crate) fn location(&self) -> &LockLocation {
        &self.location
    }

    /// The name of the lock file of `instance`.
    pub(crate) fn file_name(instance: &str) -> String {
        format!("{instance}.lock")
    }
}

impl Drop for InstanceLock {
    fn drop(&mut self) {
        // Remove the file first, while the lock is still held. Without the file, the objects that
        // this instance left count as dead.
        if !*self.is_handed_over.get_mut() {
            let _ = fs::remove_file(&self.location.path);
        }
    }
}

/// Whether the instance that holds `lock` is alive.
pub(crate) fn liveness(lock: &LockLocation) -> Liveness {
    match open(&lock.path) {
        Ok(file) => match file.try_lock() {
            Ok(()) => Liveness::Dead,
            Err(TryLockError::WouldBlock) => Liveness::Alive,
            Err(TryLockError::Error(error)) => unknown(&lock.path, &error),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound && lock.is_here() => Liveness::Dead,
        Err(error) => unknown(&lock.path, &error),
    }
}

/// The locked files of the instances whose process only removes what they left.
pub(crate) fn removals(state_dir: &Path) -> Vec<File> {
    let Ok(entries) = fs::read_dir(state_dir.join(FOLDER)) else { return Vec::new() };
    let files = entries.filter_map(|entry| open(&entry.ok()?.path()).ok());
    files
        .filter_map(|mut file| {
            let text = read_marked(&mut file)?;
            let is_removal = text.lines().skip(2).take(2).any(|line| line == REMOVAL);
            (is_removal && matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))).then_some(file)
        })
        .collect()
}

/// The process that holds `lock`, as recorded in the file.
pub(crate) fn pid(lock: &Path) -> Option<u32> {
    let text = read_marked(&mut open(lock).ok()?)?;
    text.lines().nth(1)?.strip_prefix("pid ")?.parse().ok()
}

/// Removes the lock file of a dead instance. A path from a label could name any file: a file that
/// is locked, or that no instance wrote, is kept.
pub(crate) fn remove_dead_file(lock: &Path) -> bool {
    let Ok(mut file) = open(lock) else { return false };
    file.try_lock().is_ok() && read_marked(&mut file).is_some() && fs::remove_file(lock).is_ok()
}

fn remove_dead_files(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
        match path.extension().and_then(OsStr::to_str) {
            // Without its file, an instance with another view would count as alive for ever.
            Some("lock") if is_seen_here(&path) || is_older(&path, ELSEWHERE) => {
                let _ = remove_dead_file(&path);
            }
            Some(FRESH) => remove_unborn_file(&path),
            _ => {}
        }
    }
}

/// Whether the process of `lock` has, or had, this process's view of the file system.
fn is_seen_here(lock: &Path) -> bool {
    let text = open(lock).ok().and_then(|mut file| read_marked(&mut file));
    text.is_some_and(|text| text.lines().nth(2) == Some(&view_line()))
}

fn is_older(lock: &Path, age: Duration) -> bool {
    let since = open(lock).and_then(|file| file.metadata()?.modified());
    since.is_ok_and(|since| since.elapsed().is_ok_and(|elapsed| elapsed > age))
}

/// Removes the file of an instance that died before it had its lock: it may be empty, so only its
/// age shows that it is not in use.
fn remove_unborn_file(fresh: &Path) {
    let Ok(file) = open(fresh) else { return };
    if is_older(fresh, BIRTH) && file.try_lock().is_ok() {
        let _ = fs::remove_file(fresh);
    }
}

/// Follows no symbolic link, and does not wait for the other end of a pipe.
fn open(lock: &Path) -> io::Result<File> {
    let flags = (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(lock)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("not a regular file")) }
}

/// The first three lines of the file of this process.
fn head() -> String {
    format!("{MARK}\npid {}\n{}\n", std::process::id(), view_line())
}

fn view_line() -> String {
    format!("view {}", here())
}

fn read_marked(file: &mut File) -> Option<String> {
    let mut text = String::new();
    file.take(256).read_to_string(&mut text).ok()?;
    (text.lines().next() == Some(MARK)).then_some(text)
}

fn unknown(lock: &Path, error: &io::Error) -> Liveness {
    tracing::warn!(lock = %lock.display(), %error, "failed to determine whether an instance is alive; its objects are kept");
    Liveness::Alive
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn seen_here(path: &Path) -> LockLocation {
        LockLocation { path: path.to_owned(), view: here().to_owned() }
    }

    #[test]
    fn lock_is_alive_until_it_is_dropped() {
        let state = tempfile::tempdir().unwrap();
        let lock = InstanceLock::acquire(&state.path().join("state")).unwrap();
        let location = lock.location().clone();
        let path = location.path.clone();
        assert_eq!(liveness(&location), Liveness::Alive);
        assert_eq!(pid(&path), Some(std::process::id()));
        assert!(!remove_dead_file(&path));
        let mode = fs::metadata(path.parent().unwrap().parent().unwrap()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        drop(lock);
        assert_eq!(liveness(&location), Liveness::Dead);
        assert!(!path.exists());
    }

    #[test]
    fn lock_that_was_handed_over_is_alive_until_the_removal_ends() {
        let state = tempfile::tempdir().unwrap();
        let lock = InstanceLock::acquire(state.path()).unwrap();
        let location = lock.location().clone();
        let handed_over = lock.hand_over().unwrap();
        drop(lock);
        assert_eq!(liveness(&location), Liveness::Alive);
        let removal = InstanceLock::take_over(handed_over).unwrap();
        assert_eq!(removal.id(), location.path.file_stem().unwrap());
        assert_eq!(pid(&location.path), Some(std::process::id()));
        let [held] = <[File; 1]>::try_from(removals(state.path())).unwrap();
        assert_eq!(liveness(&location), Liveness::Alive);
        assert!(held.try_lock_shared().is_err());
        drop(removal);
        held.lock_shared().unwrap();
        assert!(!location.path.exists());

        // Only the lock itself is taken over, and removed.
        let (other, file) = (state.path().join("other"), File::open("/dev/null").unwrap());
        fs::write(&other, "precious").unwrap();
        assert!(InstanceLock::take_over(HandedOver { path: other.clone(), file }).is_err());
        assert!(other.exists());

        // The process of the removal was killed: the next start removes the rest.
        let lock = InstanceLock::acquire(state.path()).unwrap();
        let location = lock.location().clone();
        drop(lock.hand_over().unwrap());
        drop(lock);
        assert_eq!(liveness(&location), Liveness::Dead);
        assert!(location.path.exists());
        let _runs = InstanceLock::acquire(state.path()).unwrap();
        assert!(removals(state.path()).is_empty(), "one died, and the other one runs");
    }

    #[test]
    fn lock_of_a_killed_instance_is_dead_and_removed_by_the_next_start() {
        let state = tempfile::tempdir().unwrap();
        let folder = state.path().join(FOLDER);
        fs::create_dir(&folder).unwrap();
        let left = folder.join("00.lock");
        fs::write(&left, head()).unwrap();
        assert_eq!(liveness(&seen_here(&left)), Liveness::Dead);
        let lock = InstanceLock::acquire(state.path()).unwrap();
        assert!(!left.exists() && lock.location().path.exists());
    }

    #[test]
    fn lock_of_an_earlier_boot_stays_until_its_objects_are_removed_or_it_is_old() {
        let state = tempfile::tempdir().unwrap();
        let folder = state.path().join(FOLDER);
        fs::create_dir(&folder).unwrap();
        let [recent, old] = ["0a.lock", "0b.lock"].map(|name| {
            let path = folder.join(name);
            fs::write(&path, "sandbox instance\npid 1\nview another boot.4026531840\n").unwrap();
            path
        });
        let long_ago = std::time::SystemTime::now() - 2 * ELSEWHERE;
        OpenOptions::new().write(true).open(&old).unwrap().set_modified(long_ago).unwrap();
        let _lock = InstanceLock::acquire(state.path()).unwrap();
        assert!(recent.exists() && !old.exists());
        let location = LockLocation { path: recent.clone(), view: "another boot.4026531840".to_owned() };
        assert_eq!(liveness(&location), Liveness::Dead);
        assert!(remove_dead_file(&recent));
        assert_eq!(liveness(&location), Liveness::Alive, "without the file, it is not known");
    }

    #[test]
    fn file_of_an_instance_that_died_before_its_lock_is_removed_when_old() {
        let state = tempfile::tempdir().unwrap();
        let folder = state.path().join(FOLDER);
        fs::create_dir(&folder).unwrap();
        let [old, held, young] = ["0a.new", "0b.new", "0c.new"].map(|name| {
            let path = folder.join(name);
            let file = File::create(&path).unwrap();
            (path, file)
        });
        for (_, file) in [&old, &held] {
            let long_ago = std::time::SystemTime::now() - 2 * BIRTH;
            file.set_modified(long_ago).unwrap();
        }
        held.1.try_lock().unwrap();
        drop(InstanceLock::acquire(state.path()).unwrap());
        assert_eq!([&old, &held, &young].map(|(path, _)| path.exists()), [false, true, true]);
    }

    #[test]
    fn instance_of_unknown_state_counts_as_alive() {
        let state = tempfile::tempdir().unwrap();
        let folder = state.path().join("folder.lock");
        fs::create_dir(&folder).unwrap();
        let link = state.path().join("link.lock");
        fs::write(state.path().join("target"), "").unwrap();
        symlink(state.path().join("target"), &link).unwrap();
        assert_eq!(liveness(&seen_here(&folder)), Liveness::Alive);
        assert_eq!(liveness(&seen_here(&link)), Liveness::Alive);
        let missing = seen_here(&state.path().join("missing.lock"));
        assert_eq!(liveness(&missing), Liveness::Dead);
        let elsewhere = LockLocation { view: "another kernel.4026531840".to_owned(), ..missing };
        assert_eq!(liveness(&elsewhere), Liveness::Alive);
    }

    #[test]
    fn file_of_no_instance_is_never_removed() {
        let state = tempfile::tempdir().unwrap();
        let other = state.path().join("00.lock");
        fs::write(&other, "precious").unwrap();
        assert!(!remove_dead_file(&other));
        assert!(other.exists());
    }
}

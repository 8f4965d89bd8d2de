//! The folders of a project's runs, one each, with what it did on the network.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use sandbox_files::{FileLock, create_folder};
use time::OffsetDateTime;

use crate::failure::Failure;

/// Runs that are kept for each project.
const KEPT: usize = 50;
/// What a run wrote that others attach to: frames, once it has ended.
pub(crate) const OUTPUT: &str = "output";
/// Locked as long as the run lives.
const LOCK: &str = "running";

/// The folder of a run that is going on.
#[derive(Debug)]
pub(crate) struct RunFolder {
    path: PathBuf,
    _lock: FileLock,
}

impl RunFolder {
    /// Makes one in `logs` for a run of `instance`, and removes those that are too old.
    pub(crate) fn create(logs: &Path, instance: &str) -> Result<Self, Failure> {
        let doing = |path: &Path| Failure::doing(format!("make the folder `{}`", path.display()));
        create_folder(logs, 0o700).map_err(doing(logs))?;
        remove_old(logs, KEPT - 1);
        let path = logs.join(id(OffsetDateTime::now_utc(), instance));
        DirBuilder::new().mode(0o700).create(&path).map_err(doing(&path))?;
        let lock = FileLock::exclusive_blocking(&path.join(LOCK)).map_err(doing(&path))?;
        Ok(Self { path, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it if the run never came to a network log.
    pub(crate) fn close(self) {
        let _ = fs::remove_file(self.path.join(LOCK));
        // Succeeds only for a folder that is empty.
        let _ = fs::remove_dir(&self.path);
    }
}

/// The ids of all runs in `logs`, oldest first.
pub(crate) fn ids(logs: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(logs) else {
        return Vec::new();
    };
    let folders =
        entries.filter_map(Result::ok).filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut ids: Vec<String> = folders.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    ids.sort_unstable();
    ids
}

/// The folder of the run that `id` is the beginning of, else of the newest.
pub(crate) fn find(logs: &Path, id: Option<&str>) -> Result<PathBuf, Failure> {
    let ids = ids(logs);
    let Some(id) = id else {
        let newest = ids.last().map(|id| logs.join(id));
        let none = || {
            Failure::new("this project has no run yet")
                .with_hint("`sandbox run -- CMD` makes one, in this folder")
        };
        return newest.ok_or_else(none);
    };
    let failure = match named(&ids, id).as_slice() {
        [known] => return Ok(logs.join(known)),
        [] => Failure::new(format!("this project has no run `{id}`")),
        _ => Failure::usage(format!("`{id}` is the beginning of several runs' ids")),
    };
    Err(failure.with_hint("`sandbox logs --list` names those that are kept"))
}

/// Those of `ids` that `named` is the beginning of, or the beginning of their instance.
pub(crate) fn named<'a>(ids: &'a [String], named: &str) -> Vec<&'a String> {
    let of_instance = |id: &str| id.split_once('-').is_some_and(|(_, instance)| instance.starts_with(named));
    ids.iter().filter(|id| !named.is_empty() && (id.starts_with(named) || of_instance(id))).collect()
}

/// Whether the run with this folder is going on.
pub(crate) fn is_running(folder: &Path) -> bool {
    let lock = File::open(folder.join(LOCK));
    lock.is_ok_and(|file| matches!(file.try_lock_shared(), Err(fs::TryLockError::WouldBlock)))
}

/// Waits until the run with this folder has ended. Blocks.
pub(crate) fn wait_for_end(folder: &Path) {
    if let Ok(file) = File::open(folder.join(LOCK)) {
        let _ = file.lock_shared();
    }
}

fn remove_old(logs: &Path, kept: usize) {
    let ids = ids(logs);
    let old = ids.len().saturating_sub(kept);
    for id in ids.iter().take(old) {
        let folder = logs.join(id);
        if !is_running(&folder) {
            let _ = fs::remove_dir_all(folder);
        }
    }
}

/// In the order of time; the instance, by which a run is known elsewhere, distinguishes runs of one
/// microsecond.
fn id(now: OffsetDateTime, instance: &str) -> String {
    format!(
        "{:04}{:02}{:02}T{:02}{:02}{:02}.{:06}-{instance}",
        now.year(),
        u8::from(now.month()),
        now.day(),
        now.hour(),
        now.minute(),
        now.second(),
        now.microsecond()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_in_the_order_of_time() {
        let at = |seconds| OffsetDateTime::from_unix_timestamp(seconds).unwrap();
        assert_eq!(id(at(1_770_122_096), "a7"), "20260203T123456.000000-a7");
        assert!(id(at(1_770_122_096), "9") < id(at(1_770_122_097), "10"));
    }

    #[test]
    fn a_run_is_running_until_it_ends_and_leaves_nothing_without_a_log() {
        let logs = tempfile::tempdir().unwrap();
        let run = RunFolder::create(logs.path(), "a").unwrap();
        let path = run.path().to_owned();
        assert!(is_running(&path));
        fs::write(path.join("network-sandbox.log"), "").unwrap();
        run.close();
        assert!(path.exists() && !is_running(&path));

        let run = RunFolder::create(logs.path(), "a").unwrap();
        let path = run.path().to_owned();
        run.close();
        assert!(!path.exists());
    }

    #[test]
    fn the_oldest_go_but_never_one_that_is_running() {
        let logs = tempfile::tempdir().unwrap();
        let running = RunFolder::create(logs.path(), "a").unwrap();
        for number in 0..5 {
            fs::create_dir(logs.path().join(format!("9{number}"))).unwrap();
        }
        remove_old(logs.path(), 2);
        let left = ids(logs.path());
        assert_eq!(left.len(), 3, "{left:?}");
        assert!(running.path().exists());
        assert_eq!(left[1..], ["93", "94"]);
    }

    #[test]
    fn runs_are_named_by_their_folders_only() {
        let logs = tempfile::tempdir().unwrap();
        assert!(find(logs.path(), None).unwrap_err().hint().is_some());
        for id in ["1", "2"] {
            fs::create_dir(logs.path().join(id)).unwrap();
        }
        assert_eq!(find(logs.path(), None).unwrap(), logs.path().join("2"));
        assert_eq!(find(logs.path(), Some("1")).unwrap(), logs.path().join("1"));
        for id in ["3", "..", ".", ""] {
            assert!(find(logs.path(), Some(id)).is_err(), "{id:?}");
        }
    }
}

//! The folder of each run: its network log, its record, and its output.

use std::borrow::Cow;
use std::fs::{self, DirBuilder, File};
use std::ops::Range;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use sandbox_files::{FileLock, create_folder};
use time::{Date, Month, OffsetDateTime};

use crate::failure::Failure;

/// The number of runs kept for each project.
pub(crate) const KEPT: usize = 50;
/// Bytes of output kept of all ended runs of a project.
const MOST_OUTPUT: u64 = 8 << 30;
/// The output of a run that clients can attach to, as frames.
pub(crate) const OUTPUT: &str = "output";
/// Locked while the run is active.
const LOCK: &str = "running";

/// The folder of an active run.
#[derive(Debug)]
pub(crate) struct RunFolder {
    path: PathBuf,
    _lock: FileLock,
}

impl RunFolder {
    /// Creates a folder in `logs` for a run of `instance`, and removes those that are too old.
    pub(crate) fn create(logs: &Path, instance: &str) -> Result<Self, Failure> {
        let doing = |path: &Path| Failure::doing(format!("create the folder `{}`", path.display()));
        create_folder(logs, 0o700).map_err(doing(logs))?;
        remove_old(logs, KEPT - 1);
        bound_output(logs, MOST_OUTPUT);
        let path = logs.join(id(OffsetDateTime::now_utc(), instance));
        DirBuilder::new().mode(0o700).create(&path).map_err(doing(&path))?;
        let lock = FileLock::exclusive_blocking(&path.join(LOCK)).map_err(doing(&path))?;
        Ok(Self { path, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it if the run has no network log.
    pub(crate) fn close(self) {
        let _ = fs::remove_file(self.path.join(LOCK));
        // Succeeds only if the folder is empty.
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

/// The folders of the runs of all projects, oldest first.
pub(crate) fn of_all_projects(all_logs: &Path) -> Vec<PathBuf> {
    let projects = ids(all_logs);
    let mut folders: Vec<PathBuf> =
        projects.iter().flat_map(|project| folders(&all_logs.join(project))).collect();
    folders.sort_unstable_by(|one, other| one.file_name().cmp(&other.file_name()));
    folders
}

/// The folders of one project's runs, oldest first.
pub(crate) fn folders(logs: &Path) -> Vec<PathBuf> {
    ids(logs).into_iter().map(|id| logs.join(id)).collect()
}

/// The folder of the run of any project whose id begins with `named`.
pub(crate) fn find_in_all(all_logs: &Path, named: &str) -> Result<PathBuf, Failure> {
    one(of_all_projects(all_logs), named, "")
}

/// The folder of the run of this project whose id begins with `id`, otherwise of its newest.
pub(crate) fn find(logs: &Path, id: Option<&str>) -> Result<PathBuf, Failure> {
    let mut folders = folders(logs);
    match id {
        Some(id) => one(folders, id, " of this project"),
        None => folders.pop().ok_or_else(|| {
            Failure::new("no runs of this project")
                .with_hint("`sandbox run -- CMD` starts one in this folder")
        }),
    }
}

/// The folders of the runs of this project whose ids begin with `named`, each once; of its newest if
/// none is named.
pub(crate) fn find_each(logs: &Path, named: &[String]) -> Result<Vec<PathBuf>, Failure> {
    if named.is_empty() {
        return Ok(vec![find(logs, None)?]);
    }
    let mut found = Vec::new();
    for id in named {
        let folder = find(logs, Some(id))?;
        if !found.contains(&folder) {
            found.push(folder);
        }
    }
    Ok(found)
}

/// `of_project` is empty, or states that only runs of the project count.
fn one(mut folders: Vec<PathBuf>, named: &str, of_project: &str) -> Result<PathBuf, Failure> {
    folders.retain(|folder| is_named(&id_of(folder), named));
    let failure = match (folders.pop(), folders.is_empty()) {
        (Some(folder), true) => return Ok(folder),
        (None, _) => Failure::new(format!("unknown run `{named}`{of_project}")),
        (Some(_), false) => Failure::usage(format!("`{named}` is a prefix of several run ids")),
    };
    Err(failure.with_hint(format!("`sandbox ps --all` lists all runs; name one{of_project}")))
}

/// The id of the run in `folder`.
pub(crate) fn id_of(folder: &Path) -> Cow<'_, str> {
    folder.file_name().unwrap_or_default().to_string_lossy()
}

/// The instance in a run's id, which identifies an active run.
pub(crate) fn instance(id: &str) -> &str {
    id.split_once('-').map_or(id, |(_, instance)| instance)
}

/// Whether this id, or its instance, begins with `named`.
fn is_named(id: &str, named: &str) -> bool {
    !named.is_empty() && (id.starts_with(named) || instance(id).starts_with(named))
}

/// The start time in a run's id.
pub(crate) fn began(id: &str) -> Option<OffsetDateTime> {
    let (time, _) = id.split_once('-')?;
    let number = |range: Range<usize>| time.get(range)?.parse::<u32>().ok();
    let byte = |range| u8::try_from(number(range)?).ok();
    let month = Month::try_from(byte(4..6)?).ok()?;
    let date = Date::from_calendar_date(i32::try_from(number(0..4)?).ok()?, month, byte(6..8)?).ok()?;
    let time = date.with_hms_micro(byte(9..11)?, byte(11..13)?, byte(13..15)?, number(16..22)?).ok()?;
    Some(time.assume_utc())
}

/// Whether the run with this folder is active.
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

/// Removes the output of the oldest runs that have ended, until that of all is at most `most` bytes.
fn bound_output(logs: &Path, most: u64) {
    let mut all = 0;
    for folder in folders(logs).into_iter().rev().filter(|folder| !is_running(folder)) {
        // Its reader expects the older file to be gone first.
        let files = [format!("{OUTPUT}.older"), OUTPUT.to_owned()].map(|name| folder.join(name));
        all += files.iter().filter_map(|file| Some(file.metadata().ok()?.len())).sum::<u64>();
        if all > most {
            for file in files {
                let _ = fs::remove_file(file);
            }
        }
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

/// Sorts by time; the instance, which identifies a run elsewhere, distinguishes runs of the same
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
    fn ids_sort_by_time() {
        let at = |seconds| OffsetDateTime::from_unix_timestamp(seconds).unwrap();
        assert_eq!(id(at(1_770_122_096), "a7"), "20260203T123456.000000-a7");
        assert_eq!(began("20260203T123456.000000-a7"), Some(at(1_770_122_096)));
        for hostile in
            ["", "-", "20261303T123456.000000-a7", "20260203T993456.000000-a", "2026é203T123456.000000-a"]
        {
            assert_eq!(began(hostile), None, "{hostile:?}");
        }
        assert!(id(at(1_770_122_096), "9") < id(at(1_770_122_097), "10"));
    }

    #[test]
    fn run_is_active_until_its_end_and_an_empty_folder_is_removed() {
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
    fn oldest_runs_are_removed_unless_active() {
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
    fn output_of_the_oldest_runs_is_removed_unless_active() {
        let logs = tempfile::tempdir().unwrap();
        let running = RunFolder::create(logs.path(), "a").unwrap();
        let write = |folder: &Path, name: &str| fs::write(folder.join(name), "12345").unwrap();
        write(running.path(), OUTPUT);
        for number in 0..4 {
            let folder = logs.path().join(format!("9{number}"));
            fs::create_dir(&folder).unwrap();
            write(&folder, OUTPUT);
            write(&folder, "output.older");
        }
        bound_output(logs.path(), 20);
        let sizes = folders(logs.path()).into_iter().map(|folder| fs::read_dir(folder).unwrap().count());
        assert_eq!(sizes.collect::<Vec<_>>(), [2, 0, 0, 2, 2], "the first is locked");
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
        let each = |named: &[&str]| {
            let found = find_each(logs.path(), &named.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>());
            found.map(|folders| folders.iter().map(|folder| id_of(folder).into_owned()).collect::<Vec<_>>())
        };
        assert_eq!(each(&[]).unwrap(), ["2"]);
        assert_eq!(each(&["2", "1", "2"]).unwrap(), ["2", "1"]);
        assert!(each(&["1", "3"]).is_err());
    }
    #[test]
    fn a_run_of_any_project_is_found_by_the_beginning_of_its_id_or_instance() {
        let logs = tempfile::tempdir().unwrap();
        for (project, id) in [("b", "1-aa01"), ("a", "3-aa02"), ("a", "2-bb")] {
            fs::create_dir_all(logs.path().join(project).join(id)).unwrap();
        }
        let all = of_all_projects(logs.path());
        assert_eq!(all.iter().map(|folder| id_of(folder)).collect::<Vec<_>>(), ["1-aa01", "2-bb", "3-aa02"]);
        assert_eq!(find_in_all(logs.path(), "aa02").unwrap(), logs.path().join("a/3-aa02"));
        assert_eq!(find_in_all(logs.path(), "1-").unwrap(), logs.path().join("b/1-aa01"));
        for (named, code) in [("aa", 2), ("", 125), ("..", 125), ("c", 125)] {
            let failure = find_in_all(logs.path(), named).unwrap_err();
            assert_eq!(failure.status().code(), code, "{named:?}");
            assert!(failure.hint().is_some());
        }
        assert!(of_all_projects(&logs.path().join("missing")).is_empty());
    }
}

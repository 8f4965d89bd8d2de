//! The trust record of a project: the last trusted version of each file, with its rights.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sandbox_files::{FileLock, Replacement, create_folder};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::{Input, Place, Rights};

/// The record, in the folder of a project.
const RECORD: &str = "record.json";
/// Locked while the record is changed.
const LOCK: &str = "lock";
const VERSION: u32 = 1;
/// The number of former versions whose times are kept.
const MOST_FORMER: usize = 256;

/// A folder of the state directory, one for each project.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    folder: PathBuf,
    project: String,
}

/// The trusted files of a project. An unreadable record trusts nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    version: u32,
    /// The work tree.
    pub(crate) project: String,
    trusted: Vec<Trusted>,
    former: Vec<Former>,
}

/// A trusted version of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Trusted {
    role: String,
    pub(crate) path: String,
    digest: String,
    /// When the user agreed, in RFC 3339.
    pub(crate) at: String,
    pub(crate) rights: BTreeSet<String>,
}

/// A version that is no longer trusted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Former {
    digest: String,
    at: String,
}

impl Store {
    /// The store in `folder` for the project in `root`.
    pub(crate) fn new(folder: PathBuf, root: &Path) -> Self {
        Self { folder, project: root.display().to_string() }
    }

    /// The current record.
    pub(crate) fn record(&self) -> Record {
        Record::read(&self.folder)
    }

    /// Trusts the files `trusted`, replacing earlier versions at the same places, and removes the
    /// trust at the places `gone`.
    pub(crate) fn trust<'a>(
        &self,
        trusted: impl IntoIterator<Item = (&'a Input, &'a Rights)>,
        gone: &[Place],
    ) -> io::Result<()> {
        create_folder(&self.folder, 0o700)?;
        let _lock = FileLock::exclusive_blocking(&self.folder.join(LOCK))?;
        let mut record = Record { version: VERSION, project: self.project.clone(), ..self.record() };
        for place in gone {
            record.forget(place);
        }
        let at = now();
        for (input, rights) in trusted {
            record.forget(&input.place());
            let digest = input.digest.to_string();
            record.former.retain(|former| former.digest != digest);
            record.trusted.push(Trusted {
                role: input.role.as_str().to_owned(),
                path: shown(&input.path),
                digest,
                at: at.clone(),
                rights: rights.lines().clone(),
            });
        }
        let surplus = record.former.len().saturating_sub(MOST_FORMER);
        record.former.drain(..surplus);
        Replacement::shared(0o600).write(&self.folder.join(RECORD), &serde_json::to_vec(&record)?)
    }

    /// Removes all trust in the project, and its history. Returns whether anything was trusted.
    pub(crate) fn revoke(&self) -> io::Result<bool> {
        match fs::remove_dir_all(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            removed => removed.map(|()| true),
        }
    }
}

impl Record {
    /// The records of all projects below `folder` that have trusted files.
    pub(crate) fn all(folder: &Path) -> io::Result<Vec<Self>> {
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let folders = entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>()?;
        let records = folders.iter().map(|folder| Self::read(folder));
        let mut records: Vec<Self> = records.filter(|record| !record.trusted.is_empty()).collect();
        records.sort_unstable_by(|one, other| one.project.cmp(&other.project));
        Ok(records)
    }

    fn read(folder: &Path) -> Self {
        let bytes = fs::read(folder.join(RECORD)).ok();
        let record = bytes.and_then(|bytes| serde_json::from_slice::<Self>(&bytes).ok());
        record.filter(|record| record.version == VERSION).unwrap_or_default()
    }

    /// The files that are trusted.
    pub(crate) fn trusted(&self) -> &[Trusted] {
        &self.trusted
    }

    /// Whether the user last trusted exactly these bytes at this place, and agreed to all of
    /// `rights`. Another version of this program, or changed limits of the user, may derive more
    /// rights.
    pub(crate) fn trusts(&self, input: &Input, rights: &Rights) -> bool {
        let digest = input.digest.to_string();
        self.trusted.iter().any(|trusted| trusted.digest == digest && rights.are_among(&trusted.rights))
    }

    /// The trusted version at a place.
    pub(crate) fn at(&self, place: &Place) -> Option<&Trusted> {
        self.trusted.iter().find(|trusted| trusted.is_at(place))
    }

    /// The places of a role that have a trusted file.
    pub(crate) fn places(&self, role: super::Role) -> impl Iterator<Item = Place> {
        let of_role = self.trusted.iter().filter(move |trusted| trusted.role == role.as_str());
        of_role.map(move |trusted| Place { role, path: PathBuf::from(&trusted.path) })
    }

    /// When these bytes were trusted, if others were trusted after them.
    pub(crate) fn formerly(&self, input: &Input) -> Option<&str> {
        let digest = input.digest.to_string();
        self.former.iter().rev().find(|former| former.digest == digest).map(|former| former.at.as_str())
    }

    /// Removes the trusted version at `place`; only its time is kept.
    fn forget(&mut self, place: &Place) {
        let (gone, kept) =
            std::mem::take(&mut self.trusted).into_iter().partition(|one: &Trusted| one.is_at(place));
        self.trusted = kept;
        let gone: Vec<Trusted> = gone;
        self.former.extend(gone.into_iter().map(|Trusted { digest, at, .. }| Former { digest, at }));
    }
}

impl Trusted {
    fn is_at(&self, place: &Place) -> bool {
        self.role == place.role.as_str() && self.path == shown(&place.path)
    }
}

/// Two paths that are not UTF-8 may look the same; then trusting one removes the other.
fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// The current time, in seconds.
fn now() -> String {
    let now = OffsetDateTime::now_utc();
    now.replace_nanosecond(0).unwrap_or(now).format(&Rfc3339).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::Role;
    use super::*;

    const PATH: &str = "/srv/app/policy.yaml";

    fn store(state: &tempfile::TempDir) -> Store {
        Store::new(state.path().join("trust/app"), Path::new("/srv/app"))
    }

    fn input(text: &str) -> Input {
        Input::new(Role::Allowlist, Path::new(PATH), text.as_bytes())
    }

    fn is_trusted(record: &Record, input: &Input) -> bool {
        record.trusts(input, &Rights::default())
    }

    fn rights(line: &str) -> Rights {
        let mut rights = Rights::default();
        rights.ask(line);
        rights
    }

    #[test]
    fn recorded_file_is_trusted_until_revoked_or_changed() {
        let state = tempfile::tempdir().unwrap();
        let store = store(&state);
        let place = input("").place();
        assert!(!is_trusted(&store.record(), &input("1")) && !store.revoke().unwrap());
        store.trust([(&input("1"), &rights("a"))], &[]).unwrap();
        store.trust([(&input("1"), &rights("a"))], &[]).unwrap();
        let record = store.record();
        assert!(is_trusted(&record, &input("1")) && !is_trusted(&record, &input("2")));
        assert_eq!(record.at(&place).unwrap().rights, BTreeSet::from(["a".to_owned()]));
        assert_eq!(Record::all(&state.path().join("trust")).unwrap(), [record]);
        assert!(store.revoke().unwrap());
        assert_eq!(store.record(), Record::default());
    }

    #[test]
    fn only_the_newest_version_of_a_file_is_trusted() {
        let state = tempfile::tempdir().unwrap();
        let store = store(&state);
        let other = Input::new(Role::Configuration, Path::new(PATH), b"1");
        store.trust([(&input("1"), &rights("a")), (&other, &rights("b"))], &[]).unwrap();
        store.trust([(&input("2"), &rights("a"))], &[]).unwrap();
        let record = store.record();
        assert!(is_trusted(&record, &input("2")) && is_trusted(&record, &other));
        assert!(!is_trusted(&record, &input("1")));
        assert!(record.formerly(&input("1")).unwrap().ends_with('Z'));
        assert_eq!(record.formerly(&input("2")), None);
        // Going back to it needs consent again.
        store.trust([(&input("1"), &rights("a"))], &[other.place()]).unwrap();
        let record = store.record();
        assert!(is_trusted(&record, &input("1")) && !is_trusted(&record, &input("2")));
        assert_eq!(record.formerly(&input("1")), None);
        assert!(!is_trusted(&record, &other) && record.formerly(&other).is_some());
    }

    #[test]
    fn former_versions_are_bounded_to_the_latest() {
        let state = tempfile::tempdir().unwrap();
        let store = store(&state);
        for version in 0..MOST_FORMER + 2 {
            store.trust([(&input(&version.to_string()), &rights("a"))], &[]).unwrap();
        }
        let record = store.record();
        assert_eq!(record.former.len(), MOST_FORMER);
        assert!(record.formerly(&input("0")).is_none() && record.formerly(&input("1")).is_some());
    }

    #[test]
    fn new_right_of_unchanged_bytes_is_not_trusted() {
        let state = tempfile::tempdir().unwrap();
        let store = store(&state);
        store.trust([(&input("presets: [x]"), &rights("a"))], &[]).unwrap();
        let mut wider = rights("a");
        wider.tell("a limit");
        assert!(store.record().trusts(&input("presets: [x]"), &wider));
        wider.ask("b");
        assert!(!store.record().trusts(&input("presets: [x]"), &wider));
        store.trust([(&input("presets: [x]"), &wider)], &[]).unwrap();
        assert!(store.record().trusts(&input("presets: [x]"), &rights("a")), "one right less");
        assert_eq!(store.record().formerly(&input("presets: [x]")), None);
    }

    #[test]
    fn unreadable_record_trusts_nothing_and_is_replaced() {
        let state = tempfile::tempdir().unwrap();
        let store = store(&state);
        for broken in ["", "{", r#"{"version":2,"project":"","trusted":[],"former":[]}"#] {
            store.trust([(&input("1"), &rights("a"))], &[]).unwrap();
            fs::write(store.folder.join(RECORD), broken).unwrap();
            assert!(!is_trusted(&store.record(), &input("1")), "{broken}");
        }
        store.trust([(&input("1"), &rights("a"))], &[]).unwrap();
        assert!(is_trusted(&store.record(), &input("1")));
    }
}

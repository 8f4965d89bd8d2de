//! The record of what is trusted of a project: of each file the version that was trusted last, with
//! its rights.

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
/// Whoever changes the record holds it.
const LOCK: &str = "lock";
const VERSION: u32 = 1;
/// Of how many versions that are not trusted any more it is known when they were.
const MOST_FORMER: usize = 256;

/// A folder of the state directory, one for each project.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    folder: PathBuf,
    project: String,
}

/// What is trusted of a project. One that cannot be read trusts nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    version: u32,
    /// The work tree.
    pub(crate) project: String,
    trusted: Vec<Trusted>,
    former: Vec<Former>,
}

/// A file as it is trusted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Trusted {
    role: String,
    pub(crate) path: String,
    digest: String,
    /// When the user agreed, as RFC 3339 has it.
    pub(crate) at: String,
    pub(crate) rights: BTreeSet<String>,
}

/// A version that is not trusted any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Former {
    digest: String,
    at: String,
}

impl Store {
    /// In `folder`, for the project in `root`.
    pub(crate) fn new(folder: PathBuf, root: &Path) -> Self {
        Self { folder, project: root.display().to_string() }
    }

    /// What is trusted now.
    pub(crate) fn record(&self) -> Record {
        Record::read(&self.folder)
    }

    /// From now on, `trusted` is trusted as it is, in place of what was at the same places, and
    /// nothing at the places `gone`.
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

    /// Nothing of the project is trusted any more, nor known to have been. Returns whether anything
    /// was.
    pub(crate) fn revoke(&self) -> io::Result<bool> {
        match fs::remove_dir_all(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            removed => removed.map(|()| true),
        }
    }
}

impl Record {
    /// Those of all projects, by the folder that theirs are in; only of those of which something is
    /// trusted.
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

    /// Whether the user trusted these very bytes at this place, and no others there since; and knew
    /// of all `rights`, which another version of this program, or another limit of the user's own,
    /// may have made more.
    pub(crate) fn trusts(&self, input: &Input, rights: &Rights) -> bool {
        let digest = input.digest.to_string();
        self.trusted.iter().any(|trusted| trusted.digest == digest && rights.are_among(&trusted.rights))
    }

    /// What is trusted at a place.
    pub(crate) fn at(&self, place: &Place) -> Option<&Trusted> {
        self.trusted.iter().find(|trusted| trusted.is_at(place))
    }

    /// The places of a role where something is trusted.
    pub(crate) fn places(&self, role: super::Role) -> impl Iterator<Item = Place> {
        let of_role = self.trusted.iter().filter(move |trusted| trusted.role == role.as_str());
        of_role.map(move |trusted| Place { role, path: PathBuf::from(&trusted.path) })
    }

    /// When these very bytes were trusted, if others are by now.
    pub(crate) fn formerly(&self, input: &Input) -> Option<&str> {
        let digest = input.digest.to_string();
        self.former.iter().rev().find(|former| former.digest == digest).map(|former| former.at.as_str())
    }

    /// Of what is trusted at `place` remains only when it was.
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

/// Two paths that are not UTF-8 may look the same: then one is forgotten when the other is trusted.
fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// To the second.
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
    fn what_was_recorded_is_trusted_until_it_is_revoked_or_changes() {
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
        // Going back to it is agreeing again.
        store.trust([(&input("1"), &rights("a"))], &[other.place()]).unwrap();
        let record = store.record();
        assert!(is_trusted(&record, &input("1")) && !is_trusted(&record, &input("2")));
        assert_eq!(record.formerly(&input("1")), None);
        assert!(!is_trusted(&record, &other) && record.formerly(&other).is_some());
    }

    #[test]
    fn former_versions_are_bounded_and_the_last_ones_stay() {
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
    fn a_right_that_the_same_bytes_did_not_give_before_is_not_trusted() {
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
    fn a_record_that_cannot_be_read_trusts_nothing_and_is_replaced() {
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

//! What was submitted: bundles, in a folder that gets their results.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use sandbox::host_path::{Found, Resolver};
use sandbox_bundle::Digest;
use serde::{Deserialize, Serialize};

use crate::config::demand_ours;
use crate::failure::Failure;
use crate::printer::sanitize_name;

/// The only version of the format.
const VERSION: u32 = 1;
/// Bytes of the record, with a million bundles.
const LONGEST: u64 = 512 << 20;

/// Bundles that were submitted together. Those with the numbers 1, 2, … run as the elements of one array.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Submission {
    version: u32,
    /// The end of the jobs' name. Slurm may give their number to others after a crash.
    token: String,
    pub(crate) image_archive: PathBuf,
    pub(crate) image_digest: Digest,
    /// The folders of the submitting host that tasks could write to.
    pub(crate) writable: Vec<PathBuf>,
    /// The folder on each node's own disk.
    pub(crate) local: PathBuf,
    pub(crate) tasks: Vec<SubmittedTask>,
}

/// One bundle.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SubmittedTask {
    pub(crate) bundle: PathBuf,
    pub(crate) digest: Digest,
    /// Whether the user wrote it on the submitting host, or passed --trust.
    pub(crate) is_trusted: bool,
    /// The variables that it takes where it runs.
    pub(crate) takes: BTreeSet<String>,
    /// Those of them without which it does not start.
    pub(crate) requires: BTreeSet<String>,
}

impl Submission {
    /// The record's name in the folder.
    pub(crate) const RECORD: &str = "submission.json";
    /// The folder of results without a final name: those of attempts that found an API busy stay there.
    pub(crate) const ATTEMPTS: &str = "attempts";
    /// The folder of marks of cancelled bundles, each named by the number.
    pub(crate) const CANCELLED: &str = "cancelled";

    /// One without bundles.
    pub(crate) fn new(
        image_archive: PathBuf,
        image_digest: Digest,
        writable: Vec<PathBuf>,
        local: PathBuf,
    ) -> Self {
        let token = format!("{:016x}", rand::random::<u64>());
        Self { version: VERSION, token, image_archive, image_digest, writable, local, tasks: Vec::new() }
    }

    /// The folder of a submission, and its record.
    ///
    /// # Errors
    ///
    /// If somebody else could have written it.
    pub(crate) fn open(folder: &Path, resolver: &Resolver) -> Result<(Found, Self), Failure> {
        let found = resolver.find(folder)?;
        let shown = sanitize_name(&found.path().display().to_string());
        demand_ours(&found)?;
        let record = found.child(OsStr::new(Self::RECORD)).map_err(|error| {
            let is_missing = error.is_not_found();
            let failure = Failure::from(error);
            if is_missing {
                failure.with_hint("name the folder that `sandbox submit` created")
            } else {
                failure
            }
        })?;
        let read = serde_json::from_slice::<Self>(&record.read(LONGEST)?);
        let submission = read.map_err(Failure::doing(format!("read {} of `{shown}`", Self::RECORD)))?;
        if submission.version == VERSION {
            Ok((found, submission))
        } else {
            let version = submission.version;
            Err(Failure::new(format!("`{shown}` has version {version} of the format, not {VERSION}"))
                .with_hint("use the program that submitted it"))
        }
    }

    /// The name of its jobs.
    pub(crate) fn job_name(&self) -> String {
        format!("sandbox-{}", self.token)
    }

    /// Its bundles by their numbers.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (u32, &SubmittedTask)> {
        (1..).zip(&self.tasks)
    }
}

impl SubmittedTask {
    /// The bundle's name, to be shown.
    pub(crate) fn name(&self) -> String {
        sanitize_name(&self.bundle.file_name().unwrap_or_default().display().to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn submission_that_somebody_else_could_have_written_is_refused() {
        let top = tempfile::tempdir().unwrap();
        let resolver = Resolver::new([""; 0]);
        let folder = top.path().join("results");
        fs::create_dir(&folder).unwrap();
        let open = || Submission::open(&folder, &resolver).map(|(_, submission)| submission.tasks.len());
        assert!(open().unwrap_err().hint().is_some_and(|hint| hint.contains("sandbox submit")));
        let task = SubmittedTask {
            bundle: "/a.bundle".into(),
            digest: Digest::of(b"a"),
            is_trusted: true,
            takes: BTreeSet::new(),
            requires: BTreeSet::new(),
        };
        let digest = Digest::of(b"image");
        let mut submission = Submission::new("/images.tar".into(), digest, Vec::new(), "/local".into());
        submission.tasks.push(task);
        let record = folder.join(Submission::RECORD);
        fs::write(&record, serde_json::to_vec(&submission).unwrap()).unwrap();
        assert_eq!(open().unwrap(), 1, "the control");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(open().unwrap_err().to_string().contains("another user could have written"));
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        fs::write(
            &record,
            serde_json::to_string(&submission).unwrap().replace("\"version\":1", "\"version\":2"),
        )
        .unwrap();
        assert!(open().unwrap_err().to_string().contains("version 2"));
    }
}

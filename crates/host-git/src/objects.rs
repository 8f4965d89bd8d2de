//! A task's objects: read into a quarantine as bytes, and exported as one pack that git itself
//! creates.
//!
//! Nothing is used in the form in which the task packed it. First its files are copied to a
//! separate folder of objects, where git determines which of them the host lacks. Git packs those,
//! and another git reads the pack into a second folder: it names each object by its content,
//! refuses everything that `git fsck` refuses, and finds every object that the new tips lead to.
//! Otherwise they are not imported.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use sandbox_files::or_absent;

use crate::Error;
use crate::git::{Git, Input, Objects};
use crate::object_id::{ObjectId, lines};
use crate::repository::HostRepository;

/// Attempts to determine the good tips.
const ATTEMPTS: usize = 40;
/// The maximum number of names to query: for each unknown name, git searches its folders again.
const MOST_ABBREVIATIONS: usize = 5000;
const LOST: &str = "some of its objects are missing";

/// Objects that are imported together or not at all.
pub(crate) type Group = Vec<ObjectId>;

/// The outcome of the sieve.
#[derive(Debug, Default)]
pub(crate) struct Sifted {
    /// The folder with the new pack, if there are new objects.
    pub(crate) folder: Option<PathBuf>,
    /// The reasons why the other objects are not imported.
    pub(crate) bad: BTreeMap<ObjectId, String>,
}

impl Sifted {
    /// Removes the pack of one part: another one replaces it.
    fn drop_folder(&mut self) -> Result<(), Error> {
        self.folder.take().map_or(Ok(()), |folder| drop_all(&folder))
    }
}

/// Separates good tips from bad ones.
pub(crate) struct Sieve<'a> {
    pub(crate) host: &'a HostRepository,
    pub(crate) git: &'a Git<'a>,
    /// Objects that the host's refs name: an object is new if these do not lead to it.
    pub(crate) known: Vec<ObjectId>,
    /// The folder with the task's objects.
    pub(crate) task: PathBuf,
    /// The folder in which new folders are created.
    pub(crate) quarantine: PathBuf,
    attempts: usize,
}

impl<'a> Sieve<'a> {
    pub(crate) fn new(
        host: &'a HostRepository,
        git: &'a Git<'a>,
        known: Vec<ObjectId>,
        quarantine: &Path,
    ) -> Self {
        let (task, quarantine) = (quarantine.join("task"), quarantine.to_owned());
        Self { host, git, known, task, quarantine, attempts: 0 }
    }

    /// Creates one pack from all good `groups`.
    pub(crate) fn sift(&mut self, groups: &[Group]) -> Result<Sifted, Error> {
        let mut sifted = Sifted::default();
        let good = self.good(groups, &mut sifted)?;
        // The last pack contains only a part of them.
        if !sifted.bad.is_empty() && !good.is_empty() {
            sifted.drop_folder()?;
            match self.attempt(&good)? {
                Ok(folder) => sifted.folder = Some(folder),
                Err(why) => {
                    sifted.bad.extend(good.into_iter().flatten().map(|id| (id, why.clone())));
                }
            }
        }
        Ok(sifted)
    }

    fn good(&mut self, groups: &[Group], sifted: &mut Sifted) -> Result<Vec<Group>, Error> {
        if groups.is_empty() {
            return Ok(Vec::new());
        }
        let why = if self.attempts < ATTEMPTS {
            match self.attempt(groups)? {
                Ok(folder) => {
                    sifted.drop_folder()?;
                    sifted.folder = Some(folder);
                    return Ok(groups.to_vec());
                }
                Err(why) => why,
            }
        } else {
            "too many other refs of this task cannot be imported".to_owned()
        };
        if groups.len() == 1 || self.attempts >= ATTEMPTS {
            sifted.bad.extend(groups.iter().flatten().map(|id| (id.clone(), why.clone())));
            return Ok(Vec::new());
        }
        let (first, second) = groups.split_at(groups.len() / 2);
        let mut good = self.good(first, sifted)?;
        good.extend(self.good(second, sifted)?);
        Ok(good)
    }

    /// The folder with a pack of the objects that `groups` lead to, or the reason for a failure.
    fn attempt(&mut self, groups: &[Group]) -> Result<Result<PathBuf, String>, Error> {
        self.attempts += 1;
        let folder = self.quarantine.join(format!("new-{}", self.attempts));
        let tried = self.attempt_in(&folder, groups);
        if !matches!(tried, Ok(Ok(()))) {
            // Each folder can be as large as all of the task's objects.
            let dropped = drop_all(&folder);
            if tried.is_ok() {
                dropped?;
            }
        }
        Ok(tried?.map(|()| folder))
    }

    fn attempt_in(&self, folder: &Path, groups: &[Group]) -> Result<Result<(), String>, Error> {
        make(folder)?;
        let tips: BTreeSet<&ObjectId> = groups.iter().flatten().collect();
        let path = folder.join("new.pack");
        let pack = File::create_new(&path).map_err(Error::files("create", &path))?;
        let wanted = lines("", tips.iter().copied()) + &lines("^", self.known.iter());
        let mut arguments = vec!["pack-objects", "--revs", "--stdout", "-q", "--delta-base-offset"];
        // Objects that the host borrows from another repository remain there: otherwise the next
        // task would see them here.
        arguments.push("--local");
        arguments.extend(self.host.is_partial().then_some("--exclude-promisor-objects"));
        let outside = self.git.with_objects(&self.task, Objects::Host);
        let packed = outside.run("pack objects", &arguments, Input::Bytes(wanted.as_bytes()), Some(pack))?;
        if !packed.is_success {
            return Ok(Err(packed.message()));
        }
        let pack = File::open(&path).map_err(Error::files("open", &path))?;
        let inside = self.git.with_objects(folder, Objects::Host);
        let read = ["index-pack", "--stdin", "--strict", "--fsck-objects"];
        let indexed = inside.run("check objects", &read, Input::File(pack), None)?;
        fs::remove_file(&path).map_err(Error::files("remove", &path))?;
        if !indexed.is_success {
            return Ok(Err(indexed.message()));
        }
        let is_whole = is_connected(&inside, self.host, tips.iter().copied())?;
        Ok(if is_whole { Ok(()) } else { Err(LOST.to_owned()) })
    }
}

/// Whether all objects exist that `tips` lead to and the host's refs do not.
pub(crate) fn is_connected<'a>(
    git: &Git<'_>,
    host: &HostRepository,
    tips: impl Iterator<Item = &'a ObjectId>,
) -> Result<bool, Error> {
    let wanted = lines("", tips);
    if wanted.is_empty() {
        return Ok(true);
    }
    let mut arguments = vec!["rev-list", "--objects", "--stdin", "--quiet"];
    arguments.extend(host.is_partial().then_some("--exclude-promisor-objects"));
    // The order matters: no object of the queried tips may be missing, but one that a host's ref
    // names may.
    arguments.extend(["--not", "--ignore-missing", "--all"]);
    Ok(git.run("follow commits", &arguments, Input::Bytes(wanted.as_bytes()), None)?.is_success)
}

/// The kind of each existing object in `ids`.
pub(crate) fn kinds<'a>(
    git: &Git<'_>,
    ids: impl Iterator<Item = &'a ObjectId>,
) -> Result<BTreeMap<ObjectId, String>, Error> {
    let ids: Vec<&ObjectId> = ids.collect();
    if ids.is_empty() {
        return Ok(BTreeMap::new());
    }
    let wanted = lines("", ids.iter().copied());
    let arguments = ["cat-file", "--batch-check=%(objecttype)", "--buffer"];
    let kinds = git.read("look for objects", &arguments, Input::Bytes(wanted.as_bytes()))?;
    let kinds = String::from_utf8_lossy(&kinds);
    // For a missing object, git prints its name and that it is missing.
    let known = ids.into_iter().zip(kinds.lines()).filter(|(_, kind)| !kind.contains(' '));
    Ok(known.map(|(id, kind)| (id.clone(), kind.to_owned())).collect())
}

/// The elements of `digits` that git accepts as an abbreviated object id; all of them if there are
/// too many to ask.
pub(crate) fn abbreviations(git: &Git<'_>, digits: BTreeSet<String>) -> Result<BTreeSet<String>, Error> {
    if digits.is_empty() || digits.len() > MOST_ABBREVIATIONS {
        return Ok(digits);
    }
    // When git looks for a commit, other objects do not make the name ambiguous.
    let mut wanted = String::new();
    for digits in &digits {
        wanted.extend([digits, "\n", digits, "^{commit}\n"]);
    }
    let arguments = ["cat-file", "--batch-check=%(objecttype)", "--buffer"];
    let kinds = git.read("look for objects", &arguments, Input::Bytes(wanted.as_bytes()))?;
    let kinds = String::from_utf8_lossy(&kinds);
    let is_known = |kind: &str| !kind.contains(' ');
    let known: Vec<bool> = kinds.lines().map(is_known).collect();
    let found = digits.into_iter().zip(known.chunks(2)).filter(|(_, is_known)| is_known.contains(&true));
    Ok(found.map(|(digits, _)| digits).collect())
}

fn drop_all(folder: &Path) -> Result<(), Error> {
    or_absent(fs::remove_dir_all(folder)).map_err(Error::files("remove", folder))
}

/// Creates a folder of objects.
pub(crate) fn make(folder: &Path) -> Result<(), Error> {
    let pack = folder.join("pack");
    fs::create_dir_all(&pack).map_err(Error::files("create", &pack))
}

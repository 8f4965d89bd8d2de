//! Objects that a task made: brought into a quarantine as bytes, and out of it as one pack of git's own making.
//!
//! Nothing is taken as the task packed it. First its files lie in a folder of objects of their own, where git finds out what the host
//! lacks. That is packed, and the pack is read by another git into a second folder: it names each object by its content, refuses what
//! `git fsck` refuses, and finds everything that the new tips lead to, or they do not come.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use sandbox_files::or_absent;

use crate::Error;
use crate::git::{Git, Input, Objects};
use crate::object_id::{ObjectId, lines};
use crate::repository::HostRepository;

/// Attempts to find out which tips are good.
const ATTEMPTS: usize = 40;
/// Names that git is asked about: for each that it does not find, it looks through its folders again.
const MOST_ABBREVIATIONS: usize = 5000;
const LOST: &str = "its objects are not all there";

/// Objects that come together or not at all.
pub(crate) type Group = Vec<ObjectId>;

/// What became of the objects.
#[derive(Debug, Default)]
pub(crate) struct Sifted {
    /// The folder with the new pack, where there is something new.
    pub(crate) folder: Option<PathBuf>,
    /// Why others do not come.
    pub(crate) bad: BTreeMap<ObjectId, String>,
}

impl Sifted {
    /// Forgets the pack of one part: there is another one.
    fn drop_folder(&mut self) -> Result<(), Error> {
        self.folder.take().map_or(Ok(()), |folder| drop_all(&folder))
    }
}

/// Tells good tips from bad ones.
pub(crate) struct Sieve<'a> {
    pub(crate) host: &'a HostRepository,
    pub(crate) git: &'a Git<'a>,
    /// What the host's refs name: what is new is what these do not lead to.
    pub(crate) known: Vec<ObjectId>,
    /// The folder with what the task left.
    pub(crate) task: PathBuf,
    /// Where new folders can be made.
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

    /// Makes one pack of all good `groups`.
    pub(crate) fn sift(&mut self, groups: &[Group]) -> Result<Sifted, Error> {
        let mut sifted = Sifted::default();
        let good = self.good(groups, &mut sifted)?;
        // The last pack is of one part of them only.
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
            "too many others of this task cannot come".to_owned()
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

    /// The folder with a pack of what these lead to, or why there is none.
    fn attempt(&mut self, groups: &[Group]) -> Result<Result<PathBuf, String>, Error> {
        self.attempts += 1;
        let folder = self.quarantine.join(format!("new-{}", self.attempts));
        let tried = self.attempt_in(&folder, groups);
        if !matches!(tried, Ok(Ok(()))) {
            // Each can be as large as everything that the task left.
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
        let pack = File::create_new(&path).map_err(Error::files("make", &path))?;
        let wanted = lines("", tips.iter().copied()) + &lines("^", self.known.iter());
        let mut arguments = vec!["pack-objects", "--revs", "--stdout", "-q", "--delta-base-offset"];
        // What the host finds in another repository stays there: the next task would see it here.
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

/// Whether everything is there that `tips` lead to and the host's refs do not.
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
    // In this order: of what is asked for nothing may be missing, and what a ref of the host's names may.
    arguments.extend(["--not", "--ignore-missing", "--all"]);
    Ok(git.run("follow commits", &arguments, Input::Bytes(wanted.as_bytes()), None)?.is_success)
}

/// What kind of object each of `ids` is; those that are not there are left out.
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
    // Of one that is missing, its name and that.
    let known = ids.into_iter().zip(kinds.lines()).filter(|(_, kind)| !kind.contains(' '));
    Ok(known.map(|(id, kind)| (id.clone(), kind.to_owned())).collect())
}

/// Which of `digits` git takes for the beginning of one object's id: all, where there are too many.
pub(crate) fn abbreviations(git: &Git<'_>, digits: BTreeSet<String>) -> Result<BTreeSet<String>, Error> {
    if digits.is_empty() || digits.len() > MOST_ABBREVIATIONS {
        return Ok(digits);
    }
    // Where a commit is looked for, other objects do not make it ambiguous.
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

/// A folder of objects.
pub(crate) fn make(folder: &Path) -> Result<(), Error> {
    let pack = folder.join("pack");
    fs::create_dir_all(&pack).map_err(Error::files("make", &pack))
}

//! Writes a plan. Each step can be repeated: an import that was killed is planned again, and finds
//! the steps that it completed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sandbox_files::{Replacement, or_absent};

use crate::fail_point::{FailPoint, FailPoints, stopped};
use crate::git::{Git, HERE, Input};
use crate::object_id::{ObjectId, lines};
use crate::operation::{AUTOSTASH, MESSAGE_FILE, Operation};
use crate::plan::{Loss, Plan, Update};
use crate::ref_name::{RefName, Space};
use crate::refs::RefValue;
use crate::repository::{HostRepository, OWN_FILE};
use crate::stash::{self, Stash};
use crate::view::Found;
use crate::{Error, RunName};

/// Files that git removes when an operation ends.
const OF_OPERATIONS: [&str; 5] = ["MERGE_HEAD", "CHERRY_PICK_HEAD", MESSAGE_FILE, "MERGE_MODE", "AUTO_MERGE"];

/// Writes to the host's repository.
pub(crate) struct Writer<'a> {
    pub(crate) host: &'a HostRepository,
    pub(crate) git: &'a Git<'a>,
    pub(crate) run: &'a RunName,
    /// The stashes that the host had at the start.
    pub(crate) known: &'a [Stash],
    /// The import's own folder.
    pub(crate) quarantine: &'a Path,
}

impl Writer<'_> {
    /// Writes refs and the files that belong to them. Fails if a ref no longer has the value that
    /// the plan expects. Sets `has_begun` if something was written: each transaction is all or
    /// nothing.
    pub(crate) fn refs(
        &self,
        plan: &Plan,
        has_begun: &mut bool,
        points: FailPoints<'_>,
    ) -> Result<(), Error> {
        self.transaction(&plan.early)?;
        *has_begun |= !plan.early.is_empty();
        stopped(points, FailPoint::Early)?;
        self.transaction(&plan.updates)?;
        *has_begun |= !plan.updates.is_empty();
        stopped(points, FailPoint::Refs)?;
        for (name, target) in &plan.symbolic {
            self.symbolic(name.as_str(), target.as_str())?;
            *has_begun = true;
        }
        stopped(points, FailPoint::Symbolic)?;
        if let Some(stashes) = plan.stashes.as_ref().filter(|stashes| !stashes.is_empty()) {
            self.stashes(stashes)?;
        }
        stopped(points, FailPoint::Stashes)
    }

    pub(crate) fn head(&self, head: &RefValue) -> Result<(), Error> {
        match head {
            RefValue::Symbolic(name) => self.symbolic("HEAD", name.as_str()),
            RefValue::Object(id) => {
                let arguments = ["update-ref", "--no-deref", "-m", &self.message(), "HEAD", id.as_str()];
                self.git.read("move HEAD", &arguments, Input::Nothing).map(drop)
            }
        }
    }

    /// Writes the work tree's operation in progress.
    pub(crate) fn operation(
        &self,
        operation: Option<&Operation>,
        points: FailPoints<'_>,
    ) -> Result<(), Error> {
        let git_dir = self.host.git_dir();
        let remains = operation.map(|operation| operation.kind.file());
        for name in OF_OPERATIONS.into_iter().filter(|name| remains != Some(*name)) {
            let path = git_dir.join(name);
            or_absent(fs::remove_file(&path)).map_err(Error::files("remove", &path))?;
        }
        stopped(points, FailPoint::Operating)?;
        if let Some(operation) = operation {
            write(&git_dir.join(MESSAGE_FILE), operation.message.as_bytes())?;
            write(&git_dir.join(operation.kind.file()), operation.heads_text().as_bytes())?;
        }
        Ok(())
    }

    /// Removes the changes that git set aside for an operation, unless they changed meanwhile.
    pub(crate) fn take_back(&self, id: &ObjectId) -> Result<(), Error> {
        let path = self.host.git_dir().join(AUTOSTASH);
        let now = self.host.view().read(&self.host.own(AUTOSTASH), 4096);
        if !matches!(now, Found::Here(text) if text.trim_ascii() == id.as_str().as_bytes()) {
            return Ok(());
        }
        or_absent(fs::remove_file(&path)).map_err(Error::files("remove", &path))
    }

    /// Writes the settings that are imported.
    pub(crate) fn settings(&self, plan: &Plan, points: FailPoints<'_>) -> Result<(), Error> {
        let file = format!("{HERE}/config");
        for change in plan.report.settings.iter().filter(|change| change.stays.is_none()) {
            let mut arguments = vec!["config", "--file", &file];
            match change.new.first() {
                Some(value) => arguments.extend(["--replace-all", &change.key, value]),
                None => arguments.extend(["--unset-all", &change.key]),
            }
            self.git.read("write a setting", &arguments, Input::Nothing)?;
            stopped(points, FailPoint::Setting)?;
        }
        Ok(())
    }

    fn message(&self) -> String {
        format!("sandbox: import of {}", self.run)
    }

    fn symbolic(&self, name: &str, target: &str) -> Result<(), Error> {
        let arguments = ["symbolic-ref", "-m", &self.message(), name, target];
        self.git.read("set a symbolic ref", &arguments, Input::Nothing).map(drop)
    }

    fn transaction(&self, updates: &[Update]) -> Result<(), Error> {
        if updates.is_empty() {
            return Ok(());
        }
        let text: Vec<u8> = updates.iter().flat_map(line).collect();
        let arguments = ["update-ref", "--no-deref", "-m", &self.message(), "-z", "--stdin"];
        self.git.read("update refs", &arguments, Input::File(self.stored(&text)?)).map(drop)
    }

    /// A file for git to read: git still reads all of it if this process is killed.
    fn stored(&self, text: &[u8]) -> Result<File, Error> {
        let path: PathBuf = self.quarantine.join("input");
        let opened = fs::write(&path, text).and_then(|()| File::open(&path));
        opened.map_err(Error::files("write", &path))
    }

    fn stashes(&self, stashes: &[Stash]) -> Result<(), Error> {
        let folder = self.host.reached().join("logs/refs");
        fs::create_dir_all(&folder).map_err(Error::files("create", &folder))?;
        let log = match self.host.view().read(Path::new("logs/refs/stash"), OWN_FILE) {
            Found::Here(text) => text,
            Found::Same | Found::Absent | Found::Odd(_) => Vec::new(),
        };
        let (known, format) = (self.known.iter().map(|stash| &stash.id).collect(), self.host.format());
        let own = stash::own(&log, &known, format);
        write(&folder.join("stash"), &stash::text(stashes, &own, format, SystemTime::now()))
    }
}

/// The refs whose old value is no longer reachable from any important ref after `plan`.
pub(crate) fn lost(git: &Git<'_>, plan: &Plan) -> Result<BTreeSet<RefName>, Error> {
    let mut losses: BTreeMap<Keepers, Vec<&Loss>> = BTreeMap::new();
    for loss in &plan.losses {
        losses.entry(Keepers::of(&loss.name)).or_default().push(loss);
    }
    let mut lost = BTreeSet::new();
    for (keepers, losses) in losses {
        let mut wanted = lines("", losses.iter().map(|loss| &loss.id));
        wanted += &lines("^", keepers.ids(plan).into_iter());
        let found = git.read(
            "look for lost commits",
            &["rev-list", "--ignore-missing", "--stdin"],
            Input::Bytes(wanted.as_bytes()),
        )?;
        let found: BTreeSet<&[u8]> = found.split(|byte| *byte == b'\n').collect();
        let is_lost = |loss: &&Loss| found.contains(loss.id.as_str().as_bytes());
        lost.extend(losses.into_iter().filter(is_lost).map(|loss| loss.name.clone()));
    }
    Ok(lost)
}

/// The refs that keep a value reachable which another ref loses. Branches and tags always do. A
/// fetch, a prune or a clean-up after a run drops all others silently, so a task that moved a value
/// there has still removed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Keepers {
    BranchesAndTags,
    /// A ref that a fetch advances has its next value in the same place.
    AndRemotes,
    AndNotes,
    /// Also a commit that `HEAD` continues from, and the host's own state of its remotes.
    OfHead,
}

impl Keepers {
    fn of(name: &RefName) -> Self {
        match name.space() {
            Some(Space::Remote) => Self::AndRemotes,
            Some(Space::Note) => Self::AndNotes,
            None if name.is_head() => Self::OfHead,
            _ => Self::BranchesAndTags,
        }
    }

    fn ids(self, plan: &Plan) -> Vec<&ObjectId> {
        let written: BTreeSet<&RefName> = plan.updates.iter().map(|update| &update.name).collect();
        let is_keeper = |name: &RefName| match name.space() {
            Some(Space::Branch | Space::Tag) => true,
            Some(Space::Remote) if self == Self::OfHead => !written.contains(name),
            Some(Space::Remote) => self == Self::AndRemotes,
            Some(Space::Note) => self == Self::AndNotes,
            Some(Space::Stash) | None => false,
        };
        let kept = plan.end.iter().filter(|(name, _)| is_keeper(name)).map(|(_, value)| value);
        let head = plan.head.iter().filter(|_| self == Self::OfHead);
        kept.chain(head).filter_map(RefValue::object).collect()
    }
}

fn line(update: &Update) -> Vec<u8> {
    let Update { name, old, new } = update;
    let text = match (old, new) {
        (None, Some(new)) => format!("create {name}\0{new}\0"),
        (Some(old), Some(new)) => format!("update {name}\0{new}\0{old}\0"),
        (Some(old), None) => format!("delete {name}\0{old}\0"),
        (None, None) => String::new(),
    };
    text.into_bytes()
}

fn write(path: &Path, text: &[u8]) -> Result<(), Error> {
    Replacement::shared(0o644).durable().write(path, text).map_err(Error::files("write", path))
}

//! Imports a task's changes from its view of a repository into the host's.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf, absolute};

use sandbox_files::or_absent;

use crate::commit::{Writer, lost};
use crate::fail_point::{FailPoint, FailPoints, is_stop, stopped};
use crate::git::{Git, Input, Objects};
use crate::harvest::harvest;
use crate::index::{self, Index, digest_of_none};
use crate::index_file::IndexFile;
use crate::left;
use crate::object_id::{ObjectId, lines};
use crate::objects::{Group, Sieve, Sifted, abbreviations, is_connected, kinds};
use crate::pack_file;
use crate::plan::{Next, Plan, Situation};
use crate::recorded::Recorded;
use crate::ref_name::RefName;
use crate::refs::RefValue;
use crate::report::Report;
use crate::repository::HostRepository;
use crate::state::{Part, Snapshot, State, odd_name};
use crate::view::{Found, View};
use crate::{Error, Limits, RunName};

/// How often an import is planned again because the host changed something.
const ATTEMPTS: usize = 5;

/// A task's changes, read and checked, but not yet written to the host's repository.
#[derive(Debug)]
pub struct Import<'a> {
    host: &'a HostRepository,
    start: Snapshot,
    run: RunName,
    limits: Limits,
    quarantine: Quarantine,
    task: State,
    /// The task's index, if it differs from the one at the start.
    index: Option<Index>,
    sifted: Sifted,
    kinds: BTreeMap<ObjectId, String>,
    /// Entries that are not imported, in addition to those of a plan.
    left: Report,
    report: Report,
    recorded: Recorded,
}

/// The folder of an import, which is removed with it, however the import ends.
#[derive(Debug)]
struct Quarantine(PathBuf);

impl Quarantine {
    /// Creates it, empty.
    fn make(folder: &Path) -> Result<Self, Error> {
        let folder = absolute(folder).map_err(Error::files("find", folder))?;
        or_absent(fs::remove_dir_all(&folder)).map_err(Error::files("remove", &folder))?;
        let quarantine = Self(folder);
        fs::create_dir_all(&quarantine.0).map_err(Error::files("create", &quarantine.0))?;
        Ok(quarantine)
    }
}

impl Drop for Quarantine {
    fn drop(&mut self) {
        if let Err(error) = or_absent(fs::remove_dir_all(&self.0)) {
            tracing::warn!(folder = %self.0.display().to_string().escape_debug(), %error, "failed to remove an import's own folder");
        }
    }
}

impl<'a> Import<'a> {
    /// Reads and checks the task's changes in `view`. Writes only to the folder `quarantine`, which
    /// must belong to the caller alone: its content is removed first, and the folder itself when
    /// the import ends.
    ///
    /// # Errors
    ///
    /// If the host's repository cannot be read, or the task's exceeds `limits`. Other oddities in
    /// it are not errors.
    pub fn prepare(
        host: &'a HostRepository,
        view: &View,
        start: &Snapshot,
        run: &RunName,
        limits: &Limits,
        quarantine: &Path,
    ) -> Result<Self, Error> {
        if start.format != host.format() {
            let problem = "has another object format than when the task began";
            return Err(Error::Unsupported { path: host.path().to_owned(), problem });
        }
        Self::judge(host, view, start, run, limits, quarantine).map_err(|error| host.named(error))
    }

    fn judge(
        host: &'a HostRepository,
        view: &View,
        start: &Snapshot,
        run: &RunName,
        limits: &Limits,
        quarantine: &Path,
    ) -> Result<Self, Error> {
        let quarantine = Quarantine::make(quarantine)?;
        pack_file::release(&host.objects(), run)?;
        let mut import = Self {
            host,
            start: start.clone(),
            run: run.clone(),
            limits: limits.clone(),
            quarantine,
            task: State::read(view, host, start, limits)?.with_index(view, host, limits),
            index: None,
            sifted: Sifted::default(),
            kinds: BTreeMap::new(),
            left: Report::default(),
            report: Report::default(),
            recorded: Recorded::default(),
        };
        import.limit_refs();
        import.leave(view)?;
        import.read_index();
        let now = import.now()?;
        let git = import.git();
        import.objects(view, &git, &now)?;
        let git = import.with_new(&git);
        let plan = import.plan(&git, &now)?;
        import.recorded = Recorded::of(&git, &now, &plan, import.index.as_ref(), host.format())?;
        import.report = plan.report;
        Ok(import)
    }

    /// The files of which git will have other versions.
    #[must_use]
    pub fn recorded(&self) -> &Recorded {
        &self.recorded
    }

    /// The changes that would and would not be imported now.
    #[must_use]
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Writes the import. If the host moved something since the import was prepared, that part is
    /// planned again.
    ///
    /// # Errors
    ///
    /// If something cannot be written, or the host changes the same parts repeatedly.
    /// [`Error::Unfinished`] if the host's git already sees a part of the import: another import of
    /// the same view, snapshot and run completes it, also if this process is killed.
    pub fn commit(self) -> Result<Report, Error> {
        let host = self.host;
        self.commit_with(&mut |_| true).map_err(|error| host.named(error))
    }

    pub(crate) fn commit_with(self, points: FailPoints<'_>) -> Result<Report, Error> {
        let (objects, run) = (self.host.objects(), self.run.clone());
        match self.written(points) {
            // Behave as if this process were killed.
            Err(error) if is_stop(&error) => Err(error),
            written => {
                pack_file::release(&objects, &run)?;
                written
            }
        }
    }

    fn written(mut self, points: FailPoints<'_>) -> Result<Report, Error> {
        let git = self.git().without_hooks()?;
        let index = IndexFile::of(&self.host.git_dir(), &self.run);
        index.clean()?;
        if let Some(folder) = &self.sifted.folder {
            pack_file::bring(folder, &self.host.objects(), &self.run, points)?;
        }
        stopped(points, FailPoint::Packed)?;
        let (mut attempt, mut is_begun) = (0, false);
        loop {
            attempt += 1;
            let now = self.now()?;
            let plan = self.plan(&git, &now)?;
            let mut has_begun = false;
            let error = match self.write(plan, &now, &git, &index, (&mut has_begun, points)) {
                Ok(Some(report)) => return Ok(report),
                Ok(None) => Error::Moving { attempts: attempt },
                Err(error) => error,
            };
            if is_stop(&error) {
                return Err(error);
            }
            index.clean()?;
            if matches!(error, Error::OddIndex) && !has_begun {
                self.index = None;
                self.task.index = Part::Bad("git reads its entries differently");
                continue;
            }
            // The next plan finds the parts that were written.
            let may_be_moved =
                matches!(error, Error::Git { .. } | Error::Moving { .. } | Error::Locked { .. });
            if may_be_moved && attempt < ATTEMPTS && self.has_moved(&now)? {
                is_begun |= has_begun;
            } else if is_begun || has_begun {
                return Err(Error::Unfinished { source: Box::new(error) });
            } else {
                return Err(error);
            }
        }
    }

    /// Writes the plan; `None` if the index was changed meanwhile.
    fn write(
        &self,
        plan: Plan,
        now: &State,
        git: &Git<'_>,
        file: &IndexFile,
        (has_begun, points): (&mut bool, FailPoints<'_>),
    ) -> Result<Option<Report>, Error> {
        let new = plan.updates.iter().filter_map(|update| update.new.as_ref());
        if !is_connected(git, self.host, new)? {
            let message = "objects that the import needs were removed meanwhile".to_owned();
            return Err(Error::Git { operation: "follow commits", message });
        }
        let known = &self.start.stash;
        let writer = Writer { host: self.host, git, run: &self.run, known, quarantine: &self.quarantine.0 };
        let format = self.host.format();
        let built = match (&self.index, &now.index) {
            (Some(new), Part::Here(old)) if plan.index => {
                let text = file.build(new, old, git, format, &self.quarantine.0.join("index"))?;
                Some((text, &old.digest))
            }
            _ => None,
        };
        // This comes first because it fails if another process holds the lock.
        let locked = match built {
            None => None,
            Some((text, digest)) => {
                let is_expected = |text: Option<&[u8]>| {
                    text.map_or(Ok(digest_of_none()), |text| index::digest(text, format)).as_ref()
                        == Ok(digest)
                };
                let locked = file.lock(&text, is_expected, points).map_err(|error| match error {
                    // Name it by the path that its owner knows.
                    Error::Locked { .. } => {
                        Error::Locked { path: self.host.path().join(self.host.own("index.lock")) }
                    }
                    error => error,
                });
                let Some(locked) = locked? else {
                    return Ok(None);
                };
                Some(locked)
            }
        };
        writer.refs(&plan, has_begun, points)?;
        *has_begun = true;
        if let Some(head) = &plan.head {
            writer.head(head)?;
        }
        stopped(points, FailPoint::Head)?;
        if let Some(locked) = locked {
            file.replace(locked)?;
        }
        stopped(points, FailPoint::Index)?;
        match &plan.operation {
            Next::Stays => {}
            Next::Ends => {
                if let Some(id) = &plan.taken_back {
                    writer.take_back(id)?;
                }
                writer.operation(None, points)?;
            }
            Next::Is(operation) => writer.operation(Some(operation), points)?,
        }
        stopped(points, FailPoint::Operation)?;
        writer.settings(&plan, points)?;
        stopped(points, FailPoint::Settings)?;
        Ok(Some(plan.report))
    }

    /// The current state of the host; its index only if that can be replaced.
    fn now(&self) -> Result<State, Error> {
        State::of_host(self.host, self.index.is_some())
    }

    /// Resets the refs that exceed the limit to their state at the start.
    fn limit_refs(&mut self) {
        let head = match &self.task.head {
            Part::Here(RefValue::Symbolic(name)) => Some(name),
            _ => None,
        };
        let most = self.limits.changed_refs;
        let rest = self.task.refs.undo(&self.start.refs, most, head);
        if rest > 0 {
            let why = format!("{rest} more refs changed than the {most} that are imported from one task");
            self.left.leave("refs", why);
        }
    }

    fn read_index(&mut self) {
        let Part::Here(index) = &self.task.index else { return };
        if self.start.index.as_ref() == Some(&index.digest) {
            return;
        }
        match index.parse(self.host.format()) {
            Ok(index) => self.index = Some(index),
            Err(why) => self.task.index = Part::Bad(why),
        }
    }

    fn git(&self) -> Git<'a> {
        self.host.git(&self.limits)
    }

    /// Git with the host's objects and the new ones.
    fn with_new(&self, git: &Git<'a>) -> Git<'a> {
        match &self.sifted.folder {
            Some(folder) => git.with_objects(folder, Objects::Host),
            None => git.clone(),
        }
    }

    fn plan(&self, git: &Git<'_>, now: &State) -> Result<Plan, Error> {
        let table = self.task.refs.table();
        // A branch without commits exists only in `HEAD`.
        let head = match &self.task.head {
            Part::Here(RefValue::Symbolic(name)) => Some(name),
            _ => None,
        };
        let new = table.keys().chain(head).filter(|name| now.refs.get(name).is_none());
        let digits = new.filter_map(RefName::abbreviation).map(str::to_owned).collect();
        let situation = Situation {
            run: &self.run,
            start: &self.start,
            task: &self.task,
            host: now,
            index: self.index.as_ref(),
            kinds: &self.kinds,
            bad: &self.sifted.bad,
            odd_stashes: &crate::stash::odd(git, &self.task.stash)?,
            abbreviations: &abbreviations(git, digits)?,
            elsewhere: &self.host.branches_elsewhere(),
        };
        let mut plan = Plan::of(&situation);
        let lost = lost(git, &plan)?;
        plan.back_up(&self.run, &lost);
        plan.report.left.extend(self.left.left.iter().cloned());
        plan.report.more_left |= self.left.more_left;
        plan.report.hints.extend(self.left.hints.iter().cloned());
        Ok(plan)
    }

    /// Whether the host's state differs from `then`.
    fn has_moved(&self, then: &State) -> Result<bool, Error> {
        let now = self.now()?;
        let digest = |state: &State| match &state.index {
            Part::Here(index) => Some(index.digest.clone()),
            Part::Same | Part::Bad(_) => None,
        };
        Ok(now.refs.table() != then.refs.table() || digest(&now) != digest(then))
    }

    /// Objects that the task's part of the host's new state would name.
    fn wanted(&self, now: &State) -> BTreeSet<ObjectId> {
        let (start, task, host) = (self.start.refs.table(), self.task.refs.table(), now.refs.table());
        let refs = task.iter().filter(|(name, value)| {
            name.space().is_some() && start.get(name) != Some(*value) && host.get(name) != Some(*value)
        });
        let mut wanted: BTreeSet<ObjectId> = refs.filter_map(|(_, value)| value.object()).cloned().collect();
        if let Part::Here(RefValue::Object(id)) = &self.task.head {
            wanted.insert(id.clone());
        }
        if self.task.stash != self.start.stash {
            wanted.extend(self.task.stash.iter().map(|stash| stash.id.clone()));
        }
        wanted.extend(self.task.set_aside.iter().cloned());
        if let Part::Here(Some(operation)) = &self.task.operation {
            wanted.extend(operation.heads.iter().cloned());
        }
        wanted
    }

    /// Determines which objects are imported, and packs them.
    fn objects(&mut self, view: &View, git: &Git<'a>, now: &State) -> Result<(), Error> {
        let wanted = self.wanted(now);
        let files: BTreeSet<ObjectId> = self.index.iter().flat_map(Index::objects).cloned().collect();
        self.kinds = kinds(git, wanted.iter().chain(&files))?;
        let is_here = |id: &&ObjectId| self.kinds.contains_key(*id);
        let missing: Group = files.iter().filter(|id| !is_here(id)).cloned().collect();
        if missing.is_empty()
            && wanted.iter().all(|id| is_here(&id))
            && is_connected(git, self.host, wanted.iter())?
        {
            return Ok(());
        }
        let table = now.refs.table();
        let known: BTreeSet<ObjectId> = table.values().filter_map(RefValue::object).cloned().collect();
        // Git would refuse everything if the host lacked one of them.
        let there = kinds(git, known.iter())?;
        let known: BTreeSet<ObjectId> = known.into_iter().filter(|id| there.contains_key(id)).collect();
        let mut sieve = Sieve::new(self.host, git, known.into_iter().collect(), &self.quarantine.0);
        harvest(view, self.host, git, &sieve.task, &self.limits, &mut self.left)?;
        let mut groups: Vec<Group> = wanted.iter().map(|id| vec![id.clone()]).collect();
        groups.extend((!missing.is_empty()).then_some(missing));
        self.sifted = sieve.sift(&groups)?;
        if !self.sifted.bad.is_empty() {
            // Objects that the host itself lacks are not the task's error: fail, and keep
            // everything until the host's repository is repaired.
            let known = lines("", sieve.known.iter());
            let mut arguments = vec!["rev-list", "--stdin", "--quiet"];
            arguments.extend(self.host.is_partial().then_some("--exclude-promisor-objects"));
            git.read("follow the commits of the host", &arguments, Input::Bytes(known.as_bytes()))?;
        }
        self.kinds = kinds(&self.with_new(git), wanted.iter().chain(&files))?;
        Ok(())
    }

    /// Lists everything that is not imported.
    fn leave(&mut self, view: &View) -> Result<(), Error> {
        let is_new = |path: &Path| !self.start.odd.contains(&odd_name(path));
        for (path, why) in self.task.odd.iter().filter(|(path, _)| is_new(path)) {
            self.left.leave(path.to_string_lossy(), *why);
        }
        left::list(view, self.host, &mut self.left)?;
        for name in ["rebase-merge", "rebase-apply"] {
            let path = self.host.own(name);
            let hint = match (view.folder(&path), self.host.view().folder(&path)) {
                (Found::Here(()), Found::Absent) => {
                    "the task's rebase in progress is not imported: the branch is as before it, `HEAD` \
                     where it was in between; `git switch BRANCH` returns to the branch, no `git rebase \
                     --abort` is needed"
                }
                (Found::Absent, Found::Here(())) => {
                    "the task ended the rebase that is in progress here: `git rebase --quit` forgets it"
                }
                _ => continue,
            };
            self.left.hints.push(hint.to_owned());
        }
        Ok(())
    }
}

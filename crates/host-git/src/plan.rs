//! Plans an import: the task's changes since the start, as far as the host still has the state of
//! the start. It neither reads nor writes files.

mod stashes;

use std::collections::{BTreeMap, BTreeSet};

use crate::RunName;
use crate::index::Index;
use crate::object_id::ObjectId;
use crate::operation::Operation;
use crate::ref_name::{RefName, Space};
use crate::refs::{RefValue, Table};
use crate::report::{RefChange, RefOutcome, Report};
use crate::settings::{Context, Settings};
use crate::stash::Stash;
use crate::state::{Part, Snapshot, State, commit};

/// The state of the task's and the host's repository at planning time.
pub(crate) struct Situation<'a> {
    pub(crate) run: &'a RunName,
    pub(crate) start: &'a Snapshot,
    pub(crate) task: &'a State,
    pub(crate) host: &'a State,
    /// The task's index, if it differs from the one at the start.
    pub(crate) index: Option<&'a Index>,
    /// The kinds of the objects that exist, or are imported.
    pub(crate) kinds: &'a BTreeMap<ObjectId, String>,
    /// The reasons why other objects are not imported.
    pub(crate) bad: &'a BTreeMap<ObjectId, String>,
    /// The task's stashes that are not valid stashes.
    pub(crate) odd_stashes: &'a BTreeSet<ObjectId>,
    /// Names of new refs, or suffixes of them, that git accepts as objects.
    pub(crate) abbreviations: &'a BTreeSet<String>,
    /// Branches that are checked out in the host's other work trees.
    pub(crate) elsewhere: &'a BTreeSet<RefName>,
}

/// A change of a ref, valid only while the ref has the expected old value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Update {
    pub(crate) name: RefName,
    pub(crate) old: Option<ObjectId>,
    pub(crate) new: Option<ObjectId>,
}

/// A value that a ref loses.
#[derive(Debug)]
pub(crate) struct Loss {
    pub(crate) name: RefName,
    pub(crate) id: ObjectId,
    /// Whether the value is more than a commit that other refs may lead to.
    is_always: bool,
}

/// The next state of the operation in progress.
#[derive(Debug, Default)]
pub(crate) enum Next {
    #[default]
    Stays,
    Ends,
    Is(Operation),
}

/// The changes to write, in this order.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Refs that block others.
    pub(crate) early: Vec<Update>,
    pub(crate) updates: Vec<Update>,
    pub(crate) symbolic: Vec<(RefName, RefName)>,
    pub(crate) head: Option<RefValue>,
    pub(crate) index: bool,
    pub(crate) operation: Next,
    /// The changes that git had set aside for the operation, and that are in the files again.
    pub(crate) taken_back: Option<ObjectId>,
    /// The changes that the task's git set aside, and that are kept.
    pub(crate) set_aside: Vec<ObjectId>,
    pub(crate) stashes: Option<Vec<Stash>>,
    pub(crate) report: Report,
    pub(crate) losses: Vec<Loss>,
    /// The refs after the import.
    pub(crate) end: Table,
}

impl Plan {
    pub(crate) fn of(situation: &Situation<'_>) -> Self {
        let end = situation.host.refs.table();
        let mut planner = Planner {
            it: situation,
            at_start: situation.start.refs.table(),
            task: situation.task.refs.table(),
            removed: Table::new(),
            early: BTreeSet::new(),
            places: BTreeMap::new(),
            plan: Self { end, ..Self::default() },
        };
        planner.refs();
        planner.stashes();
        planner.set_aside();
        planner.head();
        planner.index();
        planner.operation();
        planner.settings();
        planner.plan
    }

    /// Adds backups for the refs in `lost`, whose old values no other ref leads to.
    pub(crate) fn back_up(&mut self, run: &RunName, lost: &BTreeSet<RefName>) {
        let folder = format!("refs/sandbox/backup/{run}/");
        let mut backups = Vec::new();
        let names = self.report.refs.iter().map(|change| change.name.clone());
        let places: BTreeMap<String, usize> = names.zip(0..).collect();
        for Loss { name, id, is_always } in std::mem::take(&mut self.losses) {
            if !is_always && !lost.contains(&name) {
                continue;
            }
            let (backup, is_new) = free_name(&self.end, &folder, &name, &id);
            if is_new {
                self.end.insert(backup.clone(), RefValue::Object(id.clone()));
                backups.push(Update { name: backup.clone(), old: None, new: Some(id.clone()) });
            }
            if name.is_head() {
                let (old, new) = (Some(id.to_string()), self.report.head.clone());
                let (name, backup) = ("HEAD".to_owned(), Some(backup.to_string()));
                self.report.refs.push(RefChange { name, old, new, outcome: RefOutcome::Came, backup });
                continue;
            }
            // All stashes are one ref, unless one has its own entry in the report.
            let place = places.get(name.as_str());
            let place = place.or_else(|| places.get("refs/stash").filter(|_| name.space().is_none()));
            if let Some(change) = place.and_then(|place| self.report.refs.get_mut(*place)) {
                change.backup = Some(backup.to_string());
            }
        }
        // Git applies the updates in order: the lost value gets its new name first.
        let later = if self.early.is_empty() { &mut self.updates } else { &mut self.early };
        later.splice(0..0, backups);
    }
}

struct Planner<'a> {
    it: &'a Situation<'a>,
    at_start: Table,
    task: Table,
    /// Refs that the import removes from the host, and those of them that block others.
    removed: Table,
    early: BTreeSet<RefName>,
    /// The position of each ref in the report.
    places: BTreeMap<RefName, usize>,
    plan: Plan,
}

const MOVED: &str = "the host moved it meanwhile";
const IN_THE_WAY: &str = "refs on the host block its name";
const STAYS_AT: &str = "the host's `HEAD` is at it";

impl Planner<'_> {
    fn refs(&mut self) {
        let names: BTreeSet<RefName> = self.at_start.keys().chain(self.task.keys()).cloned().collect();
        let changed = |name: &RefName| self.at_start.get(name) != self.task.get(name);
        let (removed, set): (Vec<RefName>, Vec<RefName>) =
            names.into_iter().filter(changed).partition(|name| !self.task.contains_key(name));
        for name in removed.into_iter().chain(set) {
            let outcome = match name.space() {
                None => RefOutcome::Stayed { why: "refs of this name are not imported".to_owned() },
                // It is imported with its log.
                Some(Space::Stash) => continue,
                Some(space) => self.one(&name, space),
            };
            self.record(&name, outcome);
        }
        let is_early = |update: &mut Update| self.early.contains(&update.name);
        self.plan.early = self.plan.updates.extract_if(.., is_early).collect();
    }

    fn record(&mut self, name: &RefName, outcome: RefOutcome) {
        let (old, new) = (self.it.host.refs.get(name), self.task.get(name));
        let (old, new) = (old.map(ToString::to_string), new.map(ToString::to_string));
        self.places.insert(name.clone(), self.plan.report.refs.len());
        self.plan.report.refs.push(RefChange { name: name.to_string(), old, new, outcome, backup: None });
    }

    fn one(&mut self, name: &RefName, space: Space) -> RefOutcome {
        let stayed = |why: &str| RefOutcome::Stayed { why: why.to_owned() };
        let (now, wanted) = (self.plan.end.get(name).cloned(), self.task.get(name).cloned());
        if now == wanted {
            return RefOutcome::Came;
        }
        if let Some(why) = self.trap(name).filter(|_| wanted.is_some()) {
            return stayed(why);
        }
        // The host's own change of a ref wins: the task's value gets another name.
        let is_moved = now.as_ref() != self.at_start.get(name);
        let old = match now {
            Some(RefValue::Symbolic(_)) => return stayed("it is a symbolic ref on the host"),
            Some(RefValue::Object(id)) => Some(id),
            None => None,
        };
        let id = match wanted {
            Some(RefValue::Symbolic(target)) => return self.symbolic(name, &target, is_moved),
            Some(RefValue::Object(id)) => {
                if let Err(why) = self.check(&id, space) {
                    return RefOutcome::Stayed { why };
                }
                Some(id)
            }
            None => None,
        };
        let why = if is_moved {
            MOVED
        } else if self.it.elsewhere.contains(name) {
            "another work tree of the host has it checked out"
        } else if id.is_some() && in_the_way(&self.plan.end, name).next().is_some() {
            IN_THE_WAY
        } else if let Some(why) = self.shadow(name).filter(|_| id.is_some()) {
            why
        } else {
            self.update(name, old, id, space == Space::Tag);
            return RefOutcome::Came;
        };
        match id {
            Some(id) => self.keep(name, &id, why),
            None => stayed(why),
        }
    }

    /// The reason why a ref of this name is not imported if the host does not have it.
    fn trap(&self, name: &RefName) -> Option<&'static str> {
        name.trap().filter(|_| self.it.host.refs.get(name).is_none())
    }

    /// The reason why a new ref cannot have this name: it already means something else.
    fn shadow(&self, name: &RefName) -> Option<&'static str> {
        if self.plan.end.contains_key(name) {
            None
        } else if name.shadowed().any(|name| self.plan.end.contains_key(&name)) {
            Some("another ref has its name, which git would resolve to this one from now on")
        } else if name.abbreviation().is_some_and(|digits| self.it.abbreviations.contains(digits)) {
            Some("an object has its name, which git would resolve to this ref from now on")
        } else {
            None
        }
    }

    fn update(&mut self, name: &RefName, old: Option<ObjectId>, new: Option<ObjectId>, is_always: bool) {
        match &new {
            Some(id) => {
                // Git cannot remove a ref and create another in its place in one step.
                self.early.extend(in_the_way(&self.removed, name).cloned());
                self.plan.end.insert(name.clone(), RefValue::Object(id.clone()));
            }
            None => self.removed.extend(self.plan.end.remove_entry(name)),
        }
        if let Some(id) = old.clone() {
            self.plan.losses.push(Loss { name: name.clone(), id, is_always });
        }
        self.plan.updates.push(Update { name: name.clone(), old, new });
    }

    fn symbolic(&mut self, name: &RefName, target: &RefName, is_moved: bool) -> RefOutcome {
        let is_within = name.remote_head().is_some_and(|folder| target.as_str().starts_with(folder));
        if !is_within || !self.plan.end.contains_key(target) || self.plan.end.contains_key(name) {
            return RefOutcome::Stayed {
                why: "only the `HEAD` of a remote can name a ref, one of the same remote".to_owned(),
            };
        }
        if is_moved || in_the_way(&self.plan.end, name).next().is_some() {
            return RefOutcome::Stayed { why: MOVED.to_owned() };
        }
        if let Some(why) = self.shadow(name) {
            return RefOutcome::Stayed { why: why.to_owned() };
        }
        self.plan.end.insert(name.clone(), RefValue::Symbolic(target.clone()));
        self.plan.symbolic.push((name.clone(), target.clone()));
        RefOutcome::Came
    }

    /// Keeps the task's value of `name` below the run's own name.
    fn keep(&mut self, name: &RefName, id: &ObjectId, why: &str) -> RefOutcome {
        let folder = format!("refs/sandbox/{}/", self.it.run);
        let (kept, is_new) = free_name(&self.plan.end, &folder, name, id);
        if is_new {
            self.plan.end.insert(kept.clone(), RefValue::Object(id.clone()));
            self.plan.updates.push(Update { name: kept.clone(), old: None, new: Some(id.clone()) });
        }
        RefOutcome::Kept { name: kept.to_string(), why: why.to_owned() }
    }

    /// Whether `id` is imported and valid for this kind of ref.
    fn check(&self, id: &ObjectId, space: Space) -> Result<(), String> {
        if let Some(why) = self.it.bad.get(id) {
            return Err(why.clone());
        }
        match self.it.kinds.get(id) {
            None => Err("its object is missing".to_owned()),
            Some(kind) if kind == "commit" || space == Space::Tag => Ok(()),
            Some(_) => Err("it is not a commit".to_owned()),
        }
    }

    fn head(&mut self) {
        let start = self.it.start.head.as_ref();
        match &self.it.task.head {
            Part::Bad(why) => self.plan.report.leave("HEAD", *why),
            Part::Here(wanted) if Some(wanted) != start => self.new_head(wanted),
            // If both are still at it, the task itself removed its branch.
            Part::Same | Part::Here(_) if self.host_head() == start => return,
            Part::Same | Part::Here(_) => {}
        }
        self.restore_branch();
    }

    fn new_head(&mut self, wanted: &RefValue) {
        let (start, now) = (self.it.start.head.as_ref(), self.host_head());
        let shown = wanted.to_string();
        let refusal = if now == Some(wanted) {
            None
        } else if now != start {
            Some(MOVED.to_owned())
        } else {
            match wanted {
                RefValue::Object(id) => self.check(id, Space::Branch).err(),
                RefValue::Symbolic(name) if self.it.elsewhere.contains(name) => {
                    Some("another work tree of the host has this branch checked out".to_owned())
                }
                // A branch without commits has no ref.
                RefValue::Symbolic(name) if let Some(why) = self.trap(name) => Some(why.to_owned()),
                RefValue::Symbolic(name) if let Some(why) = self.shadow(name) => Some(why.to_owned()),
                RefValue::Symbolic(name) if self.plan.end.get(name) != self.task.get(name) => {
                    Some("its branch is not imported as the task has it".to_owned())
                }
                RefValue::Symbolic(name) if in_the_way(&self.plan.end, name).next().is_some() => {
                    Some(IN_THE_WAY.to_owned())
                }
                RefValue::Symbolic(_) => None,
            }
        };
        match refusal {
            None => {
                if now != Some(wanted) {
                    let loss = |id| Loss { name: RefName::head(), id, is_always: false };
                    let left = now.and_then(RefValue::object).cloned();
                    self.plan.losses.extend(left.map(loss));
                    self.plan.head = Some(wanted.clone());
                }
                self.plan.report.head = Some(shown);
            }
            Some(why) => {
                self.plan.report.leave("HEAD", format!("{shown}: {why}"));
                if let RefValue::Object(id) = wanted
                    && self.check(id, Space::Branch).is_ok()
                {
                    let name = RefName::head();
                    let kept = self.keep(&name, id, &why);
                    self.record(&name, kept);
                }
            }
        }
    }

    /// Keeps the branch that the host's `HEAD` remains at.
    fn restore_branch(&mut self) {
        let Some(RefValue::Symbolic(name)) = self.host_head().filter(|_| self.plan.head.is_none()).cloned()
        else {
            return;
        };
        let is_it = |update: &Update| update.name == name && update.new.is_none();
        let mut updates = self.plan.updates.iter().chain(&self.plan.early);
        let Some(old) = updates.find(|update| is_it(update)).and_then(|update| update.old.clone()) else {
            return;
        };
        // The host cannot have had one of them next to the branch, so they replaced it.
        let mut in_its_place: BTreeSet<RefName> = in_the_way(&self.plan.end, &name).cloned().collect();
        // Also drop a tag by whose name git would mean that branch.
        let all = self.plan.updates.iter().chain(&self.plan.early).filter(|update| update.new.is_some());
        let shadows = all.filter(|update| update.name.shadowed().any(|shadowed| shadowed == name));
        in_its_place.extend(shadows.map(|update| update.name.clone()));
        self.plan.end.retain(|name, _| !in_its_place.contains(name));
        for updates in [&mut self.plan.updates, &mut self.plan.early] {
            updates.retain(|update| !is_it(update) && !in_its_place.contains(&update.name));
        }
        self.plan.losses.retain(|loss| loss.name != name);
        self.plan.end.insert(name.clone(), RefValue::Object(old));
        self.correct(&name, RefOutcome::Stayed { why: STAYS_AT.to_owned() });
        for other in in_its_place {
            if let Some(id) = self.task.get(&other).and_then(RefValue::object).cloned() {
                let outcome = self.keep(&other, &id, IN_THE_WAY);
                self.correct(&other, outcome);
            }
        }
    }

    /// Replaces the recorded outcome of a change.
    fn correct(&mut self, name: &RefName, outcome: RefOutcome) {
        let place = self.places.get(name);
        if let Some(change) = place.and_then(|place| self.plan.report.refs.get_mut(*place)) {
            change.outcome = outcome;
        }
    }

    fn host_head(&self) -> Option<&RefValue> {
        match &self.it.host.head {
            Part::Here(head) => Some(head),
            Part::Same | Part::Bad(_) => None,
        }
    }

    /// Whether the work tree is at the same commit after the import as the task's was.
    fn is_at_commit(&self) -> bool {
        let head = match &self.it.task.head {
            Part::Here(head) => Some(head),
            Part::Same => self.it.start.head.as_ref(),
            Part::Bad(_) => return false,
        };
        let after = self.plan.head.as_ref().or(self.host_head());
        commit(head, &self.task) == commit(after, &self.plan.end)
    }

    fn index(&mut self) {
        let index = match &self.it.task.index {
            Part::Same => return,
            Part::Bad(why) => return self.plan.report.leave("index", *why),
            Part::Here(index) => index,
        };
        let start = self.it.start.index.as_ref();
        if start == Some(&index.digest) {
            return;
        }
        let host = match &self.it.host.index {
            Part::Here(host) => Some(&host.digest),
            Part::Same | Part::Bad(_) => None,
        };
        let refusal = if host == Some(&index.digest) {
            self.plan.report.index = true;
            return;
        } else if host.is_none() || start.is_none() {
            Some("the host's index has an unsupported format".to_owned())
        } else if host != start {
            Some(MOVED.to_owned())
        // With another commit below it, the index would show changes that nobody made.
        } else if !self.is_at_commit() {
            Some("`HEAD` is not imported as the task has it".to_owned())
        } else {
            let named = self.it.index.iter().flat_map(|index| index.objects());
            let missing = { named }.find(|id| self.it.kinds.get(id).is_none_or(|kind| kind != "blob"));
            missing.map(|id| {
                self.it
                    .bad
                    .get(id)
                    .cloned()
                    .unwrap_or_else(|| format!("it names {id}, which is not a file in this repository"))
            })
        };
        let Some(why) = refusal else {
            (self.plan.index, self.plan.report.index) = (true, true);
            return;
        };
        self.plan.report.leave("index", why);
        let hint = "the index is unchanged: `git status` compares with it, `git reset` resets it to `HEAD`";
        self.plan.report.hints.push(hint.to_owned());
    }

    fn operation(&mut self) {
        let wanted = match &self.it.task.operation {
            Part::Same => return,
            Part::Bad(why) => return self.plan.report.leave("MERGE_HEAD", *why),
            Part::Here(wanted) => wanted,
        };
        let host = match &self.it.host.operation {
            Part::Here(host) => Some(host),
            Part::Same | Part::Bad(_) => None,
        };
        if *wanted == self.it.start.operation {
            return;
        }
        let either = wanted.as_ref().or(self.it.start.operation.as_ref());
        let file = either.map_or("MERGE_HEAD", |operation| operation.kind.file());
        let heads = wanted.iter().flat_map(|operation| &operation.heads);
        let bad = heads.map(|id| self.check(id, Space::Branch)).find_map(Result::err);
        let refusal = if host == Some(wanted) {
            None
        } else if host != Some(&self.it.start.operation) {
            Some(MOVED.to_owned())
        } else if let Some(other) = self.it.host.other_operation.filter(|_| wanted.is_some()) {
            Some(format!("the host has another operation in progress: `{other}`"))
        // The next commit ends the operation with the index and on top of `HEAD`.
        } else if !self.is_at_commit() || self.plan.report.left.iter().any(|left| left.path == "index") {
            Some("`HEAD` and the index are not imported as the task has them".to_owned())
        } else {
            bad
        };
        if let Some(why) = refusal {
            return self.plan.report.leave(file, why);
        }
        self.plan.report.operation = Some(file.to_owned());
        if wanted.is_some() {
            let hint = "`git commit` ends the operation in progress, with its message";
            self.plan.report.hints.push(hint.to_owned());
        }
        if host != Some(wanted) {
            self.plan.operation = wanted.clone().map_or(Next::Ends, Next::Is);
            self.take_back();
        }
    }

    fn settings(&mut self) {
        let task = match &self.it.task.settings {
            Part::Same => return,
            Part::Bad(why) => return self.plan.report.leave("config", *why),
            Part::Here(task) => task,
        };
        let none = Settings::default();
        let host = match &self.it.host.settings {
            Part::Here(host) => host,
            Part::Same | Part::Bad(_) => &none,
        };
        let context = Context {
            at_start: &self.it.start.settings,
            host,
            is_branch: &|name| self.plan.end.contains_key(name),
            is_new: &|name| !self.at_start.contains_key(name),
        };
        self.plan.report.settings = task.changes(&context);
    }
}

/// Refs of `table` that exclude a ref called `name`: one is a folder where the other is a file.
fn in_the_way<'a>(table: &'a Table, name: &RefName) -> impl Iterator<Item = &'a RefName> {
    let above = name
        .folders()
        .filter_map(|folder| table.get_key_value(&folder).map(|(name, _)| name))
        .collect::<Vec<_>>();
    let inside = name.with("/");
    let below = table.range(inside.clone()..).map(|(name, _)| name);
    above.into_iter().chain(below.take_while(move |name| name.as_str().starts_with(inside.as_str())))
}

/// The name for `id`, which is or was at `name`, in `folder`, and whether that ref must be created.
fn free_name(table: &Table, folder: &str, name: &RefName, id: &ObjectId) -> (RefName, bool) {
    let folders = [folder.to_owned(), format!("{folder}{}/", short(id)), format!("{folder}{id}/")];
    let value = RefValue::Object(id.clone());
    let names = folders.iter().map(|folder| name.below(folder));
    let place = |name: &RefName| match table.get(name) {
        Some(there) => (*there == value).then_some(false),
        None => in_the_way(table, name).next().is_none().then_some(true),
    };
    let found = names.clone().find_map(|name| place(&name).map(|is_new| (name, is_new)));
    // The last name is free: only this id is ever below its own name.
    found.unwrap_or_else(|| (name.below(&format!("{folder}{id}/")), true))
}

fn short(id: &ObjectId) -> &str {
    id.as_str().get(..12).unwrap_or(id.as_str())
}

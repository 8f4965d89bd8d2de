//! Applies the changes of a copy to its tree: stage, journal, commit.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rand::RngExt as _;
use sandbox_files::tree::Kind;
use sandbox_host_git::Left;
use serde::Serialize;

use super::super::error::WorkspaceError;
use super::super::fingerprint::ContentFingerprint;
use super::super::git_view::{
    self, GitChanges, Opened, RepositoryChanges, WaitingSetting, git_changes, hint,
};
use super::super::host_follow::HostFollows;
use super::super::path_text::PathText;
use super::super::protection::Protection;
use super::change::{Change, ChangeKind, EntryKind, Withheld};
use super::changes::{Comparison, Differences};
use super::fail_point::{FailPoint, FailPoints, stopped};
use super::finish::{finish, recover};
use super::imports::{Imports, hold_recorded};
use super::journal::{Journal, Phase, Step, VERSION};
use super::keep::Kept;
use super::notes;
use super::repositories;
use super::room;
use super::seal::{Entries, Seal};
use super::stage::{self, Stage, new};
use super::sync;

/// Which changes to apply.
#[derive(Debug, Clone, Default)]
pub struct ApplyOptions {
    /// The paths whose changes are withheld.
    pub protection: Protection,
    /// Also apply changes that are protected or lead out of the tree.
    pub include_withheld: bool,
    /// Also apply changes of paths that changed on the host meanwhile: the task's version wins.
    pub force: bool,
    /// Names of git settings to import; no others are.
    pub git_settings: Vec<String>,
}

/// The changes that were applied, and those that were not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Applied {
    /// Changes that the tree has now.
    pub applied: Vec<Change>,
    /// Withheld changes, which remain in the copy.
    pub withheld: Vec<Change>,
    /// The imported and rejected changes in repositories.
    pub git: GitChanges,
    /// Changes in repositories that were not imported because git recorded another version of a
    /// protected file than the one here: a hint names it.
    pub waiting: Vec<RepositoryChanges>,
}

/// The differences, and those among them that wait.
#[derive(Debug)]
pub(super) struct Judged {
    pub(super) changes: Vec<Change>,
    /// Entries that make a folder a git work tree or repository, which are never applied.
    pub(super) left: Vec<Left>,
    /// Repositories that are not imported because git recorded a withheld file.
    pub(super) waiting: BTreeSet<PathBuf>,
}

impl Comparison {
    /// The repositories with changes of tasks, in a copy in `folder`.
    pub(super) fn opened(&self, folder: &Path) -> Result<Vec<Opened<'_>>, WorkspaceError> {
        self.repositories.opened(&self.host, folder, |_| true)
    }

    /// The differences, given the changes that `imports` would make in the repositories `opened`.
    pub(super) fn judged(
        &self,
        opened: &[Opened<'_>],
        imports: &mut Imports<'_>,
        protection: &Protection,
    ) -> Result<Judged, WorkspaceError> {
        let Differences { mut changes, left } = self.differences(protection)?;
        let follows = HostFollows::find(&self.host, protection, &self.names);
        let waiting = hold_recorded(&mut changes, opened, imports, |work_tree, recorded| {
            hint(&self.host, work_tree, recorded, protection, |path| follows.covers(path))
        });
        Ok(Judged { changes, left, waiting })
    }
}

/// Applies the changes in `from`, whose copy is in `folder`.
pub(super) fn apply(
    from: &Comparison,
    folder: &Path,
    options: &ApplyOptions,
    fail_points: FailPoints<'_>,
) -> Result<Applied, WorkspaceError> {
    let free = from.host.folder(Path::new("")).and_then(room::free);
    let free = free.map_err(|source| WorkspaceError::new("look for room in", from.host.path(), source))?;
    apply_within(from, folder, options, free, fail_points)
}

/// As [`apply`], with at most `free` bytes.
fn apply_within(
    from: &Comparison,
    folder: &Path,
    options: &ApplyOptions,
    free: u64,
    fail_points: FailPoints<'_>,
) -> Result<Applied, WorkspaceError> {
    let run = format!("copy-{:08x}", rand::rng().random::<u32>());
    let opened = from.opened(folder)?;
    let mut imports = Imports::prepare(&opened, &git_view::run(&run), folder)?;
    let judged = from.judged(&opened, &mut imports, &options.protection)?;
    let waiting = if options.include_withheld { BTreeSet::new() } else { judged.waiting };
    let (applied, withheld) = sort(judged.changes, options);
    if !options.force {
        refuse_conflicts(from, &applied)?;
    }
    let mut waits = imports.reports(&waiting);
    waits.retain(|report| report.waits && imports.is_written_later(&report.path));
    let imports = imports.without(&waiting);
    let taken = taken(&options.git_settings, &imports, folder)?;
    let git = |repositories| GitChanges { repositories, left: judged.left.clone(), ..GitChanges::default() };
    let mut keeps = Kept::of(&withheld);
    let mut keeps_outside = false;
    for path in &waiting {
        if from.repositories.is_outside(path) {
            keeps_outside = true;
        } else {
            keeps.push(Kept::all_at(path.clone()));
        }
    }
    keeps.sort_by(|a, b| a.path().cmp(b.path()));
    let is_nothing = applied.is_empty() && withheld.is_empty() && waiting.is_empty();
    if is_nothing && imports.is_empty() && taken.is_empty() && !git_changes::are_there(folder) {
        notes::forget(folder)?;
        return Ok(Applied { git: git(Vec::new()), ..Applied::default() });
    }
    // The tree is unchanged up to here, even if changes were refused.
    let steps = plan(from, &applied);
    room::needed(&from.upper, &from.host, &applied)
        .and_then(|needed| room::check(needed, free))
        .map_err(|source| WorkspaceError::new("copy the changes to", from.host.path(), source))?;
    let mut journal = Journal {
        version: VERSION,
        tree: from.host.path().to_owned(),
        stage: stage::name(),
        phase: Phase::Staging,
        keeps,
        keeps_outside,
        steps,
        repositories: imports.paths().map(|path| PathText(path.to_owned())).collect(),
        run,
        settings: taken.iter().map(|setting| (PathText(setting.common.clone()), setting.clone())).collect(),
    };
    // On disk before the stage: a later command can clean up after a crash from here on.
    journal.write(folder)?;
    if let Err(error) = fill(from, &applied, &mut journal, folder, fail_points) {
        recover(folder, fail_points)?;
        return Err(error);
    }
    stopped(fail_points, FailPoint::Staged)?;
    journal.advance(Phase::Committing, folder)?;
    stopped(fail_points, FailPoint::Journalled)?;
    let mut came = Vec::new();
    let import = |_: &Journal| imports.commit(&from.host, &taken, folder).map(|done| came = done);
    finish(journal, folder, import, fail_points)?;
    Ok(Applied { applied, withheld, git: git(came), waiting: waits })
}

/// The settings called `keys`, among those that wait and those that will.
fn taken(
    keys: &[String],
    imports: &Imports<'_>,
    folder: &Path,
) -> Result<Vec<WaitingSetting>, WorkspaceError> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let all = git_changes::merged(git_changes::read(folder)?, &imports.waiting());
    if let Some(key) = keys.iter().find(|key| !all.iter().any(|setting| setting.key == **key)) {
        return Err(WorkspaceError::NoSetting { key: key.clone() });
    }
    Ok(all.into_iter().filter(|setting| keys.contains(&setting.key)).collect())
}

/// A folder's content is checked again: its step's fingerprint was taken after the comparison.
fn refuse_conflicts(from: &Comparison, changes: &[Change]) -> Result<(), WorkspaceError> {
    let conflicts = |change: &Change| {
        let before = change.before.filter(|before| before.kind == Kind::Folder);
        change.conflict || before.is_some_and(|before| from.is_conflict(&change.path, Some(before)))
    };
    let paths: Vec<PathBuf> =
        changes.iter().filter(|change| conflicts(change)).map(|change| change.path.clone()).collect();
    if paths.is_empty() { Ok(()) } else { Err(WorkspaceError::Conflict { paths }) }
}

/// The changes to apply, and those to withhold. A change in a folder that is not created is
/// withheld too.
fn sort(changes: Vec<Change>, options: &ApplyOptions) -> (Vec<Change>, Vec<Change>) {
    let mut held: Vec<PathBuf> = Vec::new();
    changes.into_iter().partition(|change| {
        let stays = match change.withheld {
            Some(Withheld::Special) => true,
            Some(_) => !options.include_withheld,
            None => false,
        } || held.iter().any(|folder| change.path.starts_with(folder));
        if stays && change.entry == EntryKind::Folder && change.kind != ChangeKind::Removed {
            held.push(change.path.clone());
        }
        !stays
    })
}

/// One step per change, except for those in a folder that is placed as a whole.
fn plan(from: &Comparison, changes: &[Change]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for change in changes {
        let covered = steps.last().is_some_and(|step| step.puts && change.path.starts_with(&step.path));
        if !covered {
            steps.push(step(from, change, steps.len()));
        }
        let is_protected = change.withheld.is_some();
        if let Some(step) = steps.last_mut().filter(|step| is_protected && !step.is_protected(&change.path)) {
            step.protected.push(PathText(change.path.clone()));
        }
    }
    steps
}

fn step(from: &Comparison, change: &Change, number: usize) -> Step {
    let puts = change.kind != ChangeKind::Removed;
    Step {
        path: change.path.clone(),
        number,
        puts,
        swaps: puts
            && change.entry != EntryKind::Folder
            && change.before.is_some_and(|before| before.kind != Kind::Folder),
        expects: change.before.map(|before| before.stamp),
        before: change.before.and_then(|_| ContentFingerprint::of(&from.host, &change.path)),
        after: None,
        protected: Vec::new(),
        seal: None,
        // One that cannot be read is restored as it is.
        former: change
            .before
            .filter(|_| change.withheld.is_some())
            .and_then(|_| Seal::of(&from.host, &change.path, |_| true).ok()),
    }
}

/// Copies all new content into a stage.
fn fill(
    from: &Comparison,
    changes: &[Change],
    journal: &mut Journal,
    folder: &Path,
    fail_points: FailPoints<'_>,
) -> Result<(), WorkspaceError> {
    let root = from.host.path();
    let stage = Stage::create(&from.host, &journal.stage)
        .map_err(|source| WorkspaceError::new("create a folder in", root, source))?;
    let mut steps = journal.steps.iter().peekable();
    let mut current = None;
    let mut places = Vec::new();
    let mut sealed: Vec<Entries> = journal.steps.iter().map(|_| Entries::default()).collect();
    for change in changes {
        let failed = |source| WorkspaceError::new("copy", &change.path, source);
        let next = steps.next_if(|step| step.path == change.path);
        if next.is_some() {
            // Fails if the path leads through a link by now.
            from.host.parent(&change.path).map_err(failed)?;
        }
        current = next.or(current);
        // Nothing is removed from a folder that is placed as a whole.
        if let Some(step) = current.filter(|_| change.kind != ChangeKind::Removed) {
            let inner = change.path.strip_prefix(&step.path).unwrap_or(Path::new(""));
            let place = place(step, inner);
            let is_protected = step.is_protected(&change.path);
            // Before it is in the stage.
            let Some(entries) = sealed.get_mut(step.number) else { continue };
            if change.is_repository {
                let made = repositories::make(&from.upper, &change.path, folder)?;
                entries.add_all(inner, &made, Path::new(""), |_| is_protected).map_err(failed)?;
                stage.put_all(&made, &place, &mut places).map_err(failed)?;
            } else {
                entries.add(inner.to_owned(), &from.upper, &change.path, is_protected).map_err(failed)?;
                stage.put(from, change, &place, is_protected).map_err(failed)?;
                places.push(place);
            }
        }
        stopped(fail_points, FailPoint::Staged)?;
    }
    for (step, entries) in journal.steps.iter_mut().zip(sealed).filter(|(step, _)| step.puts) {
        step.after = ContentFingerprint::of(&stage.tree, &new(step.number));
        step.seal = Some(entries.seal());
    }
    sync::entries(&stage.tree, &places).map_err(|source| WorkspaceError::new("write", root, source))?;
    Ok(())
}

/// The place in the stage of what `step` places, or of `inner` in its folder.
fn place(step: &Step, inner: &Path) -> PathBuf {
    if inner.as_os_str().is_empty() { new(step.number) } else { new(step.number).join(inner) }
}

#[cfg(test)]
mod tests;

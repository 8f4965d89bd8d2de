//! Bringing the changes of a copy into its tree: stage, journal, commit.

use std::path::{Path, PathBuf};

use sandbox_files::tree::Kind;
use serde::Serialize;

use super::super::error::WorkspaceError;
use super::super::protection::Protection;
use super::change::{Change, ChangeKind, EntryKind, HeldBack};
use super::changes::Comparison;
use super::fail_point::{FailPoint, FailPoints, stopped};
use super::fingerprint::ContentFingerprint;
use super::finish::{finish, recover};
use super::journal::{Journal, Phase, Step, VERSION};
use super::keep::Kept;
use super::notes;
use super::repository::{self, OUTSIDE};
use super::room;
use super::stage::{self, Stage, new};
use super::sync;

/// What is applied.
#[derive(Debug, Clone, Default)]
pub struct ApplyOptions {
    /// What is held back.
    pub protection: Protection,
    /// Also what is protected or leads out of the tree.
    pub include_held_back: bool,
    /// Also what changed on the host meanwhile: the task's version wins.
    pub force: bool,
}

/// What was applied, and what was not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Applied {
    /// What the tree has now.
    pub applied: Vec<Change>,
    /// What it has not: it stays in the copy.
    pub held_back: Vec<Change>,
}

impl Applied {
    /// Of a work tree and of its repository, which is kept outside of it.
    pub(super) fn both(tree: Self, git: Self) -> Self {
        let place = |changes: Vec<Change>| {
            let placed = |change: Change| Change { path: Path::new(OUTSIDE).join(&change.path), ..change };
            changes.into_iter().map(placed)
        };
        let mut both = tree;
        both.applied.extend(place(git.applied));
        both.held_back.extend(place(git.held_back));
        both.applied.sort_by(|a, b| a.path.cmp(&b.path));
        both.held_back.sort_by(|a, b| a.path.cmp(&b.path));
        both
    }
}

/// Applies `changes` that `from` found, whose copy is kept in `folder`.
pub(super) fn apply(
    from: &Comparison,
    changes: Vec<Change>,
    folder: &Path,
    options: &ApplyOptions,
    fail_points: FailPoints<'_>,
) -> Result<Applied, WorkspaceError> {
    let free = from.host.folder(Path::new("")).and_then(room::free);
    let free = free.map_err(|source| WorkspaceError::new("look for room in", from.host.path(), source))?;
    apply_within(from, changes, folder, options, free, fail_points)
}

/// Refuses what would be refused for a conflict, before anything is applied.
pub(super) fn check(
    from: &Comparison,
    changes: Vec<Change>,
    options: &ApplyOptions,
) -> Result<(), WorkspaceError> {
    if options.force { Ok(()) } else { refuse_conflicts(from, &sort(changes, options).0) }
}

/// The same where `free` bytes may be used.
fn apply_within(
    from: &Comparison,
    changes: Vec<Change>,
    folder: &Path,
    options: &ApplyOptions,
    free: u64,
    fail_points: FailPoints<'_>,
) -> Result<Applied, WorkspaceError> {
    let (applied, held_back) = sort(changes, options);
    if applied.is_empty() && held_back.is_empty() {
        notes::forget(folder)?;
        return Ok(Applied::default());
    }
    let steps = plan(from, &applied);
    if !options.force {
        refuse_conflicts(from, &applied)?;
    }
    room::needed(&from.upper, &from.host, &applied)
        .and_then(|needed| room::check(needed, free))
        .map_err(|source| WorkspaceError::new("copy the changes to", from.host.path(), source))?;
    let mut journal = Journal {
        version: VERSION,
        tree: from.host.path().to_owned(),
        stage: stage::name(),
        phase: Phase::Staging,
        keeps: Kept::of(&held_back),
        steps,
    };
    journal.write(folder)?;
    if let Err(error) = fill(from, &applied, &mut journal, fail_points) {
        recover(folder, fail_points)?;
        return Err(error);
    }
    stopped(fail_points, FailPoint::Staged)?;
    journal.advance(Phase::Committing, folder)?;
    stopped(fail_points, FailPoint::Journalled)?;
    finish(journal, folder, fail_points)?;
    Ok(Applied { applied, held_back })
}

/// What a folder holds is looked at once more: the seal that its step has of it was made after the comparison.
fn refuse_conflicts(from: &Comparison, changes: &[Change]) -> Result<(), WorkspaceError> {
    let conflicts = |change: &Change| {
        let before = change.before.filter(|before| before.kind == Kind::Folder);
        change.conflict || before.is_some_and(|before| from.is_conflict(&change.path, Some(before)))
    };
    let place = Path::new(from.place);
    let paths: Vec<PathBuf> =
        changes.iter().filter(|change| conflicts(change)).map(|change| place.join(&change.path)).collect();
    if paths.is_empty() { Ok(()) } else { Err(WorkspaceError::Conflict { paths }) }
}

/// What is applied, and what is not. What lies in a folder that is not made is not either.
fn sort(changes: Vec<Change>, options: &ApplyOptions) -> (Vec<Change>, Vec<Change>) {
    let mut held: Vec<PathBuf> = Vec::new();
    changes.into_iter().partition(|change| {
        let stays = match change.held_back {
            Some(HeldBack::Special) => true,
            Some(_) => !options.include_held_back,
            None => false,
        } || held.iter().any(|folder| change.path.starts_with(folder));
        if stays && change.entry == EntryKind::Folder && change.kind != ChangeKind::Removed {
            held.push(change.path.clone());
        }
        !stays
    })
}

/// One step for each change, but for what lies in a folder that is put as a whole.
fn plan(from: &Comparison, changes: &[Change]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for change in changes {
        let covered = steps.last().is_some_and(|step| step.puts && change.path.starts_with(&step.path));
        if !covered {
            steps.push(step(from, change, steps.len()));
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
    }
}

/// Copies everything new into a stage.
fn fill(
    from: &Comparison,
    changes: &[Change],
    journal: &mut Journal,
    fail_points: FailPoints<'_>,
) -> Result<(), WorkspaceError> {
    let root = from.host.path();
    let stage = Stage::create(&from.host, &journal.stage)
        .map_err(|source| WorkspaceError::new("make a folder in", root, source))?;
    let mut steps = journal.steps.iter().peekable();
    let mut current = None;
    let mut places = Vec::new();
    for change in changes {
        let failed = |source| WorkspaceError::new("copy", &change.path, source);
        let next = steps.next_if(|step| step.path == change.path);
        if next.is_some() {
            // Fails where the way there is a link by now.
            from.host.parent(&change.path).map_err(failed)?;
        }
        current = next.or(current);
        // Of a folder that is put as a whole nothing is removed.
        if let Some(step) = current.filter(|_| change.kind != ChangeKind::Removed) {
            let place = place(step, &change.path);
            stage.put(from, change, &place).map_err(failed)?;
            places.push(place);
        }
        stopped(fail_points, FailPoint::Staged)?;
    }
    for step in journal.steps.iter_mut().filter(|step| step.puts) {
        step.after = ContentFingerprint::of(&stage.tree, &new(step.number));
    }
    sync::entries(&stage.tree, &places).map_err(|source| WorkspaceError::new("write", root, source))?;
    journal.steps.sort_by_key(|step| repository::order(&Path::new(from.place).join(&step.path)));
    Ok(())
}

/// Where `path`, which `step` puts or which lies in what it puts, waits in the stage.
fn place(step: &Step, path: &Path) -> PathBuf {
    match path.strip_prefix(&step.path) {
        Ok(inner) if !inner.as_os_str().is_empty() => new(step.number).join(inner),
        _ => new(step.number),
    }
}

#[cfg(test)]
mod tests;

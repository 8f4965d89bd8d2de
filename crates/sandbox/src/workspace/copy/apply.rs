//! Bringing the changes of a copy into its tree: stage, journal, commit.

use std::io;
use std::path::{Path, PathBuf};

use super::super::error::WorkspaceError;
use super::super::protection::Protection;
use super::super::tree::{Kind, Tree};
use super::changes::{Change, ChangeKind, Comparison, EntryKind, HeldBack};
use super::journal::{Journal, Phase, Step};
use super::stage::{self, Stage, new};
use super::{commit, state};

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
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Applied {
    /// What the tree has now.
    pub applied: Vec<Change>,
    /// What it has not: it stays in the copy.
    pub held_back: Vec<Change>,
}

/// A moment at which a test makes an apply stop as if the power had failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    Staged,
    Journalled,
    Stepped,
    Committed,
    Cleaned,
}

/// Whether to go on.
pub(super) type Witness<'a> = &'a mut dyn FnMut(Moment) -> bool;

/// Applies what `from` compares, whose copy is kept in `folder`.
pub(super) fn apply(
    from: &Comparison,
    folder: &Path,
    options: &ApplyOptions,
    witness: Witness<'_>,
) -> Result<Applied, WorkspaceError> {
    let (applied, held_back) = sort(from.changes(&options.protection)?, options);
    let conflicts: Vec<PathBuf> = applied
        .iter()
        .filter(|change| change.conflict && !options.force)
        .map(|change| change.path.clone())
        .collect();
    if !conflicts.is_empty() {
        return Err(WorkspaceError::Conflict { paths: conflicts });
    }
    let mut journal = Journal {
        version: 1,
        tree: from.host.path().to_owned(),
        stage: stage::name(),
        phase: Phase::Staging,
        keeps: held_back
            .iter()
            .any(|change| change.held_back != Some(HeldBack::Special)),
        steps: Vec::new(),
    };
    journal.write(folder)?;
    match fill(from, &applied, &journal.stage, witness) {
        Ok(steps) => journal.steps = steps,
        Err(error) => {
            recover(folder)?;
            return Err(error);
        }
    }
    stopped(witness, Moment::Staged)?;
    journal.phase = Phase::Committing;
    journal.write(folder)?;
    stopped(witness, Moment::Journalled)?;
    finish(journal, folder, witness)?;
    Ok(Applied { applied, held_back })
}

/// Finishes or undoes what an apply that ended in its middle left in `folder`.
pub(super) fn recover(folder: &Path) -> Result<(), WorkspaceError> {
    match Journal::read(folder)? {
        Some(journal) => finish(journal, folder, &mut |_| true),
        None => Ok(()),
    }
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

/// Copies everything new into a stage; gives the steps that bring it into the tree.
fn fill(
    from: &Comparison,
    changes: &[Change],
    name: &str,
    witness: Witness<'_>,
) -> Result<Vec<Step>, WorkspaceError> {
    let root = from.host.path();
    let stage =
        Stage::create(root, name).map_err(|source| WorkspaceError::new("make a folder in", root, source))?;
    let mut steps: Vec<Step> = Vec::new();
    for change in changes {
        let failed = |source| WorkspaceError::new("copy", &change.path, source);
        let outer = steps
            .last()
            .filter(|step| step.puts && change.path.starts_with(&step.path));
        if let Some(step) = outer {
            let inner = change.path.strip_prefix(&step.path).unwrap_or(&change.path);
            // Of a folder that is put as a whole nothing is removed.
            if change.kind != ChangeKind::Removed {
                stage
                    .copy(from, &change.path, &new(step.number).join(inner))
                    .map_err(failed)?;
            }
        } else {
            let step = step(from, change, steps.len()).map_err(failed)?;
            if step.puts {
                stage
                    .copy(from, &change.path, &new(step.number))
                    .map_err(failed)?;
            }
            steps.push(step);
        }
        stopped(witness, Moment::Staged)?;
    }
    let synced = stage
        .tree
        .folder(Path::new(""))
        .and_then(|folder| Ok(rustix::fs::syncfs(folder)?));
    synced.map_err(|source| WorkspaceError::new("write", root, source))?;
    Ok(steps)
}

fn step(from: &Comparison, change: &Change, number: usize) -> io::Result<Step> {
    let before = from.host.facts(&change.path)?;
    // Fails where the way there is a link by now.
    from.host.parent(&change.path)?;
    let puts = change.kind != ChangeKind::Removed;
    Ok(Step {
        path: change.path.clone(),
        number,
        puts,
        swaps: puts
            && change.entry != EntryKind::Folder
            && before.is_some_and(|before| before.kind != Kind::Folder),
        expects: before.map(|before| before.stamp),
    })
}

/// Goes on from wherever the journal says.
fn finish(mut journal: Journal, folder: &Path, witness: Witness<'_>) -> Result<(), WorkspaceError> {
    let root = journal.tree.clone();
    if matches!(journal.phase, Phase::Committing | Phase::Undoing) {
        let failed = |source| WorkspaceError::new("open", &root, source);
        let host = Tree::open(&root).map_err(failed)?;
        let stage = Stage::open(&root, &journal.stage).map_err(failed)?;
        let mut failure = None;
        if journal.phase == Phase::Committing {
            failure = commit_all(&host, &stage, &journal.steps, witness)?;
            if failure.is_none() {
                journal.phase = Phase::Done;
                let _ = host.folder(Path::new("")).map(rustix::fs::syncfs);
            } else {
                journal.phase = Phase::Undoing;
            }
            journal.write(folder)?;
        }
        if journal.phase == Phase::Undoing {
            undo_all(&host, &stage, &journal.steps)?;
            clean(&journal, folder)?;
            return match failure {
                Some((path, source)) => Err(WorkspaceError::RolledBack { path, source }),
                None => Ok(()),
            };
        }
        stopped(witness, Moment::Committed)?;
    }
    let done = journal.phase == Phase::Done;
    if done {
        stage::remove(&root, &journal.stage)
            .map_err(|source| WorkspaceError::new("clean up in", &root, source))?;
        stopped(witness, Moment::Cleaned)?;
        if journal.keeps {
            state::note_beginning(&root, folder)?;
            return Journal::remove(folder);
        }
        return state::remove(folder);
    }
    clean(&journal, folder)
}

/// Removes the stage and the journal; the copy stays.
fn clean(journal: &Journal, folder: &Path) -> Result<(), WorkspaceError> {
    let root = &journal.tree;
    stage::remove(root, &journal.stage).map_err(|source| WorkspaceError::new("clean up in", root, source))?;
    Journal::remove(folder)
}

/// Does all steps. A step that fails is told; what was done before it is not undone yet.
fn commit_all(
    host: &Tree,
    stage: &Stage,
    steps: &[Step],
    witness: Witness<'_>,
) -> Result<Option<(PathBuf, io::Error)>, WorkspaceError> {
    for step in steps {
        if let Err(error) = commit::forward(host, stage, step) {
            return Ok(Some((step.path.clone(), error)));
        }
        stopped(witness, Moment::Stepped)?;
    }
    Ok(None)
}

fn undo_all(host: &Tree, stage: &Stage, steps: &[Step]) -> Result<(), WorkspaceError> {
    for step in steps.iter().rev() {
        commit::backward(host, stage, step).map_err(|source| WorkspaceError::HalfDone {
            path: step.path.clone(),
            kept: stage.tree.path().join(stage::old(step.number)),
            source,
        })?;
    }
    Ok(())
}

/// Only a test ever stops it here.
fn stopped(witness: Witness<'_>, moment: Moment) -> Result<(), WorkspaceError> {
    if witness(moment) {
        return Ok(());
    }
    Err(WorkspaceError::unreadable(Path::new(""), "stopped by a test"))
}

#[cfg(test)]
mod tests;

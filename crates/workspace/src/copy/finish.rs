//! The second half of an apply, which the next command performs if the first was interrupted.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use sandbox_files::tree::Tree;

use super::super::error::WorkspaceError;
use super::super::git_view::{RepositoryChanges, git_changes};
use super::commit::{self, Rollback};
use super::fail_point::{FailPoint, FailPoints, stopped};
use super::imports::{self, Failed};
use super::journal::{Journal, Phase, Step};
use super::stage::{self, Stage};
use super::{notes, sync};

/// Finishes or undoes an apply in `folder` that was interrupted.
pub(super) fn recover(folder: &Path, fail_points: FailPoints<'_>) -> Result<(), WorkspaceError> {
    match Journal::read(folder)? {
        Some(journal) => {
            let again = |journal: &Journal| {
                imports::again(journal, folder)?.iter().for_each(report);
                Ok(())
            };
            finish(journal, folder, again, fail_points)
        }
        None => Ok(()),
    }
}

/// Logs the changes of an interrupted apply, which nobody else reports.
fn report(done: &RepositoryChanges) {
    let left = done.report.left.iter().map(|left| left.path.as_str()).collect::<Vec<_>>().join(", ");
    tracing::warn!(
        repository = %done.path.display().to_string().escape_debug(),
        refs = done.report.refs.len(),
        stays_behind = %left.escape_debug(),
        "finished an interrupted apply"
    );
}

/// Abandons an apply that [`recover`] cannot finish; the parts done so far remain. Returns whether
/// nothing is left to do.
pub(super) fn abandon(folder: &Path) -> Result<bool, WorkspaceError> {
    match Journal::read(folder) {
        // It was undone, or nothing is known about it.
        Ok(None) | Err(WorkspaceError::Unreadable { .. }) => Ok(true),
        Err(error) => Err(error),
        // The files are in place, and a part of the repositories' changes.
        Ok(Some(journal)) if journal.phase == Phase::Importing => {
            end(&journal, folder, &mut |_| true).map(|()| true)
        }
        Ok(Some(_)) => Ok(false),
    }
}

/// Continues from the journal's phase. `import` writes to repositories.
pub(super) fn finish(
    mut journal: Journal,
    folder: &Path,
    import: impl FnOnce(&Journal) -> Result<(), Failed>,
    fail_points: FailPoints<'_>,
) -> Result<(), WorkspaceError> {
    match journal.phase {
        Phase::Committing | Phase::Importing | Phase::Undoing => {
            let (host, stage) = opened(&journal, folder)?;
            carry_out(&mut journal, folder, (&host, &stage), import, fail_points)
        }
        Phase::Done => end(&journal, folder, fail_points),
        Phase::Staging => clean(&journal, folder, fail_points),
    }
}

/// The tree and the stage. If one of them is gone, nothing can be finished or undone: that is
/// reported once.
fn opened(journal: &Journal, folder: &Path) -> Result<(Tree, Stage), WorkspaceError> {
    let stage = journal.tree.join(&journal.stage);
    let opened = Tree::open(&journal.tree).and_then(|host| {
        let stage = Stage::open(&host, &journal.stage)?;
        Ok((host, stage))
    });
    if matches!(&opened, Err(error) if error.kind() == io::ErrorKind::NotFound) {
        Journal::remove(folder)?;
    }
    opened.map_err(|source| WorkspaceError::new("open", &stage, source))
}

fn carry_out(
    journal: &mut Journal,
    folder: &Path,
    (host, stage): (&Tree, &Stage),
    import: impl FnOnce(&Journal) -> Result<(), Failed>,
    fail_points: FailPoints<'_>,
) -> Result<(), WorkspaceError> {
    let mut failure = None;
    if journal.phase == Phase::Committing {
        let rolled_back = |(path, source)| WorkspaceError::RolledBack { path, source };
        failure = commit_all(host, stage, &journal.steps, fail_points)?.map(rolled_back);
        if failure.is_none() {
            let _ = sync::entries(host, &folders_of(&journal.steps));
            journal.advance(Phase::Importing, folder)?;
            stopped(fail_points, FailPoint::Importing)?;
        }
    }
    if journal.phase == Phase::Importing {
        match import(journal) {
            Ok(()) => {
                stopped(fail_points, FailPoint::Imported)?;
                journal.advance(Phase::Done, folder)?;
                stopped(fail_points, FailPoint::Committed)?;
                return end(journal, folder, fail_points);
            }
            Err(Failed { is_begun: true, error }) => return Err(error),
            Err(Failed { error, .. }) => failure = Some(error),
        }
    }
    if failure.is_some() {
        is_noted(journal, Phase::Undoing, folder);
        stopped(fail_points, FailPoint::Failed)?;
    }
    let kept = undo_all(host, stage, &journal.steps, fail_points)?;
    if let Some(error) = kept {
        // The replaced entries are in the stage, which remains from now on.
        Journal::remove(folder)?;
        return Err(error);
    }
    // From here on there is no record of the steps: the stage is only removed.
    let _ = sync::entries(host, &folders_of(&journal.steps));
    if !is_noted(journal, Phase::Staging, folder) {
        Journal::remove(folder)?;
    }
    clean(journal, folder, fail_points)?;
    failure.map_or(Ok(()), Err)
}

/// The folders whose entries `steps` change.
fn folders_of(steps: &[Step]) -> Vec<PathBuf> {
    let folders: BTreeSet<&Path> = steps.iter().filter_map(|step| step.path.parent()).collect();
    folders.into_iter().map(Path::to_owned).collect()
}

/// Records the progress of undoing. A full disk does not prevent it: a later command that finds the
/// earlier phase repeats the steps, or undoes them.
fn is_noted(journal: &mut Journal, phase: Phase, folder: &Path) -> bool {
    let noted = journal.advance(phase, folder);
    if let Err(error) = &noted {
        tracing::warn!(%error, "failed to record that an apply is being undone");
    }
    noted.is_ok()
}

/// The tree is in its final state: removes the rest, and the copy unless that has more changes.
fn end(journal: &Journal, folder: &Path, fail_points: FailPoints<'_>) -> Result<(), WorkspaceError> {
    stopped(fail_points, FailPoint::Cleaning)?;
    stage::remove(&journal.tree, &journal.stage);
    stopped(fail_points, FailPoint::Cleaned)?;
    if journal.keeps.is_empty() && !journal.keeps_outside && !git_changes::are_there(folder) {
        return notes::forget(folder);
    }
    notes::keep(&journal.keeps, journal.keeps_outside, &journal.tree, folder)?;
    Journal::remove(folder)
}

/// Removes the stage and the journal; the copy remains.
fn clean(journal: &Journal, folder: &Path, fail_points: FailPoints<'_>) -> Result<(), WorkspaceError> {
    stopped(fail_points, FailPoint::Cleaning)?;
    stage::remove(&journal.tree, &journal.stage);
    stopped(fail_points, FailPoint::Cleaned)?;
    Journal::remove(folder)
}

/// Performs all steps. A failed step is reported; the steps before it are not undone yet.
fn commit_all(
    host: &Tree,
    stage: &Stage,
    steps: &[Step],
    fail_points: FailPoints<'_>,
) -> Result<Option<(PathBuf, io::Error)>, WorkspaceError> {
    for step in steps {
        if let Err(error) = commit::forward(host, stage, step) {
            return Ok(Some((step.path.clone(), error)));
        }
        stopped(fail_points, FailPoint::Stepped)?;
    }
    Ok(None)
}

/// Undoes all steps. Entries that were changed meanwhile remain as they are, and are reported when
/// the rest is undone.
fn undo_all(
    host: &Tree,
    stage: &Stage,
    steps: &[Step],
    fail_points: FailPoints<'_>,
) -> Result<Option<WorkspaceError>, WorkspaceError> {
    let mut kept = None;
    for step in steps.iter().rev() {
        let half_done = |source| WorkspaceError::HalfDone {
            path: step.path.clone(),
            kept: step.expects.map(|_| stage.tree.path().join(stage::old(step.number))),
            source,
        };
        if commit::backward(host, stage, step).map_err(half_done)? == Rollback::Theirs {
            let since = io::Error::new(io::ErrorKind::ResourceBusy, "it was changed after it was applied");
            kept.get_or_insert(half_done(since));
        }
        stopped(fail_points, FailPoint::Undone)?;
    }
    Ok(kept)
}

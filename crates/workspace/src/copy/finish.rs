//! The second half of an apply, which the next command does too where the first was interrupted.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use sandbox_files::tree::Tree;

use super::super::error::WorkspaceError;
use super::super::git_view::{RepositoryChanges, git_changes};
use super::commit::{self, Undone};
use super::fail_point::{FailPoint, FailPoints, stopped};
use super::imports::{self, Failed};
use super::journal::{Journal, Phase, Step};
use super::stage::{self, Stage};
use super::{notes, sync};

/// Finishes or undoes what an apply that ended in its middle left in `folder`.
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

/// Nobody else says what came by an apply that was interrupted.
fn report(done: &RepositoryChanges) {
    let left = done.report.left.iter().map(|left| left.path.as_str()).collect::<Vec<_>>().join(", ");
    tracing::warn!(
        repository = %done.path.display().to_string().escape_debug(),
        refs = done.report.refs.len(),
        stays_behind = %left.escape_debug(),
        "what an interrupted apply had begun is done"
    );
}

/// Gives up what [`recover`] cannot finish: what came until then stays. Whether nothing is left to be done.
pub(super) fn abandon(folder: &Path) -> Result<bool, WorkspaceError> {
    match Journal::read(folder)? {
        // It was undone.
        None => Ok(true),
        // The files are there, and a part of what is in repositories.
        Some(journal) if journal.phase == Phase::Importing => {
            end(&journal, folder, &mut |_| true).map(|()| true)
        }
        Some(_) => Ok(false),
    }
}

/// Goes on from wherever the journal says. `import` writes to repositories.
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

/// Tree and stage. Where one of them is gone, nothing can be finished or undone: that is said once.
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
        // What was replaced is in the stage, which stays where it is from now on.
        Journal::remove(folder)?;
        return Err(error);
    }
    // From here on nothing says any more which steps were done: the stage only goes.
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

/// Notes how far undoing has come. A full disk does not prevent it: a later command that finds the earlier phase does the steps again, or
/// undoes them.
fn is_noted(journal: &mut Journal, phase: Phase, folder: &Path) -> bool {
    let noted = journal.advance(phase, folder);
    if let Err(error) = &noted {
        tracing::warn!(%error, "that an apply is being undone could not be noted");
    }
    noted.is_ok()
}

/// The tree is as it should be: removes what is left, and the copy with it unless that has more.
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

/// Removes the stage and the journal; the copy stays.
fn clean(journal: &Journal, folder: &Path, fail_points: FailPoints<'_>) -> Result<(), WorkspaceError> {
    stopped(fail_points, FailPoint::Cleaning)?;
    stage::remove(&journal.tree, &journal.stage);
    stopped(fail_points, FailPoint::Cleaned)?;
    Journal::remove(folder)
}

/// Does all steps. A step that fails is reported; what was done before it is not undone yet.
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

/// Undoes all steps. What was changed since stays as it is, and is reported when the rest is undone.
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
        if commit::backward(host, stage, step).map_err(half_done)? == Undone::Theirs {
            let since = io::Error::new(io::ErrorKind::ResourceBusy, "it was changed after it was applied");
            kept.get_or_insert(half_done(since));
        }
        stopped(fail_points, FailPoint::Undone)?;
    }
    Ok(kept)
}

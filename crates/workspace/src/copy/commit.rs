//! The steps of an apply. Each can be repeated after it was done, and undone; neither changes
//! entries that others wrote meanwhile.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, RenameFlags, linkat, renameat, renameat_with};
use rustix::io::Errno;

use sandbox_files::tree::{Facts, Kind, Tree, is_absence};

use super::super::error::sanitized;
use super::super::fingerprint::ContentFingerprint;
use super::journal::Step;
use super::seal::Seal;
use super::stage::{Stage, new, old};

/// The outcome of undoing a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rollback {
    /// The former entry has been restored.
    Fully,
    /// The new entry was changed meanwhile: it remains, and the entry that it replaced remains in
    /// the stage.
    Theirs,
}

/// Performs one step, or the rest of it. The replaced or removed entry is kept in the stage.
pub(super) fn forward(host: &Tree, stage: &Stage, step: &Step) -> io::Result<()> {
    let waits = step.puts && stage.tree.facts(&new(step.number))?.is_some();
    if step.puts && !waits {
        return Ok(());
    }
    let (folder, name) = host.parent(&step.path)?;
    let stage_folder = stage.tree.folder(Path::new(""))?;
    refuse_written(stage, step, (&stage.tree, &new(step.number)))?;
    let replaces = match kept(stage, step)? {
        Some(kept) => holds_former(host, step, &kept)?,
        None => keep(host, step, &folder, &stage_folder)?,
    };
    if !step.puts {
        return Ok(());
    }
    let new = new(step.number);
    if replaces {
        renameat(&stage_folder, &new, &folder, name)?;
    } else {
        match renameat_with(&stage_folder, &new, &folder, name, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => return Err(changed()),
            renamed => renamed?,
        }
    }
    refuse_placed(host, stage, step)
}

/// Takes back an entry that a task wrote to after it was looked at in the stage. What a task that
/// still runs writes to it later is found when that ends: it is a change at a protected path.
pub(super) fn refuse_placed(host: &Tree, stage: &Stage, step: &Step) -> io::Result<()> {
    let refused = refuse_written(stage, step, (host, &step.path));
    if refused.is_err() {
        let (folder, name) = host.parent(&step.path)?;
        renameat(&folder, name, stage.tree.folder(Path::new(""))?, new(step.number))?;
    }
    refused
}

/// Refuses what `step` puts, now at `path` of `tree`, if it is not what the copy had.
fn refuse_written(stage: &Stage, step: &Step, (tree, path): (&Tree, &Path)) -> io::Result<()> {
    let is_protected = |inner: &Path| step.is_protected(&step.path.join(inner));
    if !step.puts {
        return Ok(());
    }
    let seal = Seal::of(tree, path, is_protected).ok();
    if seal.is_some() && seal == step.seal {
        return Ok(());
    }
    let place = sanitized(&stage.tree.path().join(new(step.number)));
    Err(io::Error::other(format!(
        "a program changed it where it waited, in `{place}`, perhaps a task that works on this tree itself; \
         apply it again when no such task runs"
    )))
}

/// The former entry, if the stage has it.
fn kept(stage: &Stage, step: &Step) -> io::Result<Option<Facts>> {
    // A task made any other entry of that name.
    if step.expects.is_none() { Ok(None) } else { stage.tree.facts(&old(step.number)) }
}

/// Keeps the former entry; returns whether it still exists under both names.
fn keep(host: &Tree, step: &Step, folder: &OwnedFd, stage_folder: &OwnedFd) -> io::Result<bool> {
    let Some(expected) = step.expects else {
        return Ok(false);
    };
    let Some(is) = host.facts(&step.path)?.filter(|is| is.stamp == expected) else {
        return Err(changed());
    };
    // A folder's stamp does not cover deeper entries.
    if is.kind == Kind::Folder && ContentFingerprint::of(host, &step.path) != step.before {
        return Err(changed());
    }
    let (folder, name) = (folder, step.path.file_name().unwrap_or_default());
    let old = old(step.number);
    let linked = step.swaps && linkat(folder, name, stage_folder, &old, AtFlags::empty()).is_ok();
    if !linked {
        renameat(folder, name, stage_folder, &old)?;
    }
    Ok(linked)
}

/// After a crash: whether the `kept` entry is still in its place too, unchanged.
fn holds_former(host: &Tree, step: &Step, kept: &Facts) -> io::Result<bool> {
    match host.facts(&step.path)? {
        None => Ok(false),
        _ if !step.puts => Ok(false),
        Some(is) if is.is_same_file(kept) && ContentFingerprint::of(host, &step.path) == step.before => {
            Ok(true)
        }
        Some(_) => Err(changed()),
    }
}

/// Undoes one step, or the part of it that was done.
pub(super) fn backward(host: &Tree, stage: &Stage, step: &Step) -> io::Result<Rollback> {
    let waits = stage.tree.facts(&new(step.number))?;
    let kept = kept(stage, step)?;
    let was_put = step.puts && waits.is_none();
    // A step with a former entry keeps that first, and restores it last.
    if kept.is_none() && (!was_put || step.expects.is_some()) {
        return Ok(Rollback::Fully);
    }
    // A task wrote to it in the stage, where it remains.
    if kept.is_some()
        && step.former.is_some()
        && Seal::of(&stage.tree, &old(step.number), |_| true).ok() != step.former
    {
        return Ok(Rollback::Theirs);
    }
    let (folder, name) = match host.parent(&step.path) {
        Err(error) if is_absence(&error) => return Ok(lost(kept.is_some())),
        found => found?,
    };
    let stage_folder = stage.tree.folder(Path::new(""))?;
    let mut is = host.facts(&step.path)?;
    if was_put && is.is_some() {
        if ContentFingerprint::of(host, &step.path) != step.after {
            return Ok(Rollback::Theirs);
        }
        // From then on it counts as not placed: undoing the step a second time changes nothing.
        let place = new(step.number);
        let linked = kept.is_some()
            && step.swaps
            && linkat(&folder, name, &stage_folder, &place, AtFlags::empty()).is_ok();
        if !linked {
            renameat(&folder, name, &stage_folder, &place)?;
            is = None;
        }
    }
    let Some(kept) = kept else {
        return Ok(Rollback::Fully);
    };
    let old = old(step.number);
    match is {
        None => match renameat_with(&stage_folder, &old, &folder, name, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => Ok(Rollback::Theirs),
            renamed => Ok(renamed.map(|()| Rollback::Fully)?),
        },
        // It was only linked, and never replaced.
        Some(is) if is.is_same_file(&kept) => Ok(Rollback::Fully),
        Some(is) if is_put(stage, step, &is) && ContentFingerprint::of(host, &step.path) == step.after => {
            renameat(&stage_folder, &old, &folder, name)?;
            Ok(Rollback::Fully)
        }
        Some(_) => Ok(Rollback::Theirs),
    }
}

/// Whether the entry `is` is the one that was placed, and linked into the stage again.
fn is_put(stage: &Stage, step: &Step, is: &Facts) -> bool {
    let waits = stage.tree.facts(&new(step.number)).ok().flatten();
    step.puts && waits.is_some_and(|waits| waits.is_same_file(is))
}

/// The outcome if the folder of the step is gone.
fn lost(kept: bool) -> Rollback {
    if kept { Rollback::Theirs } else { Rollback::Fully }
}

fn changed() -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, "it changed on the host just now")
}

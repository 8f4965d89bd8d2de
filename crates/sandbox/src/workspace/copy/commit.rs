//! The steps of an apply. Each can be done again after it was done, and undone.

use std::io;
use std::path::Path;

use rustix::fs::{AtFlags, RenameFlags, linkat, renameat, renameat_with};
use rustix::io::Errno;

use super::super::tree::Tree;
use super::journal::Step;
use super::stage::{Stage, new, old};

/// Does one step, or what is left of it. What is replaced or taken away is kept in the stage.
pub(super) fn forward(host: &Tree, stage: &Stage, step: &Step) -> io::Result<()> {
    let waits = step.puts && stage.tree.facts(&new(step.number))?.is_some();
    if step.puts && !waits {
        return Ok(());
    }
    let (folder, name) = host.parent(&step.path)?;
    let kept = stage.tree.facts(&old(step.number))?.is_some();
    if let (Some(expected), false) = (step.expects, kept) {
        let is = host.facts(&step.path)?.map(|facts| facts.stamp);
        if is != Some(expected) {
            return Err(changed());
        }
        let (stage_folder, old) = (stage.tree.folder(Path::new(""))?, old(step.number));
        let linked = step.swaps && linkat(&folder, name, &stage_folder, &old, AtFlags::empty()).is_ok();
        if !linked {
            renameat(&folder, name, &stage_folder, &old)?;
        }
    }
    if !step.puts {
        return Ok(());
    }
    let (stage_folder, new) = (stage.tree.folder(Path::new(""))?, new(step.number));
    if step.expects.is_some() && step.swaps {
        return Ok(renameat(&stage_folder, &new, &folder, name)?);
    }
    match renameat_with(&stage_folder, &new, &folder, name, RenameFlags::NOREPLACE) {
        Err(Errno::EXIST) => Err(changed()),
        renamed => Ok(renamed?),
    }
}

/// Undoes one step, or as much of it as was done.
pub(super) fn backward(host: &Tree, stage: &Stage, step: &Step) -> io::Result<()> {
    let (folder, name) = host.parent(&step.path)?;
    let stage_folder = stage.tree.folder(Path::new(""))?;
    let was_put = step.puts && stage.tree.facts(&new(step.number))?.is_none();
    let kept = stage.tree.facts(&old(step.number))?.is_some();
    if was_put {
        // From then on it counts as not put: undoing this a second time changes nothing.
        let place = new(step.number);
        let linked =
            kept && step.swaps && linkat(&folder, name, &stage_folder, &place, AtFlags::empty()).is_ok();
        if !linked {
            match renameat(&folder, name, &stage_folder, &place) {
                Err(Errno::NOENT) => {}
                moved => moved?,
            }
        }
    }
    if kept {
        renameat(&stage_folder, old(step.number), &folder, name)?;
    }
    Ok(())
}

fn changed() -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, "it changed on the host just now")
}

//! `--result DIR`: a copy of the work tree that has the changes of a bundle's result, to be shown or
//! applied.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use sandbox::host_path::Found;
use sandbox::workspace::{WorkspaceCopy, ignored_paths, remove_folder};
use sandbox::{Outcome, SandboxConfig};
use sandbox_bundle::{Bundle, Changes, Ended, Entry, Listing, RunResult, Task};
use sandbox_files::tree::{Kind, Tree};

use super::bundle;
use crate::args::ResultArgs;
use crate::bundle_result::{CHANGES, RECORD, files};
use crate::config::{Environment, demand_ours};
use crate::failure::{Failure, with_causes};
use crate::printer::{Printer, sanitize_name};
use crate::settings::TrustedProject;
use crate::workspace_copy::{CopySummary, settled};

/// Bytes of `result.json`, with 1,000 long paths.
const LONGEST_RECORD: u64 = 16 << 20;

/// A result of which every file was verified.
#[derive(Debug)]
struct VerifiedResult {
    record: RunResult,
    changes: Found,
    shown: String,
}

/// Calls `act` with the copy of the project, which gets the changes of the result in `args`; after an
/// error, there is no copy. Reports what the result lacks, and what is left out of it.
pub(super) async fn with_result<T>(
    args: &ResultArgs,
    project: &TrustedProject,
    sandbox: impl FnOnce() -> Result<SandboxConfig, Failure>,
    environment: &Environment,
    printer: Printer,
    act: impl FnOnce(WorkspaceCopy) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let folder = project.copy_dir();
    // Also finishes or undoes an apply that was killed.
    if settled(&folder, sandbox).await?.is_some() {
        let pending = CopySummary::of(&folder, &project.protection(false));
        if pending != CopySummary::default() {
            let problem = format!("the copy of the work tree has changes that wait: {pending}");
            return Err(Failure::new(problem).with_hint("apply or discard them first"));
        }
        WorkspaceCopy::discard_in(&folder)?;
    }
    let result = VerifiedResult::read(args.result.as_deref().unwrap_or(Path::new(".")), project)?;
    let bundle = bundle_of(&result, args.bundle.as_deref(), project)?;
    if matches!(bundle.manifest.settings.task, Task::Agent(_)) != result.record.outcome.agent.is_some() {
        let problem = "is not a result of its bundle: one is of an agent, the other of a command";
        return Err(Failure::new(format!("`{}` {problem}", result.shown)));
    }
    let mut ignored = 0;
    let adopted = WorkspaceCopy::adopt(&project.root, &folder, |layer| {
        let (conflicts, left_out) = laid_out(&result, &bundle.tree, layer, project, environment, printer)?;
        ignored = left_out;
        Ok::<_, Failure>(conflicts)
    });
    let acted = adopted.and_then(|copy| {
        result.report(ignored, printer);
        act(copy)
    });
    if acted.is_err()
        && let Err(error) = WorkspaceCopy::discard_in(&folder)
    {
        printer.warning(format_args!("failed to remove `{}`: {}", folder.display(), with_causes(&error)));
    }
    acted
}

impl VerifiedResult {
    fn read(path: &Path, project: &TrustedProject) -> Result<Self, Failure> {
        let folder = project.resolver.find(path)?;
        let shown = sanitize_name(&folder.path().display().to_string());
        // It could be another one after it was looked at.
        demand_ours(&folder)?;
        let (record, changes) =
            verified(&folder).map_err(Failure::doing(format!("read `{shown}` as a result")))?;
        Ok(Self { record, changes, shown })
    }

    fn report(&self, ignored: usize, printer: Printer) {
        let (outcome, shown) = (&self.record.outcome, &self.shown);
        let agent = outcome.agent.as_ref().map(|agent| agent.summary.outcome);
        match (outcome.ended, agent, outcome.exit_code) {
            (Ended::TimedOut, _, _) => printer.warning("the run reached its time limit"),
            (Ended::Exited, Some(Outcome::Success) | None, 0) => {}
            (Ended::Exited, Some(agent), _) => {
                printer.warning(format_args!("the agent ended with outcome {}", agent.as_str()));
            }
            (Ended::Exited, None, code) => {
                printer.warning(format_args!("the command ended with exit code {code}"));
            }
        }
        if !outcome.omitted.is_empty() {
            printer.warning(format_args!("{shown} lacks changes: see `omitted` in result.json"));
        }
        match ignored {
            0 => {}
            1 => printer.message("1 new path that git ignores here is left out"),
            count => printer.message(format_args!("{count} new paths that git ignores here are left out")),
        }
    }
}

/// The record of the result in `folder`, and its changes, which are verified when they are unpacked.
pub(super) fn verified(folder: &Found) -> anyhow::Result<(RunResult, Found)> {
    let child = |name: &str| folder.child(OsStr::new(name));
    let record = record_of(folder)?;
    for (name, content) in files(&record).filter(|(name, _)| *name != CHANGES) {
        content.verify(child(name)?.file()?, name)?;
    }
    Ok((record, child(CHANGES)?))
}

/// The record of the result in `folder`, whose other files are not verified.
pub(super) fn record_of(folder: &Found) -> anyhow::Result<RunResult> {
    Ok(RunResult::read(&folder.child(OsStr::new(RECORD))?.read(LONGEST_RECORD)?)?)
}

/// The bundle of `result`, in `file` or where it was written on this host. It says which versions of the
/// files the command began with: the result itself may be another party's.
fn bundle_of(
    result: &VerifiedResult,
    file: Option<&Path>,
    project: &TrustedProject,
) -> Result<Bundle, Failure> {
    let digest = result.record.outcome.bundle;
    let recorded = bundle::recorded(&project.places, &digest)?;
    let hint = "pass --bundle with the file that `sandbox bundle` wrote";
    let here = recorded.as_ref().filter(|recorded| recorded.root == project.root);
    let Some(path) = file.or(here.map(|recorded| recorded.file.as_path())) else {
        let problem = format!("the bundle {digest} of this result was not written in this project");
        return Err(Failure::new(problem).with_hint(hint));
    };
    let found = project.resolver.find(path).map_err(|error| Failure::from(error).with_hint(hint))?;
    let shown = sanitize_name(&found.path().display().to_string());
    // A digest that is recorded is the user's.
    if recorded.is_none() {
        demand_ours(&found)?;
    }
    let bundle = bundle::read(&found)?;
    if bundle.digest != digest {
        let problem = format!("`{shown}` is another bundle than that of the result, which is {digest}");
        return Err(Failure::new(problem).with_hint(hint));
    }
    Ok(bundle)
}

/// Creates the folder `layer` with the changes of `result`, except for new paths that git ignores: the
/// command began without the host's. Returns the paths that the host changed, too, and the number of
/// paths that were left out.
fn laid_out(
    result: &VerifiedResult,
    base: &Listing,
    layer: &Path,
    project: &TrustedProject,
    environment: &Environment,
    printer: Printer,
) -> Result<(BTreeSet<PathBuf>, usize), Failure> {
    let host = Tree::open(&project.root).map_err(Failure::doing("open the project's folder"))?;
    if ignores_case(&host).map_err(Failure::doing("read the project's folder"))? {
        let problem = "the project is on a file system that ignores case, where a result could be applied under another name";
        return Err(Failure::new(problem).with_hint("apply it in a clone on another file system"));
    }
    let file = BufReader::new(result.changes.file()?);
    let changes = Changes::unpack(file, &result.record.outcome.changes, layer, &host)
        .map_err(Failure::doing(format!("read the changes in `{}`", result.shown)))?;
    let mut conflicts = changes.conflicts(base, &host);
    let new = new_paths(&changes, base, &conflicts, &host);
    let ignored = ignored_paths(&project.root, &new, &environment.of_git(), &project.resolver);
    let ignored = ignored.unwrap_or_else(|error| {
        // They are judged like all others.
        printer.warning(format_args!("new paths that git ignores are not left out: {}", with_causes(&error)));
        Vec::new()
    });
    for path in &ignored {
        conflicts.remove(path);
        let path = layer.join(path);
        match fs::symlink_metadata(&path) {
            Ok(facts) if facts.is_dir() => remove_folder(&path),
            Ok(_) => fs::remove_file(&path),
            // It was in a folder that is ignored.
            Err(_) => Ok(()),
        }
        .map_err(Failure::doing(format!("remove `{}`", path.display())))?;
    }
    Ok((conflicts, ignored.len()))
}

/// The paths in `changes` that the bundle does not have, and whether each is a folder. Git answers for
/// none that leads through something else than a folder of the host.
fn new_paths(
    changes: &Changes,
    base: &Listing,
    conflicts: &BTreeSet<PathBuf>,
    host: &Tree,
) -> Vec<(PathBuf, bool)> {
    let mut blocked = conflicts.clone();
    let mut new = Vec::new();
    for (path, entry) in changes.tree.entries() {
        let is_known = base.entry(path).is_some();
        let path = path.as_path();
        if path.ancestors().skip(1).any(|folder| blocked.contains(folder)) {
            continue;
        }
        let is_folder = *entry == Entry::Folder;
        let is_other =
            host.facts(path).is_ok_and(|facts| facts.is_some_and(|facts| facts.kind != Kind::Folder));
        if is_folder && is_other {
            blocked.insert(path.to_owned());
        }
        if !is_known {
            new.push((path.to_owned(), is_folder && !is_other));
        }
    }
    new
}

/// Whether a name in `host` is also found in another case.
fn ignores_case(host: &Tree) -> io::Result<bool> {
    let other = |name: &str| -> String {
        let turn =
            |c: char| if c.is_ascii_lowercase() { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() };
        name.chars().map(turn).collect()
    };
    let names: BTreeSet<_> = host.list(Path::new(""))?.into_iter().map(|(name, _)| name).collect();
    let mut others = names.iter().filter_map(|name| name.to_str()).map(other);
    let unlisted = others.find(|other| !names.contains(OsStr::new(other)));
    unlisted.map_or(Ok(false), |other| Ok(host.facts(Path::new(&other))?.is_some()))
}

#[cfg(test)]
mod tests;

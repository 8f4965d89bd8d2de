//! `run --bundle FILE --result DIR`: the command of a bundle, on a copy of its files.

use std::fs;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use rustix::fs::syncfs;
use sandbox::CommandResult;
use sandbox::host_path::Found;
use sandbox::network::NetworkLog;
use sandbox::workspace::remove_folder;
use sandbox_bundle::{Bundle, Digest, Ended};
use sandbox_files::{FileLock, create_folder};

use super::{bundle, run};
use crate::args::GlobalArgs;
use crate::bundle_result::{EndedRun, ResultFolder};
use crate::config::{Environment, Places};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::printer::{Printer, plain_or_quoted, sanitize_name};
use crate::run_context::RunContext;
use crate::settings::{BundleFolders, TaskSettings};
use crate::trust::Trust;
use crate::workspace_copy::opened;

/// The lock of a folder in the state folder.
const LOCK: &str = "lock";

/// Runs the command of the bundle `file`, and stores the result in the new folder `target`. Passes the
/// command's exit code on.
pub(crate) async fn run_bundle(
    file: &Path,
    target: &Path,
    global: &GlobalArgs,
    environment: &Environment,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    if global.config.is_some() {
        return Err(Failure::usage("--config is for a project, and --bundle reads none"));
    }
    let places = Places::find(environment)?;
    let resolver = places.resolver(Path::new("."))?;
    let shown = sanitize_name(&target.display().to_string());
    let target = ResultFolder::at(target, &resolver)?;
    let found = resolver.find(file)?;
    let bundle = bundle::read(&found)?;
    demand_trust(&found, &bundle.digest, global.trust.as_ref())?;
    demand_variables(&bundle, environment)?;
    let tree = unpacked(&found, &bundle, &places.trees()).await?;
    let copy = CopyFolder::create(&places.results()).await?;
    let layer = copy.copy();
    let folders = BundleFolders { places: &places, tree: &tree, copy: &layer };
    let settings = TaskSettings::of_bundle(&bundle, folders, global, environment, printer).await?;
    let mut context = match RunContext::open(&settings, printer).await? {
        Ok(context) => context,
        Err(status) => return Ok(status),
    };
    let command = bundle.manifest.settings.command.clone();
    let executed = run::execute(&mut context, command, run::Streams::without_input()).await;
    let finished = context.close(executed).await?;
    let status = finished.status;
    match finished.value.filter(|result| has_ended(status, result)) {
        Some(result) => {
            let layer = opened(&layer)?.filter(|copy| !copy.was_interrupted());
            let layer =
                layer.ok_or_else(|| Failure::new("the copy of the command's files is not complete"))?;
            let log = NetworkLog::new(&finished.folder).json_path();
            let run = EndedRun {
                bundle: bundle.digest,
                exit_code: status.code(),
                ended: if result.timed_out { Ended::TimedOut } else { Ended::Exited },
                stdout: &result.stdout,
                stderr: &result.stderr,
                duration: result.duration,
                oom_killed: result.oom_killed,
                copy: &layer,
                log: &log,
            };
            let record = target.write(&run)?;
            if !record.core.left.is_empty() {
                printer.warning(format_args!(
                    "{shown} lacks changes that no result can have: see `left` in result.json"
                ));
            }
            printer.message(format_args!("{shown}: result {}", record.digest));
        }
        None => printer.warning(format_args!("the command did not end by itself: there is no {shown}")),
    }
    copy.remove(printer).await;
    Ok(status)
}

/// Whether the command ended, and nothing else decided the exit code.
fn has_ended(status: ExitStatus, result: &CommandResult) -> bool {
    match status {
        ExitStatus::Timeout => result.timed_out,
        ExitStatus::Command(_) => !result.stopped,
        _ => false,
    }
}

/// A digest that is named must be the bundle's; and if a task can have written the file, it must be
/// named.
fn demand_trust(found: &Found, digest: &Digest, trust: Option<&Trust>) -> Result<(), Failure> {
    let shown = sanitize_name(&found.path().display().to_string());
    let digest = format!("sha256:{digest}");
    match trust {
        Some(Trust::Digest(named)) if named.to_string() == digest => Ok(()),
        Some(Trust::Digest(_)) => {
            Err(Failure::new(format!("the digest of `{shown}` is {digest}, not the one in --trust")))
        }
        Some(Trust::Now | Trust::Recorded) | None if !found.is_untrusted() => Ok(()),
        Some(Trust::Now | Trust::Recorded) | None => {
            Err(Failure::new(format!("`{shown}` is in a folder that tasks can write to"))
                .with_hint(format!("if this is the digest that you know, pass --trust={digest}")))
        }
    }
}

fn demand_variables(bundle: &Bundle, environment: &Environment) -> Result<(), Failure> {
    let (required, _) = bundle::given(&bundle.manifest.settings);
    let missing = required.into_iter().filter(|name| environment.text(name).is_none());
    let missing: Vec<_> = missing.map(plain_or_quoted).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!("the bundle needs variables that are not set: {}", missing.join(", "))))
}

/// The folder in `trees` with the tree of `bundle`, which is unpacked once.
async fn unpacked(found: &Found, bundle: &Bundle, trees: &Path) -> Result<PathBuf, Failure> {
    let failed = || Failure::doing(format!("unpack the bundle in `{}`", trees.display()));
    let _lock = FileLock::exclusive(&trees.join(LOCK)).await.map_err(failed())?;
    let tree = trees.join(bundle.manifest.tree.to_string());
    if tree.is_dir() {
        return Ok(tree);
    }
    // Left by a process that was killed.
    let new = trees.join("new");
    remove_folder(&new).map_err(failed())?;
    let unpacked = Bundle::unpack(BufReader::new(found.file()?), &new);
    let unpacked = unpacked.map_err(Failure::doing("unpack the bundle")).and_then(|other| {
        if other == *bundle { Ok(()) } else { Err(Failure::new("the bundle changed meanwhile")) }
    });
    if let Err(failure) = unpacked {
        // The first failure is the one to report.
        let _ = remove_folder(&new);
        return Err(failure);
    }
    // With its name, all of its files must be on the disk.
    let folder = fs::File::open(&new).map_err(failed())?;
    syncfs(&folder).map_err(io::Error::from).map_err(failed())?;
    fs::rename(&new, &tree).map_err(failed())?;
    Ok(tree)
}

/// The folder of the copy of one run, which nobody else uses.
#[derive(Debug)]
struct CopyFolder {
    all: PathBuf,
    path: PathBuf,
    lock: FileLock,
}

impl CopyFolder {
    /// Creates a folder in `all`.
    async fn create(all: &Path) -> Result<Self, Failure> {
        let failed = || Failure::doing(format!("create a folder in `{}`", all.display()));
        // While it is held, no folder of an active run is without its own.
        let _lock = FileLock::exclusive(&all.join(LOCK)).await.map_err(failed())?;
        let path = all.join(format!("{:016x}", rand::random::<u64>()));
        create_folder(&path, 0o700).map_err(failed())?;
        let lock = FileLock::exclusive(&path.join(LOCK)).await.map_err(failed())?;
        Ok(Self { all: all.to_owned(), path, lock })
    }

    fn copy(&self) -> PathBuf {
        self.path.join("copy")
    }

    /// Removes it, and those of runs that were killed: no container of theirs is left.
    async fn remove(self, printer: Printer) {
        let Self { all, path: _, lock } = self;
        drop(lock);
        let removed = async {
            let _lock = FileLock::exclusive(&all.join(LOCK)).await?;
            for entry in fs::read_dir(&all)? {
                let path = entry?.path();
                if path.is_dir() && FileLock::try_exclusive(&path.join(LOCK))?.is_some() {
                    remove_folder(&path)?;
                }
            }
            Ok::<_, io::Error>(())
        };
        if let Err(error) = removed.await {
            printer.warning(format_args!("failed to empty `{}`: {error}", all.display()));
        }
    }
}

#[cfg(test)]
mod tests;

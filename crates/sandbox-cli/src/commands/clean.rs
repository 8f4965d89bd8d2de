//! `clean`: removes objects of ended runs, or everything.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sandbox::workspace::{Protection, WorkspaceCopy, remove_folder};
use sandbox::{ImageSource, Sandbox, SandboxConfig};
use sandbox_files::FileLock;

use crate::args::CleanArgs;
use crate::config::Places;
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::git_report::report_recovered;
use crate::printer::Printer;
use crate::receipt_key;
use crate::workspace_copy::CopySummary;

/// Removes objects without an owner and reports them; with `all`, also all images and state, with
/// `force`, also `image`.
pub(crate) async fn clean(
    config: SandboxConfig,
    image: Option<ImageSource>,
    args: &CleanArgs,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let places = Places { state: config.state_dir.clone() };
    let sandbox = Sandbox::start(config).await?;
    let report = sandbox.sweep().await?;
    let (containers, networks) = (&report.containers, &report.networks);
    for (kind, names) in [("container", containers), ("network", networks)] {
        for name in names {
            printer.line(format_args!("removed {kind} {name}"));
        }
    }
    report_recovered(&report.git, Path::new(""), printer);
    let runs = sandbox.runs().clean().await?;
    for run in runs.iter().filter(|run| run.removed) {
        printer.line(format_args!("removed run {}", run.name));
    }
    if containers.is_empty() && networks.is_empty() && runs.is_empty() {
        printer.line("no objects of ended runs");
    }
    for name in &report.failed {
        printer.warning(format_args!("failed to remove `{name}`"));
    }
    let stuck: Vec<_> = runs.iter().filter(|run| !run.removed).collect();
    for run in &stuck {
        printer.warning(format_args!("failed to remove run `{}`", run.name));
    }
    if args.all {
        return everything(sandbox, &places, args.yes, printer).await;
    }
    if args.force {
        let removed = match &image {
            Some(image) => sandbox.remove_image(image).await?,
            None => Vec::new(),
        };
        for tag in &removed {
            printer.line(format_args!("removed image {tag}"));
        }
        if removed.is_empty() {
            printer.line("the project has no image");
        }
    } else {
        printer.hint("--force also removes the project's image");
    }
    Ok(if report.failed.is_empty() && stuck.is_empty() && report.git.failed.is_empty() {
        ExitStatus::Success
    } else {
        ExitStatus::Infrastructure
    })
}

/// Removes images and state, once the user agrees.
async fn everything(
    sandbox: Sandbox,
    places: &Places,
    yes: bool,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    // The next start recreates these objects, so they can be removed before the question.
    if !sandbox.runs().names().await?.is_empty() || !sandbox.remove_shared().await? {
        return Err(Failure::new("another run uses the images and state; they were not removed")
            .with_hint("`sandbox stop --all` ends all runs"));
    }
    if !yes {
        printer.message("this also removes, for all projects of this user:");
        printer.message(format_args!("  {} images that were built", sandbox.list_images().await?.len()));
        let state = places.state.display();
        printer.message(format_args!("  {state}: logs, sessions, trust decisions"));
        for line in not_elsewhere(places)? {
            printer.message(format_args!("  {line}"));
        }
        if !printer.can_ask() {
            return Err(Failure::usage("confirmation needs a terminal; images and state were not removed")
                .with_hint("pass --yes to remove them without confirmation"));
        }
        if !printer.agrees("Remove all of it?")? {
            return Err(Failure::new("not confirmed; images and state were not removed"));
        }
    }
    // Regardless of its age.
    for image in sandbox.prune_images(Duration::ZERO).await? {
        printer.line(format_args!("removed image {}", image.tag.unwrap_or(image.id)));
    }
    sandbox.shutdown().await?;
    drop(sandbox);
    remove_state(&places.state)?;
    printer.line(format_args!("removed {}", places.state.display()));
    Ok(ExitStatus::Success)
}

/// Removes the folder unless a run of any prefix, which may have started meanwhile, uses it.
fn remove_state(state: &Path) -> Result<(), Failure> {
    let failed = || Failure::doing(format!("remove all of `{}`", state.display()));
    let state = state.canonicalize().map_err(failed())?;
    // Runs that start from here on create a new one.
    let removed = state.with_extension(format!("removed-{}", std::process::id()));
    fs::rename(&state, &removed).map_err(failed())?;
    for lock in entries(&removed.join("instances"))? {
        let is_held = File::open(&lock).and_then(FileLock::try_exclusive_on).is_ok_and(|lock| lock.is_none());
        if is_held {
            let back = format!("move the state back from `{}` to `{}`", removed.display(), state.display());
            fs::rename(&removed, &state).map_err(Failure::doing(back))?;
            return Err(Failure::new("another run uses the state; it was not removed")
                .with_hint("`sandbox ps` and `sandbox status` list runs"));
        }
    }
    remove_folder(&removed).map_err(failed())
}

/// State that exists nowhere else: work that is not in the user's files, and keys.
fn not_elsewhere(places: &Places) -> Result<Vec<String>, Failure> {
    let mut lines = Vec::new();
    for copy in entries(&places.copies())? {
        let summary = CopySummary::of(&copy, &Protection::none());
        if summary != CopySummary::default() {
            let tree = WorkspaceCopy::open(&copy).ok().flatten().map(|copy| copy.tree().to_owned());
            let tree = tree.as_deref().unwrap_or(&copy).display();
            lines.push(format!("unapplied changes of {tree}: {summary}"));
        }
    }
    for prefix in entries(&places.state.join("views"))? {
        for view in entries(&prefix)? {
            lines.push(format!("work in a repository that could not be imported: {}", view.display()));
        }
    }
    for (folder, kind) in [("gate", "repositories of the gate"), ("ssh", "keys for signing commits")] {
        let folder = places.state.join(folder);
        if !entries(&folder)?.is_empty() {
            lines.push(format!("{kind}: {}", folder.display()));
        }
    }
    let key = places.state.join(receipt_key::FILE);
    if key.exists() {
        lines.push(format!("the key that signs receipts: {}", key.display()));
    }
    Ok(lines)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let failed = || Failure::doing(format!("read `{}`", folder.display()));
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed())?,
    };
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry.map_err(failed())?.path());
    }
    paths.sort();
    Ok(paths)
}

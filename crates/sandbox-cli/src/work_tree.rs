//! `--worktree`: a linked git work tree for a run.

use std::ffi::OsStr;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use rand::RngExt as _;
use sandbox::workspace::{ImportError, MainWorkTree, OutsideRepository};
use sandbox_files::host_path::{Found, PathError, remember};
use sandbox_files::tree::Tree;
use sandbox_files::{FileLock, create_folder};

use crate::args::{Command, GlobalArgs};
use crate::config::{Environment, Places, project_key, project_root};
use crate::failure::Failure;
use crate::printer::{Printer, sanitize_name};
use crate::run_folder;
use crate::run_record::RunRecord;
use crate::settings::{Needs, Project};
use crate::trust::Trust;

/// Bytes of a settings file.
const SETTINGS: u64 = 1 << 20;

/// The prefix of the names of scratch folders in the state folder.
const SCRATCH: &str = "work-tree-";

/// Makes the work tree that `command` asks for the current folder: that of a run, or its own, which
/// is created if it does not exist. Files that are trusted in the project are trusted in that one.
/// The process that owns a run is started there.
pub(crate) fn enter(
    command: &Command,
    global: &GlobalArgs,
    environment: &Environment,
    printer: Printer,
) -> Result<(), Failure> {
    if let Some(run) = command.in_tree_of() {
        return enter_that_of(run, global, environment);
    }
    let Some((task, name)) = command.task().and_then(|task| Some((task, task.worktree.as_deref()?))) else {
        return Ok(());
    };
    if global.owner {
        return Ok(());
    }
    let needs = Needs { image: Some(&task.image), allowlist: task.policy.allowlist.as_deref() };
    let trust = global.trust.clone().unwrap_or_default();
    if trust != Trust::Recorded {
        return Err(Failure::usage(
            "--trust is for the files of one folder, and cannot be combined with --worktree",
        )
        .with_hint("run `sandbox trust` in the project: the same files are then trusted in its work trees"));
    }
    let here = Project::load(global, environment, printer)?.trusted(Some(needs), &trust, printer)?;
    let trees = WorkTrees::of(&here)?;
    let name =
        if name.is_empty() { format!("task-{:08x}", rand::rng().random::<u32>()) } else { name.to_owned() };
    let folder = trees.folder(&name);
    trees.demand(&folder, &name, printer)?;
    let main = &trees.main;
    // A task in the new work tree can have its changes merged into the main one.
    remember(&here.places.state, main.path()).map_err(Failure::doing("record the folders of tasks"))?;
    // Before relative paths of flags get another meaning.
    let known = here.review(Some(needs));
    move_to(&folder, here.current.strip_prefix(main.path()).unwrap_or(Path::new("")))?;
    let there = Project::load(global, environment, printer)?;
    if !there.is_counterpart_of(&here, main.path(), &folder) {
        let settings = sanitize_name(&there.root.display().to_string());
        return Err(Failure::new(format!("the work tree has other settings, in `{settings}`"))
            .with_hint("start in the folder of the project's settings, or remove those"));
    }
    there.trust_as_in(&known, &here.root, needs)
}

/// The work trees of a project's repository.
#[derive(Debug)]
pub(crate) struct WorkTrees<'a> {
    here: &'a Project,
    main: MainWorkTree,
}

impl<'a> WorkTrees<'a> {
    pub(crate) fn of(here: &'a Project) -> Result<Self, Failure> {
        let Some(main) = MainWorkTree::around(&here.current).map_err(failed)? else {
            return Err(Failure::usage("a work tree needs a git repository, and this folder is not in one")
                .with_hint("`git init` creates one; commit something first"));
        };
        if !here.root.starts_with(main.path()) {
            return Err(Failure::new(
                "the project's settings are outside of the repository, so a work tree lacks them",
            )
            .with_hint("run `sandbox init` in the repository"));
        }
        let trees = Self { here, main };
        let state = here.resolver.find(&here.places.state);
        let state = state.as_ref().map_or(here.places.state.as_path(), Found::path);
        if state.starts_with(trees.main.path()) {
            return Err(Failure::new("the sandbox's state is in the repository, which tasks will change")
                .with_hint("set XDG_STATE_HOME to a folder elsewhere"));
        }
        Ok(trees)
    }

    fn folder(&self, name: &str) -> PathBuf {
        all_of(self.main.path()).join(name)
    }

    /// The logs of the runs in the work tree `name`.
    pub(crate) fn logs(&self, name: &str) -> PathBuf {
        let inner = self.here.root.strip_prefix(self.main.path()).unwrap_or(Path::new(""));
        self.here.places.logs(&project_key(&joined(&self.folder(name), inner)))
    }

    /// Creates `folder` if it does not exist; otherwise it must be a work tree of the repository.
    fn demand(&self, folder: &Path, name: &str, printer: Printer) -> Result<(), Failure> {
        let Self { here, main } = self;
        let state = &here.places.state;
        create_folder(state, 0o700).map_err(Failure::doing("create the state folder"))?;
        // Another process may be creating the same one.
        let lock = FileLock::exclusive_blocking(&state.join("work-tree.lock"));
        let _lock = lock.map_err(Failure::doing("wait for another work tree"))?;
        let shown = sanitize_name(&folder.display().to_string());
        if folder.symlink_metadata().is_ok() {
            if is_of(main, folder, here) {
                printer.message(format_args!("work tree {shown}, which exists"));
                return Ok(());
            }
            return Err(Failure::new(format!("`{shown}` exists, and is not a work tree of this repository"))
                .with_hint("choose another name, or remove it if an earlier start was interrupted"));
        }
        for place in [main.path().parent().unwrap_or(main.path()), &all_of(main.path())] {
            let found = here.resolver.find(place);
            if found.as_ref().is_err_and(PathError::is_not_found) || !found?.is_untrusted() {
                continue;
            }
            let place = sanitize_name(&place.display().to_string());
            return Err(Failure::new(format!("tasks can write `{place}`, where the work tree would be"))
                .with_hint("move the repository to a folder that was never mounted in a sandbox"));
        }
        let inner = here.current.strip_prefix(main.path()).unwrap_or(Path::new(""));
        let check = |new: &Path| {
            demand_same(here, main.path(), new)?;
            if new.join(inner).is_dir() {
                return Ok(());
            }
            let inner = sanitize_name(&inner.display().to_string());
            let failure = Failure::new(format!("the current folder, `{inner}`, is not in the commit"));
            Err(Refused::Settings(failure.with_hint("commit something in it, or start in another folder")))
        };
        remove_left_over(state);
        let scratch = state.join(format!("{SCRATCH}{:016x}", rand::rng().random::<u64>()));
        let existing = main.add(folder, name, &scratch, check).map_err(|error| match error {
            Refused::Git(error) => failed(error),
            Refused::Settings(failure) => failure,
        })?;
        let existing = existing.map(|id| format!(", which exists, at {}", id.get(..12).unwrap_or(&id)));
        let existing = existing.unwrap_or_default();
        printer.message(format_args!("work tree {shown}, on the branch {name}{existing}"));
        Ok(())
    }
}

/// Removes the scratch folders of killed processes; the git of one may still write to it.
fn remove_left_over(state: &Path) {
    let entries = fs::read_dir(state).into_iter().flatten().filter_map(Result::ok);
    for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(SCRATCH)) {
        let _ = fs::remove_dir_all(entry.path());
    }
}

fn failed(error: ImportError) -> Failure {
    Failure::doing("create a work tree")(error)
}

/// `inner` of `folder`, without a slash at the end.
fn joined(folder: &Path, inner: &Path) -> PathBuf {
    if inner.as_os_str().is_empty() { folder.to_owned() } else { folder.join(inner) }
}

/// The folder of all work trees of the one at `top`, next to it.
fn all_of(top: &Path) -> PathBuf {
    let mut name = top.file_name().unwrap_or_default().to_owned();
    name.push(".worktrees");
    top.with_file_name(name)
}

/// Whether `folder` and the repository name each other, as a run there checks again.
fn is_of(main: &MainWorkTree, folder: &Path, here: &Project) -> bool {
    let repository = OutsideRepository::of(folder, "/workspace", &here.resolver);
    let source = |repository: &OutsideRepository| repository.mount().host_path().to_owned();
    matches!(repository, Ok(Some(repository)) if source(&repository) == main.path().join(".git"))
}

/// Why there is no work tree.
enum Refused {
    Git(ImportError),
    Settings(Failure),
}

impl From<ImportError> for Refused {
    fn from(error: ImportError) -> Self {
        Self::Git(error)
    }
}

/// The new work tree must have the project's settings as they are: uncommitted limits would be
/// missing in it.
fn demand_same(here: &Project, top: &Path, new: &Path) -> Result<(), Refused> {
    let committed = Tree::open(new).map_err(|error| Refused::Settings(Failure::doing("open it")(error)))?;
    for path in here.settings_files() {
        let read = here.resolver.read(&path, SETTINGS).map_err(|error| Refused::Settings(error.into()))?;
        let Ok(inner) = path.strip_prefix(top) else { continue };
        let is_same = match read {
            None => matches!(committed.facts(inner), Ok(None)),
            Some((_, bytes)) => {
                let mut same = Vec::new();
                let file =
                    committed.file(inner).and_then(|file| file.take(SETTINGS + 1).read_to_end(&mut same));
                file.is_ok() && same == bytes
            }
        };
        if !is_same {
            let inner = sanitize_name(&inner.display().to_string());
            let message = format!("`{inner}` differs from its committed version, which a new work tree has");
            let hint = format!(
                "commit it, on the branch of the work tree if that exists: `git add :/{inner} && git commit`"
            );
            return Err(Refused::Settings(Failure::new(message).with_hint(hint)));
        }
    }
    Ok(())
}

/// Makes the work tree of the project of the run `named` the current folder.
fn enter_that_of(named: &str, global: &GlobalArgs, environment: &Environment) -> Result<(), Failure> {
    let there = "run the command in the run's work tree; `sandbox ps --all` lists it";
    if global.trust.is_some() || global.config.is_some() {
        let message = "--trust and --config are for the current folder, and cannot be combined with a run";
        return Err(Failure::usage(message).with_hint(there));
    }
    let folder = run_folder::find_in_all(&Places::find(environment)?.all_logs(), named)?;
    let project = RunRecord::read(&folder).map(|record| record.project).filter(|path| !path.is_empty());
    let unknown = || Failure::new(format!("the record of run `{named}` names no project")).with_hint(there);
    let project = PathBuf::from(project.ok_or_else(unknown)?);
    move_to(&project, Path::new(""))?;
    // Its settings may have been given by a flag, or be those of a folder above by now.
    let home = environment.path("HOME").and_then(|home| home.canonicalize().ok());
    let key = project_key(&project_root(&project, home.as_deref()).path);
    if folder.parent().and_then(Path::file_name) != Some(OsStr::new(&key)) {
        let shown = sanitize_name(&project.display().to_string());
        let message = format!("the settings of `{shown}` are no longer those of run `{named}`");
        return Err(Failure::new(message).with_hint(there));
    }
    Ok(())
}

/// Makes the folder `inner` of `folder` the current one, unless a link leads elsewhere: an earlier
/// task may have put one there.
fn move_to(folder: &Path, inner: &Path) -> Result<(), Failure> {
    let shown = || sanitize_name(&folder.join(inner).display().to_string());
    let entering = || Failure::doing(format!("enter `{}`", shown()));
    let real = joined(folder, inner);
    if real.canonicalize().map_err(entering())? != real {
        return Err(Failure::new(format!("`{}` is reached through a link", shown()))
            .with_hint("remove the link, or start in the topmost folder of the repository"));
    }
    std::env::set_current_dir(&real).map_err(entering())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn work_trees_of_a_repository_are_in_one_folder() {
        assert_eq!(all_of(Path::new("/srv/app")), Path::new("/srv/app.worktrees"));
    }

    #[test]
    fn folder_behind_a_link_is_not_entered() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("elsewhere/sub")).unwrap();
        fs::create_dir(folder.path().join("tree")).unwrap();
        std::os::unix::fs::symlink("../elsewhere", folder.path().join("tree/link")).unwrap();
        let before = std::env::current_dir().unwrap();
        for inner in ["link", "link/sub", "missing"] {
            assert!(move_to(&folder.path().join("tree"), Path::new(inner)).is_err(), "{inner}");
        }
        assert_eq!(std::env::current_dir().unwrap(), before);
    }
}

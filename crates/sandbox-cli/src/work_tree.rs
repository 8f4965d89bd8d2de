//! `--worktree`: a linked git work tree for a run.

use std::path::{Path, PathBuf};

use rand::RngExt as _;
use sandbox::workspace::WorkTree;

use crate::args::{GlobalArgs, TaskArgs};
use crate::config::Environment;
use crate::failure::Failure;
use crate::printer::{Printer, sanitize_name};
use crate::settings::{Needs, Project};
use crate::trust::Trust;

/// Bytes of a settings file.
const SETTINGS: u64 = 1 << 20;

/// Makes the work tree that `task` asks for the current folder, and creates it if it does not exist.
/// Files that are trusted in the project are trusted in it. The process that owns a run is started
/// there.
pub(crate) fn enter(
    task: Option<&TaskArgs>,
    global: &GlobalArgs,
    environment: &Environment,
    printer: Printer,
) -> Result<(), Failure> {
    let Some((task, name)) = task.and_then(|task| Some((task, task.worktree.as_deref()?))) else {
        return Ok(());
    };
    if global.owner {
        return Ok(());
    }
    let needs = Needs { image: Some(&task.image), allowlist: task.policy.allowlist.as_deref() };
    let trust = global.trust.clone().unwrap_or_default();
    let here = Project::load(global, environment, printer)?.trusted(Some(needs), &trust, printer)?;
    let failed = || Failure::doing("create a work tree");
    let Some(tree) = WorkTree::around(&here.current).map_err(failed())? else {
        return Err(Failure::usage("--worktree needs a git repository, and this folder is not in one")
            .with_hint("`git init` creates one; commit something first"));
    };
    let name =
        if name.is_empty() { format!("task-{:08x}", rand::rng().random::<u32>()) } else { name.to_owned() };
    let folder = beside(tree.path()).join(&name);
    let shown = sanitize_name(&folder.display().to_string());
    if folder.symlink_metadata().is_err() {
        demand_committed(&here, &tree)?;
        tree.add(&folder, &name).map_err(failed())?;
        printer.message(format_args!("work tree {shown}, on the new branch {name}"));
    } else if tree.has(&folder).map_err(failed())? {
        printer.message(format_args!("work tree {shown}, which exists"));
    } else {
        return Err(Failure::new(format!("`{shown}` exists, and is not a work tree of this repository"))
            .with_hint("choose another name: --worktree=NAME"));
    }
    let current = folder.join(here.current.strip_prefix(tree.path()).unwrap_or(Path::new("")));
    let enter = |path: &Path| std::env::set_current_dir(path);
    enter(&current).or_else(|_| enter(&folder)).map_err(Failure::doing(format!("enter `{shown}`")))?;
    if trust == Trust::Recorded {
        Project::load(global, environment, printer)?.trust_as_in(&here, needs)?;
    }
    Ok(())
}

/// The folder of the work trees of the one at `top`: next to it, or the parent of a linked one.
fn beside(top: &Path) -> PathBuf {
    const ENDING: &str = ".worktrees";
    let parent = top.parent().unwrap_or(top);
    if parent.file_name().is_some_and(|name| name.to_string_lossy().ends_with(ENDING)) {
        return parent.to_owned();
    }
    let mut name = top.file_name().unwrap_or_default().to_owned();
    name.push(ENDING);
    parent.join(name)
}

/// A new work tree has the committed settings: uncommitted limits would be missing there.
fn demand_committed(project: &Project, tree: &WorkTree) -> Result<(), Failure> {
    for path in project.folder.files() {
        let Some((_, bytes)) = project.resolver.read(&path, SETTINGS)? else { continue };
        let Ok(inner) = path.strip_prefix(tree.path()) else { continue };
        let committed = tree.committed(inner).map_err(Failure::doing("read what is committed"))?;
        if committed.as_deref() != Some(&bytes) {
            let inner = sanitize_name(&inner.display().to_string());
            return Err(Failure::new(format!(
                "`{inner}` differs from its committed version, which a new work tree has"
            ))
            .with_hint(format!("commit it: `git add {inner}`")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_trees_of_a_repository_are_in_one_folder() {
        let expected = Path::new("/srv/app.worktrees");
        assert_eq!(beside(Path::new("/srv/app")), expected);
        assert_eq!(beside(Path::new("/srv/app.worktrees/one")), expected);
    }
}

//! Reports changes of a task to files that host tools execute or follow implicitly, at the end of a
//! run.

use std::path::Path;

use sandbox::workspace::{TamperKind, TamperedPath};

use crate::failure::Failure;
use crate::printer::{Printer, sanitize_name};

/// The maximum number of lines, and of names in a line; the rest is counted.
const MOST_SHOWN: usize = 10;

/// Reports `tampered`, newest first.
pub(crate) fn report(tampered: &[TamperedPath], root: &Path, printer: Printer) {
    let (left, moved): (Vec<&TamperedPath>, Vec<&TamperedPath>) = tampered
        .iter()
        .filter(|thing| thing.kind != TamperKind::NotWritten)
        .partition(|thing| thing.is_left_in_place());
    for thing in moved.iter().take(MOST_SHOWN) {
        printer.warning(line(thing, root));
    }
    if let Some(more) = moved.len().checked_sub(MOST_SHOWN).filter(|more| *more > 0) {
        printer.warning(format_args!(
            "{more} more protected paths were changed and handled in the same way; -v lists them"
        ));
        if printer.verbosity() > 0 {
            moved.iter().skip(MOST_SHOWN).for_each(|thing| printer.message(line(thing, root)));
        }
    }
    if moved.iter().any(|thing| thing.moved_to.is_some()) {
        printer.hint("inspect it before you restore it; --unprotected lets a task write there");
    }
    group(&left, root, printer);
}

/// The error of a run in which git could not write protected files, because git itself exits with 0
/// then.
pub(crate) fn not_written(tampered: &[TamperedPath], root: &Path) -> Option<Failure> {
    let kept: Vec<&TamperedPath> =
        tampered.iter().filter(|thing| thing.kind == TamperKind::NotWritten).collect();
    (!kept.is_empty()).then(|| {
        Failure::new(format!(
            "git in the task has other versions of protected files in its index but could not write them; unchanged: {}",
            names(&kept, root)
        ))
        .with_hint(
            "review them with `git diff -R`, then run `git restore FILE` on the host to adopt \
             them; with --workspace copy, git changes all files and you decide at the end",
        )
    })
}

/// Reports changes that were left in place: a line for files, and one for sockets.
fn group(left: &[&TamperedPath], root: &Path, printer: Printer) {
    let (sockets, files): (Vec<&TamperedPath>, Vec<&TamperedPath>) =
        left.iter().copied().partition(|thing| thing.kind == TamperKind::Socket);
    if !files.is_empty() {
        printer.message(format_args!(
            "the task changed files that tools read implicitly: {}",
            names(&files, root)
        ));
    }
    if !sockets.is_empty() {
        printer.message(format_args!("the task left sockets: {}", names(&sockets, root)));
    }
}

fn names(things: &[&TamperedPath], root: &Path) -> String {
    let name = |thing: &&TamperedPath| match thing.kind {
        TamperKind::ToolInput(tool) => format!("`{}` ({tool})", path(thing, root)),
        _ => format!("`{}`", path(thing, root)),
    };
    let mut names: Vec<String> = things.iter().take(MOST_SHOWN).map(name).collect();
    if things.len() > names.len() {
        names.push(format!("and {} more", things.len() - names.len()));
    }
    names.join(", ")
}

/// Names come from the task.
fn path(thing: &TamperedPath, root: &Path) -> String {
    sanitize_name(&thing.path_in(root).display().to_string())
}

fn line(thing: &TamperedPath, root: &Path) -> String {
    let path = path(thing, root);
    let problem = thing.problem.as_deref().unwrap_or("unknown error");
    match (thing.kind, &thing.moved_to, &thing.problem) {
        (TamperKind::Deleted, _, None) => {
            format!("the task removed the protected path `{path}`; it was restored")
        }
        (TamperKind::Deleted, ..) => {
            format!("the task removed the protected path `{path}`, and restoring it failed: {problem}")
        }
        (TamperKind::Privileged, _, None) => {
            format!("the task set set-user-id or set-group-id bits on `{path}`; they were removed")
        }
        (TamperKind::Privileged, ..) => format!(
            "the task set set-user-id or set-group-id bits on `{path}`, and removing them failed: {problem}"
        ),
        (_, Some(to), _) => {
            let restored = if thing.restored { "; the original was restored" } else { "" };
            let to = sanitize_name(&to.display().to_string());
            format!(
                "the task wrote `{path}`, which host tools follow implicitly; it was moved to `{to}`{restored}"
            )
        }
        (_, None, _) => format!(
            "the task left `{path}`, which host tools may follow implicitly, and moving it away failed: {problem}"
        ),
    }
}

//! Reports a task's changes in repositories. All names and values come from the task.

use std::path::{Path, PathBuf};

use sandbox::Mount;
use sandbox::workspace::{GitChanges, ImportReport, Left, RefChange, RefOutcome, SettingChange, Withheld};

use crate::failure::Failure;
use crate::printer::{Printer, sanitize_name};

/// The maximum number of lines that are printed; `sandbox diff` shows all.
const LISTED: usize = 100;
/// The maximum number of characters of a value, and of values of one setting: a task can write any
/// number.
const VALUE: usize = 200;
const VALUES: usize = 20;
/// The number of digits of a shortened object id.
const SHORT: usize = 10;

/// Changes that are or will be imported, one line each.
pub(crate) fn coming(git: &GitChanges) -> Vec<String> {
    let mut lines = Vec::new();
    for repository in &git.repositories {
        let report = &repository.report;
        let waits = if repository.waits { waiting() } else { String::new() };
        let mut add = |text: String| {
            lines.push(format!("G  {}: {text}{waits}", place(&repository.path)));
        };
        report.refs.iter().filter_map(moved).for_each(&mut add);
        if let Some(head) = &report.head {
            add(format!("HEAD -> {}", shown(head)));
        }
        if report.index {
            add("index".to_owned());
        }
        if let Some(operation) = &report.operation {
            add(sanitize_name(operation));
        }
        let settings = report.settings.iter().filter(|setting| setting.stays.is_none());
        settings.map(|it| setting(&it.key, &it.old, &it.new)).for_each(&mut add);
    }
    lines
}

/// Changes that are not imported or that wait, one line each.
pub(crate) fn staying(git: &GitChanges) -> Vec<String> {
    let left = |it: &Left| format!("{}: {}", sanitize_name(&it.path), sanitize_name(&it.why));
    let mut lines: Vec<String> = git.left.iter().map(left).collect();
    for repository in &git.repositories {
        let path = place(&repository.path);
        let ImportReport { refs, settings, left: others, more_left, .. } = &repository.report;
        lines.extend(refs.iter().filter_map(stayed).map(|text| format!("{path}: {text}")));
        lines.extend(others.iter().map(|it| format!("{path}/{}", left(it))));
        if *more_left {
            lines.push(format!("{path}: more than are listed"));
        }
        let of_task = settings.iter().filter(|setting| setting.stays.is_some());
        lines.extend(
            of_task.map(|SettingChange { key, old, new, .. }| format!("{path}: {}", setting(key, old, new))),
        );
    }
    let earlier = git.settings.iter();
    lines.extend(
        earlier
            .map(|it| format!("{}: {}", sanitize_name(&it.repository), setting(&it.key, &it.old, &it.new))),
    );
    lines
}

/// Whether settings wait for an explicit request.
fn has_settings(git: &GitChanges) -> bool {
    let mut of_reports = git.repositories.iter().flat_map(|repository| &repository.report.settings);
    !git.settings.is_empty() || of_reports.any(|setting| setting.stays.is_some())
}

/// Reports on stderr which changes remain in a copy, and what can be done about them.
pub(crate) fn report_staying(git: &GitChanges, printer: Printer) {
    let takes = "`sandbox apply --git-config KEY` applies a setting, `sandbox discard` discards the others";
    report_staying_with(git, takes, printer);
}

/// Reports on stderr which changes in repositories were imported, and which were not, after a task
/// worked on the tree `root` itself.
pub(crate) fn report_imported(git: &GitChanges, root: &Path, printer: Printer) {
    let mut git = git.clone();
    for repository in &mut git.repositories {
        if let Ok(inner) = repository.path.strip_prefix(root) {
            repository.path = inner.to_owned();
        }
    }
    let lines = coming(&git);
    lines.iter().take(LISTED).for_each(|line| printer.message(line));
    if lines.len() > LISTED {
        printer.message(format_args!("… and {} more git changes", lines.len() - LISTED));
    }
    report_staying_with(&git, "run `git config KEY VALUE` on the host to adopt a setting", printer);
    for failed in &git.failed {
        let path = failed.path.strip_prefix(root).unwrap_or(&failed.path);
        let text = format!(
            "failed to import the task's changes in the repository `{}`: {}",
            sanitize_name(&path.display().to_string()),
            sanitize_name(&failed.problem)
        );
        let kept_in = sanitize_name(&failed.kept_in.display().to_string());
        printer.failure(&Failure::new(text).with_hint(format!(
            "they are kept in `{kept_in}` until you remove that folder; `sandbox clean` retries the import"
        )));
    }
}

/// The same for runs that were killed, which a sweep found.
pub(crate) fn report_recovered(git: &GitChanges, root: &Path, printer: Printer) {
    if !git.repositories.is_empty() {
        printer.message("changes in repositories by a run that was killed:");
    }
    report_imported(git, root, printer);
}

/// The same before a task with `mounts` starts: failed imports into repositories that it does not
/// see are not errors of its run.
pub(crate) fn report_recovered_at_start(
    mut git: GitChanges,
    root: &Path,
    mounts: &[Mount],
    printer: Printer,
) {
    let all = git.failed.len();
    git.failed.retain(|failed| mounts.iter().any(|mount| failed.path.starts_with(mount.host_path())));
    let elsewhere = all - git.failed.len();
    report_recovered(&git, root, printer);
    if elsewhere > 0 {
        printer.warning(format_args!(
            "failed to import tasks' changes in {elsewhere} other repositories: `sandbox clean` \
             retries it and reports the reasons"
        ));
    }
}

fn report_staying_with(git: &GitChanges, takes_settings: &str, printer: Printer) {
    let lines = staying(git);
    match lines.len() {
        0 => {}
        1 => printer.warning("1 git change of the task was not imported:"),
        count => printer.warning(format_args!("{count} git changes of the task were not imported:")),
    }
    lines.iter().take(LISTED).for_each(|line| printer.message(format_args!("   {line}")));
    if lines.len() > LISTED {
        printer.message(format_args!("   … and {} more", lines.len() - LISTED));
    }
    if has_settings(git) {
        printer.hint(takes_settings);
    }
    let hints = git.repositories.iter().flat_map(|repository| &repository.report.hints);
    hints.for_each(|hint| printer.hint(sanitize_name(hint)));
}

/// The suffix of a change that waits.
fn waiting() -> String {
    format!(" (withheld: {})", Withheld::Repository.as_str())
}

fn moved(change: &RefChange) -> Option<String> {
    let name = sanitize_name(&change.name);
    let to = format!("{name}: {} -> {}", value(change.old.as_ref()), value(change.new.as_ref()));
    let backup = change.backup.as_ref();
    let backup = backup.map(|name| format!(", the old value is {}", sanitize_name(name))).unwrap_or_default();
    match &change.outcome {
        RefOutcome::Came => Some(to + &backup),
        RefOutcome::Kept { name: kept, why } => Some(format!(
            "{name}: {} is {}: {}",
            value(change.new.as_ref()),
            sanitize_name(kept),
            sanitize_name(why)
        )),
        RefOutcome::Stayed { .. } => None,
    }
}

fn stayed(change: &RefChange) -> Option<String> {
    match &change.outcome {
        RefOutcome::Stayed { why } => {
            Some(format!("{}: {}", sanitize_name(&change.name), sanitize_name(why)))
        }
        RefOutcome::Came | RefOutcome::Kept { .. } => None,
    }
}

/// The path of a repository, without a trailing slash, because a path in it may follow.
fn place(path: &Path) -> String {
    sanitize_name(&path.components().collect::<PathBuf>().display().to_string())
}

fn value(of: Option<&String>) -> String {
    of.map_or_else(|| "none".to_owned(), |of| shown(of))
}

/// The name of a ref, or a shortened object id.
fn shown(of: &str) -> String {
    let is_id = of.len() >= 40 && of.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_id { of.get(..SHORT).unwrap_or(of).to_owned() } else { sanitize_name(of) }
}

fn setting(key: &str, old: &[String], new: &[String]) -> String {
    format!("{}: {} -> {}", sanitize_name(key), values(old), values(new))
}

fn values(values: &[String]) -> String {
    let quoted = |value: &String| {
        let (shown, more) = match value.char_indices().nth(VALUE) {
            Some((end, _)) => (value.get(..end).unwrap_or(value), "…"),
            None => (value.as_str(), ""),
        };
        let shown = shown.replace('\\', "\\\\").replace('"', "\\\"");
        // Outside of the quotes, because it is not part of the value.
        sanitize_name(&format!("\"{shown}\"")) + more
    };
    if values.is_empty() {
        return "unset".to_owned();
    }
    let text = values.iter().take(VALUES).map(quoted).collect::<Vec<_>>().join(", ");
    match values.len().saturating_sub(VALUES) {
        0 => text,
        more => format!("{text} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repository_path_has_no_trailing_slash() {
        for path in ["sub/.git", "sub/.git/", "sub//.git/"] {
            assert_eq!(place(Path::new(path)), "sub/.git");
        }
    }

    #[test]
    fn setting_values_are_cut() {
        let list = |value: &str, count: usize| values(&vec![value.to_owned(); count]);
        assert_eq!(list("a\"b", 1), "\"a\\\"b\"");
        assert_eq!(list(&"ä".repeat(200), 1), format!("\"{}\"", "ä".repeat(200)));
        assert_eq!(list(&"ä".repeat(201), 1), format!("\"{}\"…", "ä".repeat(200)));
        assert!(!list("x", 20).contains("more"));
        assert!(list("x", 23).ends_with("\"x\" and 3 more"));
        assert_eq!(list("x", 0), "unset");
    }
}

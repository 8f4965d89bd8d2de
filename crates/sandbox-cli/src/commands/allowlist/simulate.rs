//! `allowlist simulate`: the verdicts of another policy on past runs.

use allowlist::Allowlist;
use serde::Serialize;

use super::check::Verdict;
use super::requests::{self, Logged};
use crate::args::{Output, SimulateArgs};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::printer::{Printer, Style, sanitize_name};
use crate::run_folder;
use crate::settings::Project;

/// Prints each request that the policy would judge differently.
pub(super) fn simulate(
    args: &SimulateArgs,
    project: &Project,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let path = std::path::absolute(&args.file).map_err(Failure::doing("find the current folder"))?;
    let policy = project.read_allowlist(&path)?.ok_or_else(|| project.missing_allowlist(&path))?;
    let policy = project.within_outer(policy)?;
    let logs = project.logs();
    let folders =
        if args.all { run_folder::folders(&logs) } else { run_folder::find_each(&logs, &args.runs)? };
    let mut changes = Vec::new();
    for folder in folders {
        let run = run_folder::id_of(&folder);
        // A run that never had a network has no log.
        if !args.all || sandbox::network::NetworkLog::new(&folder).exists() {
            let logged = requests::of_run(&folder, printer)?;
            changes.extend(logged.iter().filter_map(|logged| change(&policy, &run, logged)));
        }
    }
    let status = if changes.is_empty() { ExitStatus::Success } else { ExitStatus::Negative };
    match args.output {
        Output::Json => {
            let report = Report { version: 1, changes };
            // Serializing texts and numbers cannot fail.
            printer.line(serde_json::to_string(&report).unwrap_or_default());
        }
        Output::Text if changes.is_empty() => printer.message("no verdict would change"),
        Output::Text => {
            for change in &changes {
                if !printer.line(text(change, printer)) {
                    break;
                }
            }
        }
    }
    Ok(status)
}

/// The document of `--output json`; `version` rises when a field changes its meaning or is removed.
#[derive(Debug, Serialize)]
struct Report {
    version: u32,
    changes: Vec<Change>,
}

/// Requests of a run whose verdict would change.
#[derive(Debug, Serialize)]
struct Change {
    run: String,
    count: u64,
    #[serde(flatten)]
    verdict: Verdict,
}

/// The change of verdict from the run's policy, or audit, to `policy`.
fn change(policy: &Allowlist, run: &str, logged: &Logged) -> Option<Change> {
    if !logged.is_up_to_rules() {
        return None;
    }
    let Logged { asked, .. } = logged;
    let verdict = Verdict::on(policy, &asked.method, asked.url.as_bytes());
    (verdict.allowed == asked.blocked).then(|| Change { run: run.to_owned(), count: asked.count, verdict })
}

fn text(change: &Change, printer: Printer) -> String {
    let Change { run, count, verdict } = change;
    let request = sanitize_name(&verdict.request());
    if verdict.allowed {
        format!("{run}  {} {count} x {request}", printer.styled(Style::Good, "now allowed"))
    } else {
        format!("{run}  {} {count} x {request}", printer.styled(Style::Bad, "now BLOCKED"))
    }
}

#[cfg(test)]
mod tests {
    use allowlist::{Asked, Reason};
    use sandbox::network_event::BlockReason;

    use super::*;

    #[test]
    fn changed_verdicts_are_listed() {
        let policy = Allowlist::from_yaml("domains: [a.test]", "p").unwrap();
        for (url, reason, expected) in [
            ("https://a.test/", None, None),
            ("https://b.test/", None, Some(false)),
            ("https://a.test/", Some(BlockReason::Policy(Reason::Host)), Some(true)),
            ("https://b.test/", Some(BlockReason::Policy(Reason::Host)), None),
            ("https://a.test/", Some(BlockReason::Budget), None),
            ("https://a.test/", Some(BlockReason::Policy(Reason::Address)), None),
        ] {
            let asked = Asked {
                method: "GET".to_owned(),
                url: url.to_owned(),
                count: 1,
                blocked: reason.is_some(),
                answered: reason.is_none(),
            };
            let change = change(&policy, "1", &Logged { asked, reason });
            assert_eq!(change.map(|change| change.verdict.allowed), expected, "{url} {reason:?}");
        }
    }
}

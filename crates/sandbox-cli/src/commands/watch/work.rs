//! Carries out orders to runs.

use std::path::Path;

use allowlist::{Allowlist, Rule};

use super::inert::from_network;
use super::state::{Job, Order};
use crate::commands::allowlist::remove;
use crate::config::{Environment, Places};
use crate::control::{Report, Request, Runs};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::{AddedRule, Project};

/// Carries out the order; returns the run's new state and the result.
pub(super) async fn perform(
    order: Order,
    places: &Places,
    environment: &Environment,
) -> Result<(Report, String), Failure> {
    let (runs, _) = Runs::look(&places.state).await?;
    let run = runs.one(Some(&order.run))?;
    let (request, done) = match &order.job {
        Job::Allow { rule, .. } => {
            let added = Allowlist::new([(**rule).clone()]);
            (change(added, Allowlist::default()), format!("allowed: {}", rule.to_yaml()))
        }
        Job::Deny { rules, .. } => {
            let removed = Allowlist::new(rules.iter().cloned());
            let yaml: Vec<String> = rules.iter().map(Rule::to_yaml).collect();
            (change(Allowlist::default(), removed), format!("removed: {}", yaml.join(", ")))
        }
        Job::Decide { question, verdict } => {
            let request = Request::Decide { question: *question, verdict: *verdict };
            (request, "answered".to_owned())
        }
        Job::Quarantine => (Request::Quarantine {}, "cut off from the network".to_owned()),
        Job::Up => (Request::Up {}, "its shield is up".to_owned()),
        Job::Stop => (Request::Stop {}, "stopped".to_owned()),
    };
    let now = runs.ask(run, &request).await?;
    let in_file = match &order.job {
        Job::Allow { with_file: true, .. } | Job::Deny { with_file: true, .. } => {
            in_file(&order.job, Path::new(&run.project), environment)
        }
        _ => Ok(None),
    };
    let id: String = order.run.chars().take(8).collect();
    match in_file {
        Ok(None) => Ok((now, format!("run {id}: {done}"))),
        Ok(Some(also)) => Ok((now, format!("run {id}: {done}; {also}"))),
        Err(failure) => Err(Failure::new(format!("run {id}: {done}; but {}", in_words(&failure)))),
    }
}

/// A change to the policy that is in force then, which may differ from the one that was shown.
fn change(added: Allowlist, removed: Allowlist) -> Request {
    Request::ChangeRules { added, removed }
}

/// The same change in the allowlist of the project in `root`, whose trust is unchanged.
fn in_file(job: &Job, root: &Path, environment: &Environment) -> Result<Option<String>, Failure> {
    // Nothing may be written to the terminal meanwhile.
    let silent = Printer::new(0, true).quiet(true);
    let project = Project::load_at(root, None, environment, silent)?;
    let mut results = Vec::new();
    match job {
        Job::Allow { rule, .. } => match project.add_rule(None, environment, rule)? {
            AddedRule::Covered(place) => results.push(format!("already allowed in the file by {place}")),
            AddedRule::Added { label, remarks } => {
                results.push(format!("in {label} too"));
                results.extend(remarks.texts());
            }
        },
        Job::Deny { rules, .. } => {
            for rule in rules {
                let removal = remove(rule, &project, None)?;
                match removal.removed.len() {
                    0 => results.push(format!("nothing in {} is specific to it", removal.label)),
                    _ => results.push(format!("in {} too", removal.label)),
                }
                results.extend(removal.remarks.texts());
                results.extend(removal.left.first().map(|place| format!("still allowed there by {place}")));
            }
        }
        _ => {}
    }
    Ok(Some(results.join("; ")))
}

/// A failure on one line.
pub(super) fn in_words(failure: &Failure) -> String {
    let parts = std::iter::once(failure.to_string()).chain(failure.causes());
    let text: Vec<String> = parts.chain(failure.hint().map(str::to_owned)).collect();
    from_network(&text.join(": "), 1000)
}

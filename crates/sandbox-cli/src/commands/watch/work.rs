//! Carries out orders to runs.

use std::path::Path;

use allowlist::RuleChange;

use super::inert::from_network;
use super::state::{Job, Order};
use crate::config::{Environment, Places, PolicySource};
use crate::control::{Report, Request, Runs};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::Project;

/// Carries out the order; returns the run's new state and the result.
pub(super) async fn perform(
    order: Order,
    places: &Places,
    environment: &Environment,
) -> Result<(Report, String), Failure> {
    let (runs, _) = Runs::look(&places.state).await?;
    let run = runs.one(Some(&order.run))?;
    let (request, done) = match &order.job {
        Job::Change { change, .. } => {
            let done = match &**change {
                RuleChange::Allow(rule) => format!("allowed: {}", rule.to_yaml()),
                RuleChange::Deny(rule) => format!("denied: {}", rule.to_yaml()),
                RuleChange::Restore(rule) => format!("no longer denied: {}", rule.to_yaml()),
            };
            (Request::ChangeRule { change: change.clone() }, done)
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
        Job::Change { change, with_file: true } => {
            let source = run.policy_source.as_ref().ok_or_else(|| Failure::new("the run reports no file"));
            source.and_then(|source| in_file(change, source, run, environment)).map(Some)
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

/// The same change in the file that the run's policy comes from, whose trust is unchanged.
fn in_file(
    change: &RuleChange,
    source: &PolicySource,
    run: &Report,
    environment: &Environment,
) -> Result<String, Failure> {
    // Nothing may be written to the terminal meanwhile.
    let silent = Printer::new(0, true).quiet(true);
    let mut changed =
        Project::change_rule_of_run(source, Path::new(&run.project), environment, change, silent)?;
    let mut results =
        if changed.is_changed() { vec![format!("in {} too", changed.label)] } else { changed.lines(silent) };
    if changed.is_changed() {
        results.extend(changed.left.first().map(|place| format!("still denied there by {place}")));
    }
    if results.is_empty() {
        results.push(format!("nothing to change in {}", changed.label));
    }
    results.extend(changed.remarks().texts());
    Ok(results.join("; "))
}

/// A failure on one line.
pub(super) fn in_words(failure: &Failure) -> String {
    let parts = std::iter::once(failure.to_string()).chain(failure.causes());
    let text: Vec<String> = parts.chain(failure.hint().map(str::to_owned)).collect();
    from_network(&text.join(": "), 1000)
}

//! The result as tables in Markdown.

use std::fmt::Write as _;

use super::outcome::{CAUSES, RESOURCES};
use super::scenario::Run;

/// A line that names the bottleneck, and a row for each run in two tables.
pub(crate) fn tables(runs: &[Run]) -> String {
    let Some(base) = runs.first() else { return String::new() };
    let name = base.outcome.bottleneck();
    let mut text = format!("A model, not a measurement. The bottleneck of the base is: {name}.\n\n");
    let used = RESOURCES.join(" | ");
    heading(
        &mut text,
        &format!(
            "Utilisation | makespan | of the base | results an hour | places held | {used} | bottleneck"
        ),
    );
    for run in runs {
        let outcome = &run.outcome;
        let held = outcome.held / (run.parameters.places() * outcome.makespan);
        let ratio = outcome.makespan / base.outcome.makespan;
        let hours = outcome.makespan / 3600.0;
        let an_hour = f64::from(outcome.results.iter().sum::<u32>()) / hours;
        let _ = write!(text, "| {} | {hours:.2} h | {ratio:.2}× | {an_hour:.0}", run.name);
        for used in std::iter::once(held).chain(outcome.utilisation) {
            let _ = write!(text, " | {:.0} %", used * 100.0);
        }
        let _ = writeln!(text, " | {} |", outcome.bottleneck());
    }
    text.push('\n');
    let causes = CAUSES.join(" | ");
    let counts = "exit code 75 | node failed | lost | given up";
    heading(&mut text, &format!("Seconds of waiting a task | {causes} | {counts}"));
    for Run { name, parameters, outcome } in runs {
        let _ = write!(text, "| {name}");
        for wait in outcome.waits {
            let _ = write!(text, " | {:.1}", wait / f64::from(parameters.tasks));
        }
        let lost = outcome.lost / outcome.held.max(f64::EPSILON) * 100.0;
        let (limited, failed, given_up) = (outcome.limited, outcome.failed, outcome.given_up);
        let _ = writeln!(text, " | {limited} | {failed} | {lost:.1} % | {given_up} |");
    }
    text
}

fn heading(text: &mut String, columns: &str) {
    let rule = "|---:".repeat(columns.matches('|').count());
    let _ = writeln!(text, "| {columns} |\n|---{rule}|");
}

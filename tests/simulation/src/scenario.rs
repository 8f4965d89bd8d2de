//! The base and its variants, which change one thing each.

use super::cluster::simulate;
use super::outcome::Outcome;
use super::parameters::Parameters;

/// A name and what it changes.
type Variant = (&'static str, fn(&mut Parameters));

/// More of one resource each. If the base's bottleneck is the right one, only more of that one helps much.
const RELAXED: [Variant; 6] = [
    ("twice the API limit", |it| {
        it.requests_per_minute *= 2.0;
        it.tokens_per_minute *= 2.0;
    }),
    ("twice the slots", |it| it.slots = it.slots.saturating_mul(2)),
    ("twice the bandwidth", |it| it.bandwidth *= 2.0),
    ("image on every node", |it| it.warm = true),
    ("twice the controller's rate", |it| it.start_rate *= 2.0),
    ("no failures", |it| it.failures = 0.0),
];

const OTHERS: [Variant; 6] = [
    ("ten times the failures", |it| it.failures /= 10.0),
    ("one new task a second", |it| it.arrivals = 1.0),
    ("half of `-j`", |it| it.at_once = it.at_once.div_ceil(2)),
    ("`-j` as the API limit feeds", |it| it.at_once = it.fed()),
    ("twice `-j`", |it| it.at_once = it.at_once.saturating_mul(2)),
    ("no `-j`: all slots", |it| it.at_once = it.nodes.saturating_mul(it.slots)),
];

/// A variant and what it led to.
pub(crate) struct Run {
    pub(crate) name: &'static str,
    pub(crate) parameters: Parameters,
    pub(crate) outcome: Outcome,
}

/// Runs the base, which is first, and all variants.
pub(crate) fn run_all(base: &Parameters) -> Vec<Run> {
    let base_itself: Variant = ("base", |_| {});
    std::iter::once(base_itself).chain(RELAXED).chain(OTHERS).map(|variant| run(base, variant)).collect()
}

fn run(base: &Parameters, (name, change): Variant) -> Run {
    let mut parameters = base.clone();
    change(&mut parameters);
    Run { name, outcome: simulate(&parameters), parameters }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::Cli;

    #[test]
    fn only_a_higher_api_limit_helps_the_base_much() {
        let base = Cli::parse_from(["simulation"]).parameters;
        let outcome = simulate(&base);
        assert_eq!(outcome.bottleneck(), "API limit");
        assert_eq!(outcome.given_up, 0);
        for variant in RELAXED {
            let ratio = run(&base, variant).outcome.makespan / outcome.makespan;
            let helps = variant.0 == "twice the API limit";
            assert!(if helps { ratio < 0.75 } else { ratio > 0.9 }, "{}: {ratio}", variant.0);
        }
    }
}

//! The project's goals for time and memory, which a measurement must reach.

use std::fmt::Write as _;

use anyhow::{Result, bail};
use serde_json::Value;

use super::template::evaluate;

/// The measured quantity, its formula, its unit, and its bound.
const GOALS: [(&str, &str, &str, Bound); 7] = [
    (
        "a chunked upload that is signed again, over one that is passed on",
        "proxy/signing/signed_mb_per_second / proxy/signing/passed_mb_per_second",
        "×",
        Bound::AtLeast(0.5),
    ),
    (
        "the proxy's memory at its peak, after signing",
        "proxy/signing/peak_kib / 976.5625",
        " MB",
        Bound::AtMost(40.0),
    ),
    ("the proxy's memory at its peak, under load", "proxy/peak_kib / 976.5625", " MB", Bound::AtMost(40.0)),
    ("nine of ten answers to a question, to the response", "proxy/answer_ms/p90", " ms", Bound::AtMost(50.0)),
    (
        "start on a copy of a work tree of 10,000 files, over one on a plain mount",
        "tasks/tree_copy_ms/median / tasks/tree_plain_ms/median",
        "×",
        Bound::AtMost(1.05),
    ),
    (
        "one changed file in a copy of 100,000, start and apply, more than a plain mount",
        "tasks/large_more_ms/median",
        " ms",
        Bound::AtMost(50.0),
    ),
    (
        "apply of 50,000 new files, over `cp -a` of them",
        "tasks/many_apply_ms/median / tasks/many_copied_ms/median",
        "×",
        Bound::AtMost(1.3),
    ),
];

#[derive(Clone, Copy)]
enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

/// Returns the goals as a table, and whether all were reached.
pub(crate) fn markdown(measured: &Value) -> Result<(String, bool)> {
    let mut text = "\n| Goal | measured | bound | |\n|---|---:|---:|---|\n".to_owned();
    let mut all = true;
    for (what, formula, unit, bound) in GOALS {
        let value = evaluate(formula, measured)?;
        let (word, bound, reached) = match bound {
            Bound::AtLeast(bound) => ("at least", bound, value >= bound),
            Bound::AtMost(bound) => ("at most", bound, value <= bound),
        };
        all &= reached;
        let verdict = if reached { "reached" } else { "MISSED" };
        let _ = writeln!(text, "| {what} | {value:.2}{unit} | {word} {bound}{unit} | {verdict} |");
    }
    Ok((text, all))
}

/// Fails if a goal was missed.
pub(crate) fn demand(reached: bool) -> Result<()> {
    if !reached {
        bail!("a goal was missed; if the machine had other load meanwhile, measure again");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn measured(copy: f64) -> Value {
        json!({
            "proxy": {"peak_kib": 10_000, "answer_ms": {"p90": 5}, "signing": {"signed_mb_per_second": 90, "passed_mb_per_second": 100, "peak_kib": 10_240}},
            "tasks": {
                "tree_copy_ms": {"median": copy}, "tree_plain_ms": {"median": 100}, "large_more_ms": {"median": 50},
                "many_apply_ms": {"median": 100}, "many_copied_ms": {"median": 100},
            },
        })
    }

    #[test]
    fn goal_is_reached_up_to_its_bound_and_missed_beyond_it() {
        let (text, all) = markdown(&measured(105.0)).unwrap();
        assert!(all && !text.contains("MISSED"), "{text}");
        let (text, all) = markdown(&measured(106.0)).unwrap();
        assert!(!all && text.contains("| 1.06× | at most 1.05× | MISSED |"), "{text}");
        assert!(demand(false).is_err() && demand(true).is_ok());
        assert!(markdown(&json!({})).is_err(), "an unmeasured goal is an error");
    }
}

//! What a measurement must show: the project's own goals for time and memory.

use std::fmt::Write as _;

use anyhow::{Result, bail};
use serde_json::Value;

use super::table::number;

/// A measured value and its bound.
struct Goal {
    what: &'static str,
    value: &'static str,
    /// What the value is divided by; with none, by `unit`.
    base: Option<&'static str>,
    unit: f64,
    suffix: &'static str,
    bound: Bound,
}

#[derive(Clone, Copy)]
enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

const KIB_OF_A_MEGABYTE: f64 = 1e6 / 1024.0;

const GOALS: [Goal; 6] = [
    Goal {
        what: "a chunked upload that is signed again, over one that is passed on",
        value: "/proxy/signing/signed_mb_per_second",
        base: Some("/proxy/signing/passed_mb_per_second"),
        unit: 1.0,
        suffix: "×",
        bound: Bound::AtLeast(0.5),
    },
    Goal {
        what: "the proxy's memory at its peak, after signing",
        value: "/proxy/signing/peak_kib",
        base: None,
        unit: KIB_OF_A_MEGABYTE,
        suffix: " MB",
        bound: Bound::AtMost(40.0),
    },
    Goal {
        what: "the proxy's memory at its peak, under load",
        value: "/proxy/peak_kib",
        base: None,
        unit: KIB_OF_A_MEGABYTE,
        suffix: " MB",
        bound: Bound::AtMost(40.0),
    },
    Goal {
        what: "start on a copy of a work tree of 10,000 files, over one on a plain mount",
        value: "/tasks/tree_copy_ms/median",
        base: Some("/tasks/tree_plain_ms/median"),
        unit: 1.0,
        suffix: "×",
        bound: Bound::AtMost(1.05),
    },
    Goal {
        what: "one changed file in a copy of 100,000, start and apply, more than a plain mount",
        value: "/tasks/large_more_ms/median",
        base: None,
        unit: 1.0,
        suffix: " ms",
        bound: Bound::AtMost(50.0),
    },
    Goal {
        what: "apply of 50,000 new files, over `cp -a` of them",
        value: "/tasks/many_apply_ms/median",
        base: Some("/tasks/many_copied_ms/median"),
        unit: 1.0,
        suffix: "×",
        bound: Bound::AtMost(1.3),
    },
];

/// The goals as a table, and whether all were reached.
pub(crate) fn markdown(measured: &Value) -> Result<(String, bool)> {
    let mut text = "\n| Goal | measured | bound | |\n|---|---:|---:|---|\n".to_owned();
    let mut all = true;
    for goal in GOALS {
        let base = goal.base.map_or(Ok(goal.unit), |base| number(measured, base))?;
        let value = number(measured, goal.value)? / base;
        let (word, bound, reached) = match goal.bound {
            Bound::AtLeast(bound) => ("at least", bound, value >= bound),
            Bound::AtMost(bound) => ("at most", bound, value <= bound),
        };
        all &= reached;
        let verdict = if reached { "reached" } else { "MISSED" };
        let Goal { what, suffix, .. } = goal;
        let _ = writeln!(
            text,
            "| {what} | {value:.2}{suffix} | {word} {bound}{suffix} | {verdict} |"
        );
    }
    Ok((text, all))
}

/// Fails where a goal was missed.
pub(crate) fn demand(reached: bool) -> Result<()> {
    if !reached {
        bail!("a goal was missed; if the machine did something else meanwhile, measure again");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn measured(copy: f64) -> Value {
        json!({
            "proxy": {"peak_kib": 10_000, "signing": {"signed_mb_per_second": 90, "passed_mb_per_second": 100, "peak_kib": 10_240}},
            "tasks": {
                "tree_copy_ms": {"median": copy}, "tree_plain_ms": {"median": 100}, "large_more_ms": {"median": 50},
                "many_apply_ms": {"median": 100}, "many_copied_ms": {"median": 100},
            },
        })
    }

    #[test]
    fn a_goal_is_reached_or_missed() {
        let (text, all) = markdown(&measured(105.0)).unwrap();
        assert!(all && !text.contains("MISSED"), "{text}");
        let (text, all) = markdown(&measured(106.0)).unwrap();
        assert!(
            !all && text.contains("| 1.06× | at most 1.05× | MISSED |"),
            "{text}"
        );
        assert!(demand(false).is_err() && demand(true).is_ok());
        assert!(
            markdown(&json!({})).is_err(),
            "what was not measured was not reached"
        );
    }
}

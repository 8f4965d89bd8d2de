//! The result of a storm.

use std::fmt::Write as _;

/// The rows of a table, and problems.
#[derive(Debug, Default)]
pub(crate) struct Report {
    rows: Vec<(String, String)>,
    /// Everything that was left, lost or disturbed.
    pub(crate) problems: Vec<String>,
}

impl Report {
    /// Adds a row with a figure.
    pub(super) fn row(&mut self, what: impl Into<String>, figure: impl Into<String>) {
        self.rows.push((what.into(), figure.into()));
    }

    /// Adds a problem; only the first hundred are kept.
    pub(super) fn problem(&mut self, what: impl Into<String>) {
        if self.problems.len() < 100 {
            self.problems.push(what.into());
        }
    }

    /// The rows as a table.
    pub(crate) fn markdown(&self, version: &str) -> String {
        let mut text = format!("| | podman {version} |\n|---|---|\n");
        for (what, figure) in &self.rows {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "| {what} | {figure} |");
        }
        text
    }
}

/// The median and the 95th percentile of `times`, in seconds.
pub(super) fn spread(mut times: Vec<f64>) -> String {
    times.sort_by(f64::total_cmp);
    let at =
        |percent: usize| times.get(times.len().saturating_sub(1) * percent / 100).copied().unwrap_or(0.0);
    format!("median {:.2} s, p95 {:.2} s, longest {:.2} s", at(50), at(95), at(100))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_has_a_row_for_each_figure() {
        let mut report = Report::default();
        report.row("tasks", "3 of 3");
        assert_eq!(report.markdown("5.4.2"), "| | podman 5.4.2 |\n|---|---|\n| tasks | 3 of 3 |\n");
        assert_eq!(spread(vec![3.0, 1.0, 2.0]), "median 2.00 s, p95 2.00 s, longest 3.00 s");
    }
}

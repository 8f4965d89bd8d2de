//! The state of one run. Its memory is bounded, regardless of the run's duration.

use std::collections::VecDeque;

use sandbox::network::{LogEntry, Tokens};
use sandbox::network_event::{Event, RequestOutcome};
use serde::Serialize;

use super::row::{Mark, Row};
use crate::control::Report;

/// The number of lines kept of a run; `sandbox logs` has all.
pub(super) const ROWS: usize = 2000;

/// A run that is active, or that ended while it was watched.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) report: Report,
    /// When it was last active, in milliseconds since the Unix epoch; `None` while it is active.
    pub(super) ended_ms: Option<u64>,
    rows: VecDeque<Row>,
    next_number: u64,
    /// The number of the agent's next call of a tool.
    next_tool: u64,
    /// The selected line; the newest one if `None`.
    pub(super) selected: Option<u64>,
    pub(super) totals: Totals,
    /// US dollars, at list prices, of an agent that has ended.
    pub(super) cost: Option<f64>,
    /// Why its log cannot be followed.
    pub(super) problem: Option<String>,
}

/// The totals so far, including lines that are no longer kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(in crate::commands) struct Totals {
    pub(in crate::commands) requests: u64,
    pub(in crate::commands) blocked: u64,
    pub(in crate::commands) bytes_up: u64,
    pub(in crate::commands) bytes_down: u64,
    /// `None` if no model vendor reported any.
    pub(in crate::commands) tokens: Option<Tokens>,
    /// Log lines that this program cannot parse.
    pub(in crate::commands) unread: u64,
}

impl Run {
    pub(super) fn new(report: Report) -> Self {
        let mut run = Self {
            report,
            ended_ms: None,
            rows: VecDeque::new(),
            next_number: 0,
            next_tool: 0,
            selected: None,
            totals: Totals::default(),
            cost: None,
            problem: None,
        };
        run.take_tools();
        run
    }

    /// Takes a newer report.
    pub(super) fn take_report(&mut self, report: Report) {
        self.report = report;
        self.take_tools();
    }

    /// Adds the calls of tools that are new in the report.
    fn take_tools(&mut self) {
        let new = self.report.tools.iter().filter(|tool| tool.number >= self.next_tool);
        let rows: Vec<Row> = new.map(Row::of_tool).collect();
        self.next_tool =
            self.report.tools.last().map_or(self.next_tool, |last| last.number.saturating_add(1));
        for row in rows {
            self.push(row);
        }
    }

    /// Adds a line of its log.
    pub(super) fn take(&mut self, line: &str) {
        match LogEntry::parse(line) {
            Ok(entry) => self.add(&entry),
            Err(_) => self.totals.unread += 1,
        }
    }

    fn add(&mut self, entry: &LogEntry) {
        self.totals.add(entry);
        let Some(row) = Row::of(entry) else { return };
        if row.mark != Mark::Open
            && let Some(open) = self.rows.iter().position(|open| row.ends(open))
        {
            let open = self.rows.remove(open);
            if self.selected.is_some() && open.map(|open| open.number) == self.selected {
                self.selected = Some(self.next_number);
            }
        }
        self.push(row);
    }

    fn push(&mut self, row: Row) {
        if self.rows.len() == ROWS {
            self.rows.pop_front();
        }
        self.rows.push_back(Row { number: self.next_number, ..row });
        self.next_number += 1;
    }

    /// The lines that pass the filter, oldest first.
    pub(super) fn rows(&self, shown: &Shown) -> Vec<&Row> {
        self.rows.iter().filter(|row| shown.passes(row)).collect()
    }

    /// The index of the selected line in `rows`; the newest if that line is gone.
    pub(super) fn selected_of(&self, rows: &[&Row]) -> Option<usize> {
        let last = rows.len().checked_sub(1)?;
        let Some(selected) = self.selected else { return Some(last) };
        Some(rows.partition_point(|row| row.number < selected).min(last))
    }

    /// Moves the selection; at the end of the list it follows new lines.
    pub(super) fn move_by(&mut self, lines: isize, shown: &Shown) {
        let rows = self.rows(shown);
        let Some(at) = self.selected_of(&rows) else { return };
        let to = at.saturating_add_signed(lines).min(rows.len() - 1);
        let is_last = to + 1 == rows.len();
        let number = rows.get(to).map(|row| row.number);
        self.selected = if is_last { None } else { number };
    }
}

impl Totals {
    pub(in crate::commands) fn add(&mut self, entry: &LogEntry) {
        let count = entry.repeated.max(1);
        if entry.blocked() {
            self.blocked = self.blocked.saturating_add(count);
        }
        match &entry.event {
            Event::Request(request) => {
                if request.decision != RequestOutcome::Blocked {
                    self.requests = self.requests.saturating_add(count);
                }
                self.bytes_up = self.bytes_up.saturating_add(request.bytes_up);
                self.bytes_down = self.bytes_down.saturating_add(request.bytes_down);
                if let Some(more) = request.tokens {
                    let tokens = self.tokens.get_or_insert_default();
                    tokens.input = tokens.input.saturating_add(more.input);
                    tokens.output = tokens.output.saturating_add(more.output);
                }
            }
            Event::Tunnel(tunnel) => {
                self.bytes_up = self.bytes_up.saturating_add(tunnel.bytes_up);
                self.bytes_down = self.bytes_down.saturating_add(tunnel.bytes_down);
            }
            _ => {}
        }
    }
}

/// The filter of the lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Shown {
    /// The text that they contain, in lower case.
    pub(super) filter: String,
    pub(super) blocked_only: bool,
}

impl Shown {
    fn passes(&self, row: &Row) -> bool {
        (!self.blocked_only || matches!(row.mark, Mark::Blocked | Mark::ShieldDown))
            && (self.filter.is_empty() || row.contains(&self.filter))
    }
}

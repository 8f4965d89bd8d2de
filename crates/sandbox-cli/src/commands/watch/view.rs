//! Draws the state, with the terminal's own sixteen colours on its own background. No meaning
//! depends on a colour alone.

use std::time::Duration;

use allowlist::Decision;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use sandbox::network_event::PolicyState;

use unicode_width::UnicodeWidthStr as _;

use super::inert::{from_network, name};
use super::over;
use super::row::{Mark, Row};
use super::run::Run;
use super::state::{Over, State};
use super::style::{BAD, CARE, FAINT, GOOD, KEY, PLAIN, SELECTED, STRONG, put};
use super::text::{amount, cut, fitted, fitted_right, time_of_day, wrapped};
use crate::commands::allowlist::ALLOWLIST;
use crate::commands::runs::{age_text, believable};

/// Smaller screens show nothing useful.
const COLUMNS: u16 = 50;
const ROWS: u16 = 12;
/// From this width on, there is room for more columns.
const WIDE: usize = 110;
/// The maximum number of characters of a program's or project's name.
const NAME: usize = 200;

/// Draws the state. Returns whether the question is shown in full.
pub(super) fn draw(state: &State, area: Rect, buffer: &mut Buffer) -> bool {
    if area.width < COLUMNS || area.height < ROWS {
        let text = format!("too small: needs {COLUMNS} x {ROWS}; q leaves");
        put(buffer, area, 0, Line::raw(cut(&text, usize::from(area.width))));
        return false;
    }
    let mut at = title(state, area, buffer);
    at = runs(state, area, at, buffer);
    at = question(state, area, at, buffer);
    let details = details_height(area.height);
    let end = area.height - 1 - details;
    requests(state, area, at, end, buffer);
    if details > 0 {
        selected(state, area, end, buffer);
    }
    over::footer(state, area, buffer);
    match &state.over {
        Over::Help => over::help(area, buffer),
        Over::Confirmation(confirmation) => return over::confirmation(confirmation, area, buffer),
        Over::Nothing | Over::Filter => {}
    }
    true
}

/// A line across the area with a heading in it.
fn rule(buffer: &mut Buffer, area: Rect, row: u16, heading: &[Span<'_>]) {
    put(buffer, area, row, Line::styled("─".repeat(usize::from(area.width)), FAINT));
    let mut line = Line::styled(" ", PLAIN);
    line.spans.extend(heading.iter().cloned());
    line.push_span(" ");
    let inner = Rect { x: area.x + 2, width: area.width.saturating_sub(4), ..area };
    put(buffer, inner, row, line);
}

fn title(state: &State, area: Rect, buffer: &mut Buffer) -> u16 {
    let going = state.runs.iter().filter(|run| run.ended_ms.is_none()).count();
    let time = format!("{} UTC ", time_of_day(state.now_ms));
    let runs = match going {
        0 => "no run is in progress".to_owned(),
        1 => "1 run".to_owned(),
        runs => format!("{runs} runs"),
    };
    let head = " sandbox watch";
    let room = usize::from(area.width).saturating_sub(head.len() + 2 + time.len());
    let spans = vec![
        Span::styled(head, STRONG),
        Span::raw("  "),
        Span::styled(fitted(&runs, room), FAINT),
        Span::styled(time, FAINT),
    ];
    put(buffer, area, 0, Line::from(spans));
    1
}

/// The list of runs, in a third of the screen at most.
fn runs(state: &State, area: Rect, at: u16, buffer: &mut Buffer) -> u16 {
    let room = usize::from(area.height.saturating_sub(8) / 3).max(1);
    let count = state.runs.len().clamp(1, room);
    let width = usize::from(area.width);
    let names = state.runs.iter().map(|run| name(&run.report.program, NAME).width());
    let program = names.max().unwrap_or_default().clamp(7, (width.saturating_sub(39) / 2).max(7));
    let heading = [
        fitted("RUN", 9),
        fitted_right("AGE", 4),
        fitted("  SHIELD", 16),
        fitted("BLOCKED", 8),
        fitted("PROGRAM", program + 2),
    ];
    put(buffer, area, at, Line::styled(format!("  {}PROJECT", heading.concat()), FAINT));
    let chosen = state.chosen_at().unwrap_or_default();
    let first = (chosen + 1).saturating_sub(count);
    if state.runs.is_empty() {
        let text = "  none yet: `sandbox run -- CMD` or `sandbox agent` starts one";
        put(buffer, area, at + 1, Line::raw(text));
    }
    let listed = state.runs.iter().enumerate().skip(first).take(count);
    for (row, (index, run)) in (at + 1..).zip(listed) {
        put(buffer, area, row, run_line(state, run, index == chosen, [program, width]));
    }
    at + 1 + u16::try_from(count).unwrap_or(u16::MAX)
}

fn run_line(state: &State, run: &Run, is_chosen: bool, [program, width]: [usize; 2]) -> Line<'static> {
    let until = run.ended_ms.unwrap_or(state.now_ms);
    let age = age_text(Duration::from_millis(until.saturating_sub(run.report.started_ms)));
    let (shield, look) = shield(run, state.now_ms);
    let blocked = run.totals.blocked;
    let style = if is_chosen { STRONG } else { Style::new() };
    let style = if run.ended_ms.is_some() { style.patch(FAINT) } else { style };
    let spans = vec![
        Span::raw(if is_chosen { "▸ " } else { "  " }),
        Span::raw(fitted(&id(run), 9)),
        Span::raw(fitted_right(&age, 4)),
        Span::raw("  "),
        Span::styled(fitted(&shield, 14), look),
        Span::styled(fitted(&amount(blocked), 8), if blocked > 0 { BAD } else { FAINT }),
        Span::raw(fitted(&name(&run.report.program, NAME), program)),
        Span::raw("  "),
        Span::styled(cut(&name(&run.report.project, NAME), width.saturating_sub(41 + program)), FAINT),
    ];
    Line::from(spans).style(style)
}

/// The part of its id that is enough to name it.
fn id(run: &Run) -> String {
    from_network(&run.report.run.chars().take(8).collect::<String>(), 8)
}

fn shield(run: &Run, now_ms: u64) -> (String, Style) {
    if run.ended_ms.is_some() {
        return ("■ ended".to_owned(), FAINT);
    }
    match run.report.shield {
        Some(PolicyState::Up) => ("● up".to_owned(), GOOD),
        Some(PolicyState::Down) => {
            let left = run.report.until_ms.map(|until| until.saturating_sub(now_ms));
            let left = left.map(|left| age_text(Duration::from_millis(left))).unwrap_or_default();
            (format!("▽ down {left}"), CARE)
        }
        Some(PolicyState::Quarantine) => ("✗ quarantine".to_owned(), BAD),
        None => ("- none".to_owned(), FAINT),
    }
}

/// The pending question, if any.
fn question(state: &State, area: Rect, at: u16, buffer: &mut Buffer) -> u16 {
    let Some((run, question)) = state.question() else { return at };
    let heading = match state.questions() {
        1 => "? A request waits for an answer".to_owned(),
        several => format!("? {several} requests wait for an answer"),
    };
    rule(buffer, area, at, &[Span::styled(heading, CARE.patch(STRONG))]);
    let width = usize::from(area.width);
    let of = format!("{}  {}  ", id(run), cut(&name(&run.report.program, NAME), 16));
    let asked = from_network(&format!("{} {}", question.method, question.url), 1000);
    let asked = cut(&asked, width.saturating_sub(of.width() + 3));
    put(buffer, area, at + 1, Line::from(vec![Span::styled(format!("  {of}"), FAINT), Span::raw(asked)]));
    let left = question.until_ms.saturating_sub(state.now_ms).div_ceil(1000);
    let mut line = Line::raw("  ");
    for (key, what) in [("1", "once"), ("2", "this run"), ("3", "always"), ("4", "no")] {
        line.spans.extend([Span::styled(key, KEY.patch(STRONG)), Span::raw(format!(" {what}   "))]);
    }
    line.push_span(Span::styled(format!("counts as no in {left} s"), FAINT));
    put(buffer, area, at + 2, line);
    at + 3
}

fn requests(state: &State, area: Rect, at: u16, end: u16, buffer: &mut Buffer) {
    let Some(run) = state.chosen_run() else {
        rule(buffer, area, at, &[Span::raw("Requests")]);
        return;
    };
    rule(buffer, area, at, &summary(state, run));
    if let Some(problem) = &run.problem {
        put(buffer, area, at + 1, Line::styled(format!("  {}", from_network(problem, NAME)), CARE));
        return;
    }
    let rows = run.rows(&state.shown);
    let Some(selected) = run.selected_of(&rows) else {
        let is_filtered = !state.shown.filter.is_empty() || state.shown.blocked_only;
        let text = if is_filtered { "  nothing matches; Esc shows everything" } else { "  nothing yet" };
        put(buffer, area, at + 1, Line::styled(text, FAINT));
        return;
    };
    let room = usize::from(end.saturating_sub(at + 1));
    // The selected line stays in the middle if there are lines on both sides.
    let first = selected.saturating_sub(room / 2).min(rows.len().saturating_sub(room));
    for (offset, (index, row)) in rows.iter().enumerate().skip(first).take(room).enumerate() {
        let line = row_line(row, index == selected, usize::from(area.width));
        put(buffer, area, at + 1 + u16::try_from(offset).unwrap_or(u16::MAX), line);
    }
}

fn summary(state: &State, run: &Run) -> Vec<Span<'static>> {
    let totals = &run.totals;
    let tokens = totals.tokens.map_or_else(
        || "-".to_owned(),
        |tokens| format!("{} in {} out", amount(tokens.input), amount(tokens.output)),
    );
    let cost = run.cost.or(run.report.cost).and_then(believable);
    let cost = cost.map_or_else(|| "-".to_owned(), |cost| format!("${cost:.2}"));
    let blocked = if totals.blocked > 0 { BAD } else { FAINT };
    let mut spans = vec![
        Span::styled("Requests", STRONG),
        Span::raw(format!("  {} passed", amount(totals.requests))),
        Span::styled(format!("  {} blocked", amount(totals.blocked)), blocked),
    ];
    if state.shown.blocked_only {
        spans.push(Span::styled("  only blocked", KEY));
    }
    if !state.shown.filter.is_empty() {
        let filter = cut(&from_network(&state.shown.filter, NAME), 20);
        spans.push(Span::styled(format!("  /{filter}"), KEY));
    }
    let bytes = format!("  ↑{} ↓{}", amount(totals.bytes_up), amount(totals.bytes_down));
    spans.push(Span::styled(format!("{bytes}  tokens {tokens}  cost {cost}"), FAINT));
    if totals.unread > 0 {
        spans.push(Span::styled(format!("  {} unreadable", amount(totals.unread)), CARE));
    }
    spans
}

fn row_line(row: &Row, is_selected: bool, width: usize) -> Line<'static> {
    let (mark, look) = mark(row.mark);
    let answer = match row.times {
        1 => row.answer.clone(),
        times => format!("{} ×{}", row.answer, amount(times)),
    };
    let bytes = |arrow, bytes| if bytes == 0 { String::new() } else { format!("{arrow}{}", amount(bytes)) };
    let mut ends = vec![Span::styled(format!(" {}", fitted(&answer, 16)), look)];
    if width >= WIDE {
        let time = row.duration_ms.map(|time| format!("{} ms", amount(time))).unwrap_or_default();
        let tokens =
            row.tokens.map(|tokens| format!("{}+{} tok", amount(tokens.input), amount(tokens.output)));
        let end = [
            fitted_right(&tokens.unwrap_or_default(), 16),
            fitted_right(&time, 10),
            fitted_right(&bytes('↑', row.bytes_up), 8),
        ];
        ends.push(Span::styled(end.concat(), FAINT));
    }
    ends.push(Span::styled(format!("{} ", fitted_right(&bytes('↓', row.bytes_down), 6)), FAINT));
    let starts = vec![
        Span::raw(if is_selected { "▸ " } else { "  " }),
        Span::styled(fitted(&row.time, 8), FAINT),
        Span::styled(format!(" {mark} "), look),
        Span::raw(format!("{} ", fitted(&row.what, 7))),
    ];
    let used: usize = starts.iter().chain(&ends).map(Span::width).sum();
    let place = Span::raw(fitted(&row.place, width.saturating_sub(used)));
    let line: Line<'_> = starts.into_iter().chain([place]).chain(ends).collect();
    if is_selected {
        // In one colour, reversed.
        let text: String = line.spans.iter().map(|span| span.content.as_ref()).collect();
        return Line::styled(text, SELECTED);
    }
    line
}

fn mark(mark: Mark) -> (&'static str, Style) {
    match mark {
        Mark::Allowed => ("✓", GOOD),
        Mark::ShieldDown => ("▽", CARE),
        Mark::Blocked => ("✗", BAD),
        Mark::Failed => ("!", CARE),
        Mark::Open => ("…", FAINT),
        Mark::Note => ("·", KEY),
    }
}

/// The number of rows for the selected line, including its heading.
fn details_height(height: u16) -> u16 {
    match height {
        ..=17 => 0,
        18..=29 => 5,
        _ => 8,
    }
}

fn selected(state: &State, area: Rect, at: u16, buffer: &mut Buffer) {
    rule(buffer, area, at, &[Span::raw("Selected")]);
    let Some(row) = state.selected() else { return };
    let inner = Rect { x: area.x + 2, width: area.width.saturating_sub(4), ..area };
    let columns = usize::from(inner.width);
    let room = usize::from(details_height(area.height)) - 1;
    let place = wrapped(&format!("{} {}", row.what, row.place), columns, room / 2);
    let mut line = at + 1;
    for text in place {
        put(buffer, inner, line, Line::raw(text));
        line += 1;
    }
    let (mark, look) = mark(row.mark);
    let room = room - usize::from(line - at - 1);
    for text in wrapped(&format!("{mark} {}", explanation(state, row)), columns, room) {
        put(buffer, inner, line, Line::styled(text, look));
        line += 1;
    }
}

/// The result of a request, the reason, and a hint.
fn explanation(state: &State, row: &Row) -> String {
    let policy = state.chosen_run().and_then(|run| run.report.policy.as_ref());
    if let (Mark::Blocked | Mark::ShieldDown, Some(asked), Some(policy)) = (row.mark, &row.asked, policy) {
        let what = if row.mark == Mark::Blocked { "blocked" } else { "passed while the shield was down" };
        let what = if row.times > 1 { format!("{what} {} times", row.times) } else { what.to_owned() };
        return match policy.judge(&asked.method, &asked.url) {
            Decision::Deny(denial) => {
                format!("{what}: {}", from_network(&denial.message_naming(ALLOWLIST), NAME * 4))
            }
            _ => format!("{what}: {}; the policy now allows it", row.answer),
        };
    }
    let mut parts = vec![row.answer.clone()];
    if row.times > 1 {
        parts.push(format!("{} times", row.times));
    }
    if !row.more.is_empty() {
        parts.push(row.more.clone());
    }
    if let Some(duration) = row.duration_ms {
        let (up, down) = (amount(row.bytes_up), amount(row.bytes_down));
        parts.push(format!("↑{up} ↓{down} bytes in {} ms", amount(duration)));
    }
    if let Some(tokens) = row.tokens {
        parts.push(format!("{} tokens in, {} out", amount(tokens.input), amount(tokens.output)));
    }
    parts.retain(|part| !part.is_empty());
    parts.join(", ")
}

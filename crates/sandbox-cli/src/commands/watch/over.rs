//! The overlays on the lists, and the line of keys below them.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Clear, Widget as _};

use super::inert::from_network;
use super::state::{Confirmation, Over, State};
use super::style::{BAD, FAINT, GOOD, KEY, STRONG, put};
use super::text::{cut, wrapped};

/// The keys that are always shown, and those that are shown if there is room, the most useful
/// first.
const LAST: [(&str, &str); 2] = [("?", "help"), ("q", "quit")];
const KEYS: [(&str, &str); 9] = [
    ("↑↓", "select"),
    ("a", "allow"),
    ("d", "deny"),
    ("Tab", "run"),
    ("/", "filter"),
    ("s", "stop"),
    ("Q", "quarantine"),
    ("b", "blocked only"),
    ("u", "shield up"),
];

const HELP: [(&str, &str); 13] = [
    ("↑ ↓ PgUp PgDn", "select a request; the end of the list follows"),
    ("Tab", "next run (Shift-Tab: the one before)"),
    ("a", "allow the selected request, in this run's policy"),
    ("A", "the same, and in its allowlist file"),
    ("d D", "deny it likewise, whatever allows it"),
    ("1 2 3 4", "a request that waits: once, for this run, always, no"),
    ("u", "raise the shield again"),
    ("Q", "quarantine: cut the run off for good"),
    ("s", "stop the run"),
    ("/", "filter by text; Esc shows everything again"),
    ("b", "only what was blocked"),
    ("q Ctrl-Z", "leave; suspend"),
    ("", "✓ passed  ✗ blocked  ! failed  ▽ shield down  … open"),
];

/// The result of the last key, the filter being typed, or the available keys.
pub(super) fn footer(state: &State, area: Rect, buffer: &mut Buffer) {
    let (row, width) = (area.height - 1, usize::from(area.width));
    let line = match (&state.over, &state.message) {
        (Over::Filter, _) => {
            let filter = from_network(&state.shown.filter, 100);
            let keys = "   Enter keep   Esc clear";
            let room = width.saturating_sub(keys.len() + 4);
            let filter: String = {
                let from = filter.chars().count().saturating_sub(room);
                filter.chars().skip(from).collect()
            };
            Line::from(vec![
                Span::styled(" / ", KEY.patch(STRONG)),
                Span::raw(filter),
                Span::raw("▏"),
                Span::styled(keys, FAINT),
            ])
        }
        (_, Some(message)) => {
            let (mark, look) = if message.is_bad { ("✗", BAD) } else { ("·", GOOD) };
            let text = from_network(&message.text, 1000);
            Line::styled(cut(&format!(" {mark} {text}"), width), look)
        }
        _ => keys(width),
    };
    put(buffer, area, row, line);
}

fn keys(width: usize) -> Line<'static> {
    let length = |(key, what): &(&str, &str)| key.chars().count() + what.len() + 3;
    let mut room = width.saturating_sub(1 + LAST.iter().map(length).sum::<usize>());
    let mut line = Line::raw(" ");
    let fitting = KEYS.iter().take_while(|key| {
        let fits = length(key) <= room;
        room = room.saturating_sub(length(key));
        fits
    });
    for (key, what) in fitting.chain(&LAST) {
        line.spans.extend([Span::styled(*key, KEY), Span::styled(format!(" {what}  "), FAINT)]);
    }
    line
}

/// The meaning of all keys.
pub(super) fn help(area: Rect, buffer: &mut Buffer) {
    let lines = HELP.iter().map(|(key, what)| {
        let key = format!("{key:<14}");
        Line::from(vec![Span::styled(key, KEY), Span::raw(*what)])
    });
    window("Keys", "any key goes back", lines.collect(), area, buffer);
}

/// The question with all its details. Returns whether there is room for it: the user can only agree
/// to a question that is shown in full.
pub(super) fn confirmation(confirmation: &Confirmation, area: Rect, buffer: &mut Buffer) -> bool {
    let Some(choice) = confirmation.choices.get(confirmation.chosen) else { return false };
    let columns = usize::from(area.width.saturating_sub(10)).min(90);
    let most = usize::from(area.height.saturating_sub(5));
    let mut lines: Vec<Line<'static>> = Vec::new();
    for text in &choice.lines {
        let look = if text.starts_with('-') { BAD } else { GOOD };
        lines.extend(wrapped(text, columns, most + 1).into_iter().map(|text| Line::styled(text, look)));
    }
    let title = confirmation.title.as_str();
    if lines.len() > most {
        let text = "This terminal is too small to show all of it: make it larger.";
        let lines = wrapped(text, columns, 2).into_iter().map(Line::raw).collect();
        window(title, "Esc no", lines, area, buffer);
        return false;
    }
    lines.push(Line::raw(""));
    lines.extend(wrapped(&choice.note, columns, 2).into_iter().map(Line::raw));
    let choices = match confirmation.choices.len() {
        1 => String::new(),
        count => format!("↑↓ {} of {count}   ", confirmation.chosen + 1),
    };
    window(title, &format!("{choices}y yes   any other key: no"), lines, area, buffer);
    true
}

/// A window in the middle of the area, as large as its lines need.
fn window(title: &str, keys: &str, lines: Vec<Line<'_>>, area: Rect, buffer: &mut Buffer) {
    let widest = lines.iter().map(Line::width).max().unwrap_or_default();
    let widest = widest.max(keys.chars().count()).max(title.chars().count());
    let width = u16::try_from(widest + 4).unwrap_or(u16::MAX).min(area.width);
    let height = u16::try_from(lines.len() + 2).unwrap_or(u16::MAX).min(area.height);
    let (x, y) = (area.x + (area.width - width) / 2, area.y + (area.height - height) / 2);
    let frame = Rect { x, y, width, height };
    Clear.render(frame, buffer);
    Block::bordered()
        .border_type(BorderType::Rounded)
        .title(Line::styled(format!(" {title} "), STRONG))
        .title_bottom(Line::styled(format!(" {keys} "), KEY).right_aligned())
        .render(frame, buffer);
    let inner = Rect { x: x + 2, y: y + 1, width: width.saturating_sub(4), height: height.saturating_sub(2) };
    for (row, line) in lines.into_iter().enumerate() {
        put(buffer, inner, u16::try_from(row).unwrap_or(u16::MAX), line);
    }
}

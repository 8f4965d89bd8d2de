//! The styles of text: the terminal's own sixteen colours on its own background.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;

pub(super) const FAINT: Style = Style::new().add_modifier(Modifier::DIM);
pub(super) const PLAIN: Style = Style::new().remove_modifier(Modifier::DIM);
pub(super) const STRONG: Style = Style::new().add_modifier(Modifier::BOLD);
pub(super) const SELECTED: Style = Style::new().add_modifier(Modifier::REVERSED);
pub(super) const GOOD: Style = Style::new().fg(Color::Green);
pub(super) const CARE: Style = Style::new().fg(Color::Yellow);
pub(super) const BAD: Style = Style::new().fg(Color::Red);
pub(super) const KEY: Style = Style::new().fg(Color::Cyan);

/// Draws a line at a row of the area, clipped to it.
pub(super) fn put<'a>(buffer: &mut Buffer, area: Rect, row: u16, line: impl Into<Line<'a>>) {
    if row < area.height {
        buffer.set_line(area.x, area.y + row, &line.into(), area.width);
    }
}

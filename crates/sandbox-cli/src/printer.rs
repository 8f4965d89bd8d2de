//! What reaches the user: data on stdout, everything else on stderr.
//!
//! Nothing here panics or fails when a reader has gone away.

use std::fmt::{Display, Write as _};
use std::io::{self, IsTerminal as _, Write as _};

use crate::failure::Failure;

/// Writes to stdout and stderr.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Printer {
    verbosity: u8,
    stdout: Stream,
    stderr: Stream,
}

/// What is at the other end.
#[derive(Debug, Clone, Copy)]
struct Stream {
    terminal: bool,
    colour: bool,
}

/// How a piece of text looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Good,
    Warning,
    Bad,
    Strong,
    Faint,
}

impl Style {
    fn code(self) -> &'static str {
        match self {
            Self::Good => "32",
            Self::Warning => "33",
            Self::Bad => "31",
            Self::Strong => "1",
            Self::Faint => "2",
        }
    }
}

impl Printer {
    /// For this process; `no_colour` is what the environment asks for.
    pub(crate) fn new(verbosity: u8, no_colour: bool) -> Self {
        let stream = |terminal: bool| Stream {
            terminal,
            colour: terminal && !no_colour,
        };
        Self {
            verbosity,
            stdout: stream(io::stdout().is_terminal()),
            stderr: stream(io::stderr().is_terminal()),
        }
    }

    /// How often `-v` was given.
    pub(crate) fn verbosity(self) -> u8 {
        self.verbosity
    }

    /// Whether somebody watches stdout.
    pub(crate) fn is_live(self) -> bool {
        self.stdout.terminal
    }

    /// Whether progress is worth telling.
    pub(crate) fn shows_progress(self) -> bool {
        self.stderr.terminal || self.verbosity > 0
    }

    /// Whether stderr may have colours.
    pub(crate) fn has_colour(self) -> bool {
        self.stderr.colour
    }

    /// Writes a line of data. Tells whether anybody still reads.
    pub(crate) fn line(self, text: impl Display) -> bool {
        self.data(format!("{text}\n").as_bytes())
    }

    /// Writes data as it is. Tells whether anybody still reads.
    #[expect(clippy::unused_self, reason = "all output goes through a printer")]
    pub(crate) fn data(self, bytes: &[u8]) -> bool {
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes).and_then(|()| stdout.flush()).is_ok()
    }

    /// `text` as it is to look on stdout.
    pub(crate) fn styled(self, style: Style, text: impl Display) -> String {
        styled(self.stdout.colour, style, text)
    }

    /// `text` for stdout: on a terminal, nothing in it moves the cursor or changes its colours.
    pub(crate) fn harmless(self, text: &str) -> String {
        if self.stdout.terminal {
            harmless(text)
        } else {
            text.to_owned()
        }
    }

    /// A line of stderr that is always shown.
    #[expect(clippy::unused_self, reason = "all output goes through a printer")]
    pub(crate) fn message(self, text: impl Display) {
        to_stderr(&format!("{text}\n"));
    }

    /// A line about where we are.
    pub(crate) fn progress(self, text: &str) {
        if self.shows_progress() {
            to_stderr(&format!(
                "{}\n",
                styled(self.stderr.colour, Style::Faint, harmless(text))
            ));
        }
    }

    /// Something that only `-v` shows.
    pub(crate) fn note(self, text: impl Display) {
        if self.verbosity > 0 {
            to_stderr(&format!(
                "{} {text}\n",
                styled(self.stderr.colour, Style::Faint, "note:")
            ));
        }
    }

    /// Something that is not as it should be.
    pub(crate) fn warning(self, text: impl Display) {
        to_stderr(&format!(
            "{} {text}\n",
            styled(self.stderr.colour, Style::Warning, "warning:")
        ));
    }

    /// What to do about the line before.
    pub(crate) fn hint(self, text: impl Display) {
        to_stderr(&format!(
            "{} {text}\n",
            styled(self.stderr.colour, Style::Good, "hint:")
        ));
    }

    /// Why nothing came of it.
    pub(crate) fn failure(self, failure: &Failure) {
        to_stderr(&failure_text(self.stderr.colour, failure));
    }
}

fn failure_text(colour: bool, failure: &Failure) -> String {
    let mut text = format!("{} {failure}\n", styled(colour, Style::Bad, "error:"));
    for cause in failure.causes() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  caused by: {cause}");
    }
    if let Some(hint) = failure.hint() {
        let _ = writeln!(text, "{} {hint}", styled(colour, Style::Good, "hint:"));
    }
    text
}

fn to_stderr(text: &str) {
    // Nobody is left to be told of a failure here.
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

fn styled(colour: bool, style: Style, text: impl Display) -> String {
    if colour {
        format!("\x1b[{}m{text}\x1b[0m", style.code())
    } else {
        text.to_string()
    }
}

/// Control characters, but for line ends and tabs, as the escapes that programmers write.
pub(crate) fn harmless(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() && c != '\n' && c != '\t' {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_never_sent_what_a_container_made_up() {
        assert_eq!(
            harmless("a\x1b[2Jb\r\u{9b}c\n\td"),
            "a\\u{1b}[2Jb\\r\\u{9b}c\n\td"
        );
    }

    #[test]
    fn a_failure_has_its_causes_and_its_hint() {
        let cause = io::Error::from(io::ErrorKind::PermissionDenied);
        let failure =
            Failure::doing::<io::Error>("read `.sandbox/sandbox.yaml`")(cause).with_hint("make it readable");
        insta::assert_snapshot!(failure_text(false, &failure), @r"
        error: failed to read `.sandbox/sandbox.yaml`
          caused by: permission denied
        hint: make it readable
        ");
        let plain = failure_text(true, &Failure::new("no"));
        assert_eq!(plain, "\x1b[31merror:\x1b[0m no\n");
    }

    #[test]
    fn colours_are_for_those_who_want_them() {
        assert_eq!(styled(false, Style::Bad, "x"), "x");
        assert_eq!(styled(true, Style::Bad, "x"), "\x1b[31mx\x1b[0m");
    }
}

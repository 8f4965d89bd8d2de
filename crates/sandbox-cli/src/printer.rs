//! Output to the user: data on stdout, everything else on stderr.
//!
//! Nothing here panics or fails if writing to stdout fails; [`Printer::ending`] turns that into the
//! exit code, for every command.

use std::fmt::{Display, Write as _};
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::sync::{Mutex, OnceLock, PoisonError};

use anstyle::AnsiColor;
use clap::ColorChoice;
use rustix::termios::tcgetwinsize;
use unicode_properties::{GeneralCategory, UnicodeGeneralCategory as _};

use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::terminal::Filter;

/// The first write error of stdout. Static, because a process has one stdout.
static STDOUT_ERROR: OnceLock<io::Error> = OnceLock::new();

/// The state of stderr's terminal. Static, because a process has one.
static SHOWN: Mutex<Shown> = Mutex::new(Shown { status: Status::None, column: 0 });

#[derive(Debug)]
struct Shown {
    status: Status,
    /// The number of characters after the last line end on stdout, if that is a terminal too.
    column: usize,
}

/// The place of the status line, which the next output replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    None,
    /// It is the last line.
    Last,
    /// It is below the line that the cursor is in.
    Below,
}

/// The width of a terminal that does not report it.
const USUAL_COLUMNS: usize = 80;

/// Goes to the start of the line and clears it.
const REMOVED_LINE: &str = "\r\x1b[K";
/// Makes room for a line below the cursor, which does not move.
const ROOM_BELOW: &str = "\x1bD\x1b[A";
/// Saves the cursor, goes to the line below and clears it; and restores the cursor.
const TO_BELOW: &str = "\x1b7\x1b[B\r\x1b[K";
const FROM_BELOW: &str = "\x1b8";

impl Shown {
    /// The sequence that removes the status.
    fn removed(&mut self) -> String {
        match std::mem::replace(&mut self.status, Status::None) {
            Status::None => String::new(),
            Status::Last => REMOVED_LINE.to_owned(),
            Status::Below => format!("{TO_BELOW}{FROM_BELOW}"),
        }
    }

    /// The sequence that shows `line` as the status, on a terminal with so many columns.
    fn status(&mut self, line: &str, columns: usize) -> String {
        let removed = self.removed();
        if self.column == 0 {
            self.status = Status::Last;
            return format!("{removed}{REMOVED_LINE}{line}");
        }
        // After the last column, saving the cursor loses that the next character belongs to the
        // next line.
        if self.column.is_multiple_of(columns) || (self.column * 2).is_multiple_of(columns) {
            return removed;
        }
        self.status = Status::Below;
        format!("{removed}{ROOM_BELOW}{TO_BELOW}{line}{FROM_BELOW}")
    }

    /// The sequence before a separate line.
    fn fresh_line(&mut self) -> String {
        let removed = self.removed();
        let end = if std::mem::take(&mut self.column) > 0 { "\r\n" } else { "" };
        format!("{removed}{end}")
    }
}

/// Writes to stdout and stderr.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Printer {
    verbosity: u8,
    quiet: bool,
    raw_terminal: bool,
    stdout: Stream,
    stderr: Stream,
}

/// The kind of a stream.
#[derive(Debug, Clone, Copy)]
struct Stream {
    terminal: bool,
    colour: bool,
}

/// The style of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Good,
    Warning,
    Bad,
    Strong,
    Faint,
}

impl Style {
    fn look(self) -> anstyle::Style {
        match self {
            Self::Good => AnsiColor::Green.on_default(),
            Self::Warning => AnsiColor::Yellow.on_default(),
            Self::Bad => AnsiColor::Red.on_default(),
            Self::Strong => anstyle::Style::new().bold(),
            Self::Faint => anstyle::Style::new().dimmed(),
        }
    }
}

impl Printer {
    /// The printer of this process; `no_colour` is from the environment.
    pub(crate) fn new(verbosity: u8, no_colour: bool) -> Self {
        let stream = |terminal: bool| Stream { terminal, colour: terminal && !no_colour };
        Self {
            verbosity,
            quiet: false,
            raw_terminal: false,
            stdout: stream(io::stdout().is_terminal()),
            stderr: stream(io::stderr().is_terminal()),
        }
    }

    /// The same with colours always or never, unless `when` is automatic.
    pub(crate) fn color(self, when: ColorChoice) -> Self {
        let stream = |stream: Stream| match when {
            ColorChoice::Auto => stream,
            ColorChoice::Always => Stream { colour: true, ..stream },
            ColorChoice::Never => Stream { colour: false, ..stream },
        };
        Self { stdout: stream(self.stdout), stderr: stream(self.stderr), ..self }
    }

    /// The same without progress, if `quiet`.
    pub(crate) fn quiet(self, quiet: bool) -> Self {
        Self { quiet, ..self }
    }

    /// The same without filters of programs' output, if `raw_terminal`.
    pub(crate) fn raw_terminal(self, raw_terminal: bool) -> Self {
        Self { raw_terminal, ..self }
    }

    /// The filters for output of programs in containers, for stdout and stderr. `has_modes`: modes
    /// that they set in a terminal are reset when they end.
    pub(crate) fn filters(self, has_modes: bool) -> (Filter, Filter) {
        let filter = |stream: Stream| Filter::new(stream.terminal && !self.raw_terminal, has_modes);
        (filter(self.stdout), filter(self.stderr))
    }

    /// How often `-v` was given.
    pub(crate) fn verbosity(self) -> u8 {
        self.verbosity
    }

    /// Whether text is streamed: stdout is a terminal, and progress is wanted.
    pub(crate) fn streams(self) -> bool {
        self.stdout.terminal && !self.quiet
    }

    /// Whether stdout is a terminal.
    pub(crate) fn is_live(self) -> bool {
        self.stdout.terminal
    }

    /// Whether progress is worth showing.
    pub(crate) fn shows_progress(self) -> bool {
        (self.stderr.terminal || self.verbosity > 0) && !self.quiet
    }

    /// Whether a status line is possible and wanted.
    pub(crate) fn shows_status(self) -> bool {
        self.stderr.terminal && !self.quiet
    }

    /// Shows a line on stderr until other output, or [`remove_status`](Self::remove_status).
    pub(crate) fn status(self, text: &str) {
        let columns = tcgetwinsize(io::stderr()).map_or(0, |size| usize::from(size.ws_col));
        let columns = if columns == 0 { USUAL_COLUMNS } else { columns };
        let line = styled(self.stderr.colour, Style::Faint, status_line(text, columns));
        let mut shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let text = shown.status(&line, columns);
        let _ = io::stderr().lock().write_all(text.as_bytes());
    }

    /// Records that `text` was written to stdout: the next output to stderr starts a new line.
    pub(crate) fn wrote(self, text: &str) {
        if self.stdout.terminal && self.stderr.terminal {
            let mut shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
            shown.column = match text.rsplit_once('\n') {
                Some((_, last)) => last.chars().count(),
                None => shown.column + text.chars().count(),
            };
        }
    }

    /// Removes the status line, before other output to the terminal.
    #[expect(clippy::unused_self, reason = "all output goes through a printer")]
    pub(crate) fn remove_status(self) {
        let mut shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = io::stderr().lock().write_all(shown.removed().as_bytes());
    }

    /// Whether stderr may have colours.
    pub(crate) fn has_colour(self) -> bool {
        self.stderr.colour
    }

    /// Writes a line of data. Returns whether that succeeded.
    pub(crate) fn line(self, text: impl Display) -> bool {
        self.data(format!("{text}\n").as_bytes())
    }

    /// Writes data unchanged. Returns whether that succeeded.
    pub(crate) fn data(self, bytes: &[u8]) -> bool {
        let mut stdout = io::stdout().lock();
        let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
        self.has_written(written)
    }

    /// Records the result of writing data to stdout elsewhere.
    #[expect(clippy::unused_self, reason = "all output goes through a printer")]
    pub(crate) fn has_written(self, written: io::Result<()>) -> bool {
        written.map_err(|error| STDOUT_ERROR.get_or_init(|| error)).is_ok()
    }

    /// The exit status of a command that ended with `status`: lost output turns success into an
    /// error.
    #[expect(clippy::unused_self, reason = "all output goes through a printer")]
    pub(crate) fn ending(self, status: ExitStatus) -> Result<ExitStatus, Failure> {
        ending(status, STDOUT_ERROR.get().map(|error| io::Error::new(error.kind(), error)))
    }

    /// `text` with a style, for stdout.
    pub(crate) fn styled(self, style: Style, text: impl Display) -> String {
        styled(self.stdout.colour, style, text)
    }

    /// `text` for stdout: on a terminal, it cannot move the cursor or change colours.
    pub(crate) fn sanitize(self, text: &str) -> String {
        if self.stdout.terminal { sanitize(text) } else { text.to_owned() }
    }

    /// Prints a line to stderr, always.
    #[expect(clippy::unused_self, reason = "all output goes through a printer")]
    pub(crate) fn message(self, text: impl Display) {
        to_stderr(&format!("{}\n", sanitize(&text.to_string())));
    }

    /// Prints progress to stderr.
    pub(crate) fn progress(self, text: &str) {
        if self.shows_progress() {
            to_stderr(&format!("{}\n", styled(self.stderr.colour, Style::Faint, sanitize(text))));
        }
    }

    /// Prints a line to stderr with `-v`.
    pub(crate) fn note(self, text: impl Display) {
        if self.verbosity > 0 {
            to_stderr(&format!(
                "{} {}\n",
                styled(self.stderr.colour, Style::Faint, "note:"),
                sanitize(&text.to_string())
            ));
        }
    }

    /// Whether questions are possible: both stdin and stderr are a terminal.
    pub(crate) fn can_ask(self) -> bool {
        self.stderr.terminal && io::stdin().is_terminal()
    }

    /// Asks a question; returns whether the answer is yes.
    #[expect(clippy::unused_self, reason = "all output goes through a printer")]
    pub(crate) fn agrees(self, question: impl Display) -> Result<bool, Failure> {
        to_stderr(&sanitize(&format!("{question} [y/N] ")));
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer).map_err(Failure::doing("read the answer"))?;
        Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
    }

    /// Prints a warning.
    pub(crate) fn warning(self, text: impl Display) {
        to_stderr(&format!(
            "{} {}\n",
            styled(self.stderr.colour, Style::Warning, "warning:"),
            sanitize(&text.to_string())
        ));
    }

    /// Prints a hint for the previous message.
    pub(crate) fn hint(self, text: impl Display) {
        to_stderr(&format!(
            "{} {}\n",
            styled(self.stderr.colour, Style::Good, "hint:"),
            sanitize(&text.to_string())
        ));
    }

    /// Prints an error with its causes and its hint.
    pub(crate) fn failure(self, failure: &Failure) {
        to_stderr(&failure_text(self.stderr.colour, failure));
    }
}

fn ending(status: ExitStatus, problem: Option<io::Error>) -> Result<ExitStatus, Failure> {
    match problem {
        Some(error) if status.code() == 0 => match error.kind() {
            io::ErrorKind::BrokenPipe => Ok(ExitStatus::OutputClosed),
            _ => Err(Failure::doing("write to stdout")(error)),
        },
        _ => Ok(status),
    }
}

fn failure_text(colour: bool, failure: &Failure) -> String {
    let mut text = format!("{} {}\n", styled(colour, Style::Bad, "error:"), sanitize(&failure.to_string()));
    for cause in failure.causes() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  caused by: {}", sanitize(&cause));
    }
    if let Some(hint) = failure.hint() {
        let _ = writeln!(text, "{} {}", styled(colour, Style::Good, "hint:"), sanitize(hint));
    }
    text
}

fn to_stderr(text: &str) {
    let mut shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let before = shown.fresh_line();
    // An error of stderr cannot be reported anywhere.
    let _ = io::stderr().lock().write_all(format!("{before}{text}").as_bytes());
}

/// `text` for a terminal with so many columns: it stays on one line, and each character has one
/// column.
fn status_line(text: &str, columns: usize) -> String {
    let one = |c: char| if c.is_ascii_graphic() { c } else { ' ' };
    // A terminal may wrap after its last column.
    text.chars().map(one).take(columns.saturating_sub(1)).collect()
}

fn styled(colour: bool, style: Style, text: impl Display) -> String {
    if colour {
        let look = style.look();
        format!("{look}{text}{look:#}")
    } else {
        text.to_string()
    }
}

/// Escapes characters that move the cursor, or that hide or reorder text. Line ends and tabs
/// remain, and joiners, which many scripts need.
pub(crate) fn sanitize(text: &str) -> String {
    escaped(text, |c| matches!(c, '\n' | '\t' | '\u{200c}' | '\u{200d}') || !is_invisible(c))
}

/// [`sanitize`], for a name from another party: the result is one line without invisible characters
/// and without ones that look like a space.
pub(crate) fn sanitize_name(name: &str) -> String {
    escaped(name, |c| !is_invisible(c) && !is_blank(c))
}

/// The same for a line with such names: it has no runs of spaces, so that no part looks like the
/// beginning of a line where a terminal wraps it.
pub(crate) fn sanitize_line(line: &str) -> String {
    sanitize_name(line).replace("  ", " \\x20")
}

/// A name where only a name is expected; quoted if it could be mistaken for our text.
pub(crate) fn plain_or_quoted(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-*?".contains(c);
    if name.chars().all(is_plain) { name.to_owned() } else { quoted(name) }
}

/// A name from another party, in backticks that it cannot end: different names have different
/// texts, and none looks like our text.
pub(crate) fn quoted(name: &str) -> String {
    format!("`{}`", sanitize_line(&name.replace('\\', "\\\\")).replace('`', "\\x60"))
}

fn escaped(text: &str, keep: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if keep(c) {
            shown.push(c);
        } else {
            shown.extend(c.escape_default());
        }
    }
    shown
}

/// Whether it is a control or format character, or ends a line or paragraph.
fn is_invisible(c: char) -> bool {
    use GeneralCategory::{Control, Format, LineSeparator, ParagraphSeparator};
    let category = c.general_category();
    matches!(category, Control | Format | LineSeparator | ParagraphSeparator) || is_reserved(c)
}

/// Code points that Unicode reserves for future format characters.
fn is_reserved(c: char) -> bool {
    matches!(c, '\u{2065}' | '\u{fff0}'..='\u{fff8}' | '\u{e0000}'..='\u{e00ff}' | '\u{e01f0}'..='\u{e0fff}')
}

/// Whether it has no visible form: other spaces, and letters and marks that are empty or only
/// modify another one.
fn is_blank(c: char) -> bool {
    let is_space = c != ' ' && c.general_category() == GeneralCategory::SpaceSeparator;
    let is_empty = matches!(
        c,
        '\u{34f}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{2800}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{ffa0}'
            | '\u{e0100}'..='\u{e01ef}'
    );
    is_space || is_empty
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unwritable_output_is_an_error() {
        let closed = || Some(io::Error::from(io::ErrorKind::BrokenPipe));
        let full = || Some(io::Error::other("the disk is full"));
        let code = |status, problem| ending(status, problem).map(ExitStatus::code);
        assert_eq!(code(ExitStatus::Success, None).unwrap(), 0);
        assert_eq!(code(ExitStatus::Success, closed()).unwrap(), 141);
        assert_eq!(code(ExitStatus::Command(0), closed()).unwrap(), 141);
        assert_eq!(code(ExitStatus::Negative, closed()).unwrap(), 1);
        assert_eq!(code(ExitStatus::Negative, full()).unwrap(), 1);
        let failure = code(ExitStatus::Success, full()).unwrap_err();
        assert_eq!(failure.status().code(), 125);
        assert_eq!(failure.to_string(), "failed to write to stdout");
        assert_eq!(failure.causes(), ["the disk is full"]);
    }

    #[test]
    fn container_text_is_sanitized_for_terminals() {
        assert_eq!(sanitize("a\x1b[2Jb\r\u{9b}c\n\td"), "a\\u{1b}[2Jb\\r\\u{9b}c\n\td");
        for hidden in [
            '\u{ad}',
            '\u{61c}',
            '\u{200b}',
            '\u{200e}',
            '\u{200f}',
            '\u{202a}',
            '\u{202e}',
            '\u{2028}',
            '\u{2066}',
            '\u{2069}',
            '\u{feff}',
            '\u{e0041}',
        ] {
            let shown = format!("a{}b", hidden.escape_default());
            assert_eq!(sanitize(&format!("a{hidden}b")), shown);
            assert_eq!(sanitize_name(&format!("a{hidden}b")), shown);
        }
        assert_eq!(
            sanitize("é \u{1f469}\u{200d}\u{1f4bb} \u{3000}ü"),
            "é \u{1f469}\u{200d}\u{1f4bb} \u{3000}ü"
        );
    }

    #[test]
    fn status_is_one_line_of_the_terminal() {
        assert_eq!(status_line("0:01 a\x1b[2J\n日b\u{202e}", 80), "0:01 a [2J  b ");
        assert_eq!(status_line("0123456789", 8), "0123456");
        assert_eq!(status_line("0123456789", 0), "");
    }

    #[test]
    fn status_below_an_incomplete_line_does_not_change_it() {
        let mut shown = Shown { status: Status::None, column: 7 };
        assert_eq!(shown.status("s", 80), "\x1bD\x1b[A\x1b7\x1b[B\r\x1b[Ks\x1b8");
        assert_eq!(shown.status("t", 80), "\x1b7\x1b[B\r\x1b[K\x1b8\x1bD\x1b[A\x1b7\x1b[B\r\x1b[Kt\x1b8");
        assert_eq!(shown.fresh_line(), "\x1b7\x1b[B\r\x1b[K\x1b8\r\n");
        assert_eq!(shown.status("s", 80), "\r\x1b[Ks");
        assert_eq!(shown.fresh_line(), "\r\x1b[K");
        for column in [80, 160, 40] {
            let mut shown = Shown { status: Status::Below, column };
            assert_eq!(shown.status("s", 80), "\x1b7\x1b[B\r\x1b[K\x1b8", "{column}");
        }
    }

    #[test]
    fn sanitized_name_is_one_line() {
        let name = "a\nwarning: b\tc\u{200d}d";
        assert_eq!(sanitize_name(name), r"a\nwarning: b\tc\u{200d}d");
        assert_eq!(sanitize_name("é ü 日本"), "é ü 日本");
        for blank in
            ['\u{a0}', '\u{34f}', '\u{2003}', '\u{2800}', '\u{3000}', '\u{3164}', '\u{fe0f}', '\u{e0100}']
        {
            assert_eq!(sanitize_name(&format!("a{blank}b")), format!("a{}b", blank.escape_default()));
        }
    }

    #[test]
    fn ambiguous_name_is_quoted() {
        assert_eq!(plain_or_quoted("*.a-b.example/x_?"), "*.a-b.example/x_?");
        assert_eq!(plain_or_quoted("a[b, any path]"), "`a[b, any path]`");
        assert_eq!(plain_or_quoted("é"), "`é`");
    }

    #[test]
    fn quoted_name_is_unambiguous() {
        for (name, expected) in [
            ("a b", "`a b`"),
            ("a` and `b", r"`a\x60 and \x60b`"),
            ("a\nb", r"`a\nb`"),
            (r"a\nb", r"`a\\nb`"),
            (r"a\x60", r"`a\\x60`"),
            ("\u{202e}", r"`\u{202e}`"),
            ("a     + b", r"`a \x20 \x20 + b`"),
        ] {
            assert_eq!(quoted(name), expected);
        }
    }

    #[test]
    fn failure_is_printed_with_causes_and_hint() {
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
        let cause = io::Error::other("b\x1b[1A");
        let hostile = Failure::doing::<io::Error>("read `a\x1b[2J`")(cause).with_hint("c\u{202e}");
        assert_eq!(
            failure_text(false, &hostile),
            "error: failed to read `a\\u{1b}[2J`\n  caused by: b\\u{1b}[1A\nhint: c\\u{202e}\n"
        );
    }

    #[test]
    fn colours_follow_the_environment_and_the_flag() {
        let printer = |no_colour, when| Printer::new(0, no_colour).color(when);
        assert!(printer(true, ColorChoice::Always).has_colour());
        assert!(!printer(true, ColorChoice::Auto).has_colour());
        assert!(!printer(false, ColorChoice::Never).has_colour());
        assert_eq!(styled(false, Style::Bad, "x"), "x");
        assert_eq!(styled(true, Style::Bad, "x"), "\x1b[31mx\x1b[0m");
    }
}

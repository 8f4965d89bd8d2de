//! Raw mode, and restoring the terminal.

use std::io::{self, IsTerminal as _, Write as _};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use sandbox::TerminalSize;

use super::modes::Modes;

/// The size without a terminal.
const USUAL: TerminalSize = TerminalSize { columns: 80, rows: 24 };

/// The terminal of stdin in raw mode: every key goes to a program. Dropping it restores the
/// terminal.
#[derive(Debug)]
pub(crate) struct RawMode {
    // Dropped first: the program's modes are reset before echo is enabled again.
    shown: Shown,
    before: Before,
}

/// The former state of stdin's terminal. Dropping it restores that.
#[derive(Debug)]
struct Before(Termios);

/// The modes that a program set in stdout's terminal. Dropping it resets them.
#[derive(Debug, Default)]
pub(crate) struct Shown(Modes);

impl RawMode {
    pub(crate) fn enter() -> io::Result<Self> {
        let mode = Self { shown: Shown::default(), before: Before(tcgetattr(io::stdin())?) };
        mode.resume()?;
        Ok(mode)
    }

    /// Enters raw mode again, after a shell that stopped the process left it.
    pub(crate) fn resume(&self) -> io::Result<()> {
        let mut raw = self.before.0.clone();
        raw.make_raw();
        Ok(tcsetattr(io::stdin(), OptionalActions::Now, &raw)?)
    }

    /// Tracks the program's output to the terminal.
    pub(crate) fn saw(&mut self, output: &[u8]) {
        self.shown.saw(output);
    }
}

impl Shown {
    /// Tracks the program's output to stdout.
    pub(crate) fn saw(&mut self, output: &[u8]) {
        self.0.saw(output);
    }
}

impl Drop for Before {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        let mut stdout = io::stdout();
        if stdout.is_terminal() {
            let _ = stdout.write_all(self.0.undone().as_bytes()).and_then(|()| stdout.flush());
        }
    }
}

/// The size of stdin's terminal; the usual one without a terminal.
pub(crate) fn size() -> TerminalSize {
    match tcgetwinsize(io::stdin()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
            TerminalSize { columns: size.ws_col, rows: size.ws_row }
        }
        _ => USUAL,
    }
}

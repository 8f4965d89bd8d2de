//! Raw mode, and the way back.

use std::io::{self, IsTerminal as _, Write as _};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use sandbox::TerminalSize;

use super::modes::Modes;

/// Where there is no terminal to ask.
const USUAL: TerminalSize = TerminalSize { columns: 80, rows: 24 };

/// The terminal of stdin, of which every key goes to a program. Dropping it gives the terminal back
/// as it was.
#[derive(Debug)]
pub(crate) struct RawMode {
    // Dropped first: what the program has switched on ends before its keys are shown again.
    shown: Shown,
    before: Before,
}

/// How the terminal of stdin was. Dropping it makes it so again.
#[derive(Debug)]
struct Before(Termios);

/// What a program has switched on in the terminal of stdout. Dropping it switches that off.
#[derive(Debug, Default)]
pub(crate) struct Shown(Modes);

impl RawMode {
    pub(crate) fn enter() -> io::Result<Self> {
        let mode = Self { shown: Shown::default(), before: Before(tcgetattr(io::stdin())?) };
        mode.resume()?;
        Ok(mode)
    }

    /// Enters it again: a shell that stopped the process has left it.
    pub(crate) fn resume(&self) -> io::Result<()> {
        let mut raw = self.before.0.clone();
        raw.make_raw();
        Ok(tcsetattr(io::stdin(), OptionalActions::Now, &raw)?)
    }

    /// Notes what the program writes to the terminal.
    pub(crate) fn saw(&mut self, output: &[u8]) {
        self.shown.saw(output);
    }
}

impl Shown {
    /// Notes what the program writes to stdout.
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

/// The size of the terminal of stdin; the usual one where that is none.
pub(crate) fn size() -> TerminalSize {
    match tcgetwinsize(io::stdin()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
            TerminalSize { columns: size.ws_col, rows: size.ws_row }
        }
        _ => USUAL,
    }
}

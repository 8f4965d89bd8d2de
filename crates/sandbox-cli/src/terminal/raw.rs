//! Raw mode, and the way back.

use std::io::{self, Write as _};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use sandbox::TerminalSize;

use super::modes::Modes;

/// Where there is no terminal to ask.
const USUAL: TerminalSize = TerminalSize { columns: 80, rows: 24 };

/// The terminal of stdin, of which every key goes to a program. Dropping it gives the terminal back as it was.
#[derive(Debug)]
pub(crate) struct RawMode {
    before: Termios,
    /// What the program has switched on.
    modes: Modes,
}

impl RawMode {
    pub(crate) fn enter() -> io::Result<Self> {
        let mode = Self { before: tcgetattr(io::stdin())?, modes: Modes::default() };
        mode.resume()?;
        Ok(mode)
    }

    /// Enters it again: a shell that stopped the process has left it.
    pub(crate) fn resume(&self) -> io::Result<()> {
        let mut raw = self.before.clone();
        raw.make_raw();
        Ok(tcsetattr(io::stdin(), OptionalActions::Now, &raw)?)
    }

    /// Notes what the program writes to the terminal.
    pub(crate) fn saw(&mut self, output: &[u8]) {
        self.modes.saw(output);
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        let mut stdout = io::stdout().lock();
        // A terminal that is gone needs nothing.
        let _ = stdout.write_all(self.modes.undone().as_bytes()).and_then(|()| stdout.flush());
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
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

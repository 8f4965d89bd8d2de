//! Takes the whole terminal for our own view, and restores it.

use std::io::{self, Stdout};
use std::sync::atomic::{AtomicBool, Ordering};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen};
use ratatui::crossterm::terminal::{disable_raw_mode, enable_raw_mode};

/// Whether a view has the terminal. Static, because a process has one, and every panic must restore
/// it first.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// The terminal of stdin and stdout. Dropping it restores the terminal.
#[derive(Debug)]
pub(crate) struct FullScreen {
    pub(crate) terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl FullScreen {
    pub(crate) fn enter() -> io::Result<Self> {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            // The panic report must go to the normal screen.
            leave();
            before(panic);
        }));
        // Created first, so that its drop restores the terminal if the next step fails.
        let screen = Self { terminal: Terminal::new(CrosstermBackend::new(io::stdout()))? };
        take()?;
        Ok(screen)
    }

    /// Whether a panic restored the terminal.
    #[expect(clippy::unused_self, reason = "it is about this screen")]
    pub(crate) fn is_lost(&self) -> bool {
        !IS_TAKEN.load(Ordering::Relaxed)
    }

    /// Restores the terminal temporarily, for a shell that stops this process.
    #[expect(clippy::unused_self, reason = "it is about this screen")]
    pub(crate) fn suspend(&mut self) {
        leave();
    }

    /// Takes it again after a shell used it; everything must be redrawn.
    pub(crate) fn resume(&mut self) -> io::Result<()> {
        leave();
        take()?;
        // Clearing it would query the cursor position, and another thread would read the answer as
        // a key.
        self.terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        Ok(())
    }
}

impl Drop for FullScreen {
    fn drop(&mut self) {
        leave();
    }
}

fn take() -> io::Result<()> {
    IS_TAKEN.store(true, Ordering::Relaxed);
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen)
}

/// A terminal that is gone needs no restoring.
fn leave() {
    if IS_TAKEN.swap(false, Ordering::Relaxed) {
        let _ = disable_raw_mode();
        let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
    }
}

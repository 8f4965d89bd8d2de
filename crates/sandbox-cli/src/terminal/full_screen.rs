//! The whole terminal for a view of our own, and the way back.

use std::io::{self, Stdout};
use std::sync::atomic::{AtomicBool, Ordering};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen};
use ratatui::crossterm::terminal::{disable_raw_mode, enable_raw_mode};

/// Whether a view has the terminal, of which a process has one. What panics anywhere gives it back
/// first.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// The terminal of stdin and stdout. Dropping it gives the terminal back as it was.
#[derive(Debug)]
pub(crate) struct FullScreen {
    pub(crate) terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl FullScreen {
    pub(crate) fn enter() -> io::Result<Self> {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            // The report is for the screen that stays.
            leave();
            before(panic);
        }));
        // What it does for its drop comes first: nothing stays when the next step fails.
        let screen = Self { terminal: Terminal::new(CrosstermBackend::new(io::stdout()))? };
        take()?;
        Ok(screen)
    }

    /// Whether a panic gave the terminal back.
    #[expect(clippy::unused_self, reason = "it is about this screen")]
    pub(crate) fn is_lost(&self) -> bool {
        !IS_TAKEN.load(Ordering::Relaxed)
    }

    /// Gives the terminal back for a while: to a shell that stops this process.
    #[expect(clippy::unused_self, reason = "it is about this screen")]
    pub(crate) fn suspend(&mut self) {
        leave();
    }

    /// Takes it again, whatever a shell made of it; all of it has to be drawn.
    pub(crate) fn resume(&mut self) -> io::Result<()> {
        leave();
        take()?;
        // Clearing it would ask for the cursor's place, whose answer another thread reads as a key.
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

/// A terminal that is gone needs nothing.
fn leave() {
    if IS_TAKEN.swap(false, Ordering::Relaxed) {
        let _ = disable_raw_mode();
        let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
    }
}

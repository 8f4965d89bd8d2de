//! The channel to the sandbox: our stdin and stdout.

use std::io::{self, Read as _, Write as _};

use sandbox_supervisor::{Decoder, Frame};

/// The channel to the sandbox.
#[derive(Debug, Default)]
pub(crate) struct Control(Decoder);

impl Control {
    /// Reads what is there. `false` when the sandbox has gone.
    pub(crate) fn fill(&mut self) -> io::Result<bool> {
        let mut bytes = [0; 16 * 1024];
        let read = io::stdin().lock().read(&mut bytes)?;
        self.0.push(bytes.get(..read).unwrap_or_default());
        Ok(read > 0)
    }

    /// The next whole message.
    pub(crate) fn next(&mut self) -> io::Result<Option<Frame>> {
        self.0.next_frame().map_err(io::Error::other)
    }
}

/// Tells the sandbox. Waits while it does not read: what a command writes then waits too.
pub(crate) fn tell(frame: &Frame) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(&frame.encode())?;
    stdout.flush()
}

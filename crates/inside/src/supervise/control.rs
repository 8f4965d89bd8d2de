//! The channel to the sandbox: our stdin and stdout.

use std::io::{self, Read as _, Write as _};

use sandbox_inside::{Decoder, Frame};

/// The channel to the sandbox.
#[derive(Debug, Default)]
pub(super) struct Control(Decoder);

impl Control {
    /// Reads available data. `false` if the sandbox has closed the channel.
    pub(super) fn fill(&mut self) -> io::Result<bool> {
        let mut bytes = [0; 16 * 1024];
        let read = io::stdin().lock().read(&mut bytes)?;
        self.0.push(bytes.get(..read).unwrap_or_default());
        Ok(read > 0)
    }

    /// The next complete message.
    pub(super) fn next(&mut self) -> io::Result<Option<Frame>> {
        self.0.next_frame().map_err(io::Error::other)
    }
}

/// Sends a frame to the sandbox. Blocks while the sandbox does not read, which also delays the
/// output of commands.
pub(super) fn send(frame: &Frame) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(&frame.encode())?;
    stdout.flush()
}

//! Sends the input of a command to its supervisor at the pace at which the command reads it.

use sandbox_inside::{Frame, LARGEST_CHUNK};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::mpsc::UnboundedSender;

use super::router::CommandSlot;

/// Bytes that the supervisor may buffer for a command.
const WINDOW: usize = 4 * LARGEST_CHUNK;

/// Sends all of `input` and its end. A command that does not read delays only this.
pub(super) async fn feed(
    mut input: impl AsyncRead + Unpin,
    command: u32,
    slot: &CommandSlot,
    frames: &UnboundedSender<Frame>,
) {
    let mut in_flight = slot.in_flight.subscribe();
    let mut buffer = vec![0; LARGEST_CHUNK];
    loop {
        let read = match input.read(&mut buffer).await {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) => {
                tracing::warn!(%error, "failed to read the input of a command");
                break;
            }
        };
        let has_room = |in_flight: &usize| in_flight.saturating_add(read) <= WINDOW;
        if in_flight.wait_for(has_room).await.is_err() {
            return;
        }
        slot.in_flight.send_modify(|in_flight| *in_flight += read);
        let bytes = buffer.get(..read).unwrap_or_default().to_vec();
        if frames.send(Frame::Input { command, bytes }).is_err() {
            return;
        }
    }
    // If the channel is closed, the command has ended too.
    let _ = frames.send(Frame::EndOfInput { command });
}

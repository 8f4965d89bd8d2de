//! Routes the frames of a supervisor to the commands that wait for them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::{Stream, StreamExt as _};
use sandbox_inside::{Decoder, End, Frame};
use tokio::sync::watch;

use crate::container::Chunk;
use crate::task::Capture;
use sandbox_podman::EngineError;

/// The kept length of the supervisor's own stderr, in characters.
const MAX_STDERR: usize = 1024;

/// The state of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CommandState {
    Running,
    Ended(End),
    /// Its container ended first.
    Lost,
}

/// A command with a waiting caller.
#[derive(Debug)]
pub(super) struct CommandSlot {
    state: watch::Sender<CommandState>,
    /// Bytes of input that were sent and not yet read.
    pub(super) in_flight: watch::Sender<usize>,
    /// Stdout and stderr. Locked for single operations only.
    output: Mutex<(Capture, Capture)>,
}

impl CommandSlot {
    fn new(limit: usize) -> Self {
        Self {
            state: watch::Sender::new(CommandState::Running),
            in_flight: watch::Sender::new(0),
            output: Mutex::new((Capture::new(limit), Capture::new(limit))),
        }
    }

    /// Waits for its end and returns it.
    pub(super) async fn end(&self) -> CommandState {
        let mut state = self.state.subscribe();
        // The sender is a field of `self`: it cannot be gone.
        let end = state.wait_for(|state| *state != CommandState::Running).await;
        end.map_or(CommandState::Lost, |end| end.clone())
    }

    /// The output so far: stdout and stderr, and how much of each was cut.
    pub(super) fn take_output(&self) -> [(Vec<u8>, u64); 2] {
        let mut output = lock(&self.output);
        let (stdout, stderr) = std::mem::replace(&mut *output, (Capture::new(0), Capture::new(0)));
        [stdout, stderr].map(|capture| {
            let cut = capture.cut();
            (capture.into_bytes(), cut)
        })
    }
}

/// All commands of a container.
#[derive(Debug)]
pub(super) struct OutputRouter {
    /// By number; `None` when the container has ended. Locked for single operations only.
    slots: Mutex<Option<HashMap<u32, Arc<CommandSlot>>>>,
    /// Whether the supervisor serves. Becomes `false` when the container ends.
    is_ready: watch::Sender<bool>,
    /// The supervisor's own stderr. Locked for single operations only.
    stderr: Mutex<String>,
}

impl OutputRouter {
    pub(super) fn new() -> Self {
        Self {
            slots: Mutex::new(Some(HashMap::new())),
            is_ready: watch::Sender::new(false),
            stderr: Mutex::default(),
        }
    }

    /// A slot for the command with the number `command`; `None` when the container has ended.
    pub(super) fn open(&self, command: u32, limit: usize) -> Option<Arc<CommandSlot>> {
        let slot = Arc::new(CommandSlot::new(limit));
        lock(&self.slots).as_mut()?.insert(command, Arc::clone(&slot));
        Some(slot)
    }

    /// Removes the slot: nothing waits for the command any more.
    pub(super) fn close(&self, command: u32) {
        if let Some(slots) = lock(&self.slots).as_mut() {
            slots.remove(&command);
        }
    }

    /// Whether the container has not ended.
    pub(super) fn is_alive(&self) -> bool {
        lock(&self.slots).is_some()
    }

    /// Waits until the supervisor serves. `false` if the container ended instead.
    pub(super) async fn ready(&self) -> bool {
        let mut is_ready = self.is_ready.subscribe();
        // The sender is a field of `self`: it cannot be gone.
        let _ = is_ready.wait_for(|ready| *ready || !self.is_alive()).await;
        self.is_alive()
    }

    /// The supervisor's own stderr, escaped.
    pub(super) fn stderr(&self) -> String {
        lock(&self.stderr).trim().escape_debug().to_string()
    }

    /// Routes output until the container has ended, or until it is not a frame.
    pub(super) async fn route<S>(&self, mut output: S)
    where
        S: Stream<Item = Result<Chunk, EngineError>> + Unpin,
    {
        let _ending = Ending(self);
        let mut decoder = Decoder::default();
        while let Some(chunk) = output.next().await {
            let understood = match chunk {
                Ok(Chunk::Stdout(bytes)) => self.arrived(&mut decoder, &bytes),
                Ok(Chunk::Stderr(bytes)) => {
                    self.keep_stderr(&String::from_utf8_lossy(&bytes));
                    Ok(())
                }
                Err(error) => Err(error.to_string()),
            };
            if let Err(problem) = understood {
                self.keep_stderr(&problem);
                break;
            }
        }
    }

    fn arrived(&self, decoder: &mut Decoder, bytes: &[u8]) -> Result<(), String> {
        decoder.push(bytes);
        while let Some(frame) = decoder.next_frame().map_err(|error| error.to_string())? {
            self.route_one(frame)?;
        }
        Ok(())
    }

    fn route_one(&self, frame: Frame) -> Result<(), String> {
        let slot = |command| lock(&self.slots).as_ref().and_then(|slots| slots.get(&command).cloned());
        // Frames of a command that nothing waits for are skipped.
        match frame {
            Frame::Ready => {
                self.is_ready.send_replace(true);
            }
            Frame::Stdout { command, bytes } => {
                if let Some(slot) = slot(command) {
                    lock(&slot.output).0.push(&bytes);
                }
            }
            Frame::Stderr { command, bytes } => {
                if let Some(slot) = slot(command) {
                    lock(&slot.output).1.push(&bytes);
                }
            }
            Frame::Taken { command, bytes } => {
                if let Some(slot) = slot(command) {
                    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
                    slot.in_flight.send_modify(|in_flight| *in_flight = in_flight.saturating_sub(bytes));
                }
            }
            Frame::Ended { command, end } => {
                if let Some(slot) = slot(command) {
                    slot.state.send_replace(CommandState::Ended(end));
                }
                self.close(command);
            }
            Frame::Start { .. } | Frame::Input { .. } | Frame::EndOfInput { .. } | Frame::Kill { .. } => {
                return Err("the supervisor sent a frame that only the sandbox sends".to_owned());
            }
        }
        Ok(())
    }

    fn keep_stderr(&self, text: &str) {
        tracing::debug!(text = %text.escape_debug(), "supervisor");
        let mut stderr = lock(&self.stderr);
        if stderr.len() < MAX_STDERR {
            stderr.extend(text.chars().take(MAX_STDERR));
        }
    }

    /// There are no more frames: commands that are waited for are lost.
    pub(super) fn end(&self) {
        let slots = lock(&self.slots).take().unwrap_or_default();
        for slot in slots.values() {
            slot.state.send_replace(CommandState::Lost);
        }
        // Wakes those that wait for it to be ready.
        self.is_ready.send_replace(false);
    }
}

/// Ends the router even if routing panics: otherwise its callers would wait forever.
struct Ending<'a>(&'a OutputRouter);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Code that holds one of these locks cannot panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures_util::stream;

    use super::*;

    async fn routed(router: &OutputRouter, frames: &[Frame], more: Vec<Chunk>) {
        let bytes: Vec<u8> = frames.iter().flat_map(Frame::encode).collect();
        // Split anywhere, as by conmon.
        let chunks = bytes.chunks(5).map(|piece| Chunk::Stdout(Bytes::copy_from_slice(piece)));
        let chunks: Vec<_> = chunks.chain(more).map(Ok).collect();
        router.route(stream::iter(chunks)).await;
    }

    fn written(command: u32, text: &str) -> Frame {
        Frame::Stdout { command, bytes: text.as_bytes().to_vec() }
    }

    #[tokio::test]
    async fn output_and_ends_of_commands_are_separated() {
        let router = OutputRouter::new();
        let (one, two) = (router.open(1, 100).unwrap(), router.open(2, 4).unwrap());
        one.in_flight.send_replace(10);
        let frames = [
            Frame::Ready,
            written(1, "one"),
            written(2, "123456789"),
            written(3, "no one's"),
            Frame::Taken { command: 1, bytes: 4 },
            Frame::Taken { command: 1, bytes: u32::MAX },
            Frame::Ended { command: 1, end: End::Exited(3) },
        ];
        routed(&router, &frames, Vec::new()).await;
        assert_eq!(one.end().await, CommandState::Ended(End::Exited(3)));
        assert_eq!(one.take_output(), [(b"one".to_vec(), 0), (Vec::new(), 0)]);
        assert_eq!(*one.in_flight.borrow(), 0);
        assert_eq!(two.end().await, CommandState::Lost, "its container ended");
        assert_eq!(two.take_output()[0], (b"12\n[5 bytes cut]\n89".to_vec(), 5));
        assert!(!router.is_alive() && !router.ready().await && router.open(4, 1).is_none());
    }

    #[tokio::test]
    async fn invalid_frame_ends_the_session() {
        for (frames, more, expected) in [
            (vec![Frame::Kill { command: 1 }], vec![], "only the sandbox sends"),
            (vec![], vec![Chunk::Stdout(Bytes::from_static(b"hello, world"))], "too long"),
            (vec![], vec![Chunk::Stderr(Bytes::from_static(b"no\x1b[2J"))], "no\\u{1b}[2J"),
        ] {
            let router = OutputRouter::new();
            let slot = router.open(1, 1).unwrap();
            routed(&router, &frames, more).await;
            assert_eq!(slot.end().await, CommandState::Lost);
            assert!(router.stderr().contains(expected), "{}", router.stderr());
        }
    }

    #[tokio::test]
    async fn panic_in_routing_loses_the_commands() {
        let router = Arc::new(OutputRouter::new());
        let slot = router.open(1, 1).unwrap();
        let output = stream::poll_fn(|_| -> std::task::Poll<Option<Result<Chunk, EngineError>>> {
            panic!("forced by the test")
        });
        let routing = Arc::clone(&router);
        let ended = tokio::spawn(async move { routing.route(output).await }).await;
        assert!(ended.is_err());
        assert_eq!(slot.end().await, CommandState::Lost);
        assert!(!router.is_alive() && !router.ready().await);
    }
}

//! What arrives from a supervisor, kept apart by command.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::{Stream, StreamExt as _};
use sandbox_supervisor::{Decoder, End, Frame};
use tokio::sync::watch;

use crate::container::Chunk;
use crate::engine::EngineError;
use crate::task::Capture;

/// What is kept of the supervisor's own words.
const LONGEST_WORDS: usize = 1024;

/// Where a command stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stand {
    Running,
    Ended(End),
    /// Its container ended first.
    Lost,
}

/// What is known of one command.
#[derive(Debug)]
pub(super) struct Place {
    stand: watch::Sender<Stand>,
    /// Bytes of input that were sent and not yet taken.
    pub(super) in_flight: watch::Sender<usize>,
    /// Stdout and stderr. Locked for single operations only.
    output: Mutex<(Capture, Capture)>,
}

impl Place {
    fn new(limit: usize) -> Self {
        Self {
            stand: watch::Sender::new(Stand::Running),
            in_flight: watch::Sender::new(0),
            output: Mutex::new((Capture::new(limit), Capture::new(limit))),
        }
    }

    /// How it ended; waits for that.
    pub(super) async fn end(&self) -> Stand {
        let mut stand = self.stand.subscribe();
        // The sender is our own field: it cannot be gone.
        let end = stand.wait_for(|stand| *stand != Stand::Running).await;
        end.map_or(Stand::Lost, |end| end.clone())
    }

    /// What it wrote so far: stdout and stderr, and how much of each was cut.
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
pub(super) struct Desk {
    /// By number; `None` when the container has ended. Locked for single operations only.
    places: Mutex<Option<HashMap<u32, Arc<Place>>>>,
    /// Whether the supervisor serves. Ends when the container does.
    is_ready: watch::Sender<bool>,
    /// The supervisor's last words. Locked for single operations only.
    words: Mutex<String>,
}

impl Desk {
    pub(super) fn new() -> Self {
        Self {
            places: Mutex::new(Some(HashMap::new())),
            is_ready: watch::Sender::new(false),
            words: Mutex::default(),
        }
    }

    /// A place for the command with the number `command`; `None` when the container has ended.
    pub(super) fn open(&self, command: u32, limit: usize) -> Option<Arc<Place>> {
        let place = Arc::new(Place::new(limit));
        lock(&self.places).as_mut()?.insert(command, Arc::clone(&place));
        Some(place)
    }

    /// Nobody waits for the command any more.
    pub(super) fn close(&self, command: u32) {
        if let Some(places) = lock(&self.places).as_mut() {
            places.remove(&command);
        }
    }

    /// Whether the container is still there.
    pub(super) fn is_alive(&self) -> bool {
        lock(&self.places).is_some()
    }

    /// Waits until the supervisor serves. `false` when the container ended instead.
    pub(super) async fn ready(&self) -> bool {
        let mut is_ready = self.is_ready.subscribe();
        // The sender is our own field: it cannot be gone.
        let _ = is_ready.wait_for(|ready| *ready || !self.is_alive()).await;
        self.is_alive()
    }

    /// What the supervisor last said, escaped.
    pub(super) fn words(&self) -> String {
        lock(&self.words).trim().escape_debug().to_string()
    }

    /// Sorts what arrives until the container has ended, or says what cannot be understood.
    pub(super) async fn sort<S>(&self, mut output: S)
    where
        S: Stream<Item = Result<Chunk, EngineError>> + Unpin,
    {
        let _ending = Ending(self);
        let mut decoder = Decoder::default();
        while let Some(chunk) = output.next().await {
            let understood = match chunk {
                Ok(Chunk::Stdout(bytes)) => self.arrived(&mut decoder, &bytes),
                Ok(Chunk::Stderr(bytes)) => {
                    self.said(&String::from_utf8_lossy(&bytes));
                    Ok(())
                }
                Err(error) => Err(error.to_string()),
            };
            if let Err(problem) = understood {
                self.said(&problem);
                break;
            }
        }
    }

    fn arrived(&self, decoder: &mut Decoder, bytes: &[u8]) -> Result<(), String> {
        decoder.push(bytes);
        while let Some(frame) = decoder.next_frame().map_err(|error| error.to_string())? {
            self.sort_one(frame)?;
        }
        Ok(())
    }

    fn sort_one(&self, frame: Frame) -> Result<(), String> {
        let place = |command| {
            lock(&self.places)
                .as_ref()
                .and_then(|places| places.get(&command).cloned())
        };
        // A command that nobody waits for any more is passed over.
        match frame {
            Frame::Ready => {
                self.is_ready.send_replace(true);
            }
            Frame::Stdout { command, bytes } => {
                if let Some(place) = place(command) {
                    lock(&place.output).0.push(&bytes);
                }
            }
            Frame::Stderr { command, bytes } => {
                if let Some(place) = place(command) {
                    lock(&place.output).1.push(&bytes);
                }
            }
            Frame::Taken { command, bytes } => {
                if let Some(place) = place(command) {
                    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
                    place
                        .in_flight
                        .send_modify(|in_flight| *in_flight = in_flight.saturating_sub(bytes));
                }
            }
            Frame::Ended { command, end } => {
                if let Some(place) = place(command) {
                    place.stand.send_replace(Stand::Ended(end));
                }
                self.close(command);
            }
            Frame::Start { .. } | Frame::Input { .. } | Frame::EndOfInput { .. } | Frame::Kill { .. } => {
                return Err("the supervisor said what only we say".to_owned());
            }
        }
        Ok(())
    }

    fn said(&self, text: &str) {
        tracing::debug!(text = %text.escape_debug(), "supervisor");
        let mut words = lock(&self.words);
        if words.len() < LONGEST_WORDS {
            words.extend(text.chars().take(LONGEST_WORDS));
        }
    }

    /// No more arrives: whoever waits for something has lost it.
    pub(super) fn end(&self) {
        let places = lock(&self.places).take().unwrap_or_default();
        for place in places.values() {
            place.stand.send_replace(Stand::Lost);
        }
        // Wakes who waits for it to be ready.
        self.is_ready.send_replace(false);
    }
}

/// Ends the desk also when sorting panics: else its callers would wait for ever.
struct Ending<'a>(&'a Desk);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// No code that holds one of these locks can panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures_util::stream;

    use super::*;

    async fn sorted(desk: &Desk, frames: &[Frame], more: Vec<Chunk>) {
        let bytes: Vec<u8> = frames.iter().flat_map(Frame::encode).collect();
        // Cut anywhere, as conmon does.
        let chunks = bytes
            .chunks(5)
            .map(|piece| Chunk::Stdout(Bytes::copy_from_slice(piece)));
        let chunks: Vec<_> = chunks.chain(more).map(Ok).collect();
        desk.sort(stream::iter(chunks)).await;
    }

    fn written(command: u32, text: &str) -> Frame {
        Frame::Stdout {
            command,
            bytes: text.as_bytes().to_vec(),
        }
    }

    #[tokio::test]
    async fn streams_and_ends_are_kept_apart() {
        let desk = Desk::new();
        let (one, two) = (desk.open(1, 100).unwrap(), desk.open(2, 4).unwrap());
        one.in_flight.send_replace(10);
        let frames = [
            Frame::Ready,
            written(1, "one"),
            written(2, "123456789"),
            written(3, "nobody's"),
            Frame::Taken { command: 1, bytes: 4 },
            Frame::Taken {
                command: 1,
                bytes: u32::MAX,
            },
            Frame::Ended {
                command: 1,
                end: End::Exited(3),
            },
        ];
        sorted(&desk, &frames, Vec::new()).await;
        assert_eq!(one.end().await, Stand::Ended(End::Exited(3)));
        assert_eq!(one.take_output(), [(b"one".to_vec(), 0), (Vec::new(), 0)]);
        assert_eq!(*one.in_flight.borrow(), 0);
        assert_eq!(two.end().await, Stand::Lost, "its container ended");
        assert_eq!(two.take_output()[0], (b"12\n[5 bytes cut]\n89".to_vec(), 5));
        assert!(!desk.is_alive() && !desk.ready().await && desk.open(4, 1).is_none());
    }

    #[tokio::test]
    async fn what_no_supervisor_says_ends_the_session() {
        for (frames, more, expected) in [
            (vec![Frame::Kill { command: 1 }], vec![], "only we say"),
            (
                vec![],
                vec![Chunk::Stdout(Bytes::from_static(b"hello, world"))],
                "too long",
            ),
            (
                vec![],
                vec![Chunk::Stderr(Bytes::from_static(b"no\x1b[2J"))],
                "no\\u{1b}[2J",
            ),
        ] {
            let desk = Desk::new();
            let place = desk.open(1, 1).unwrap();
            sorted(&desk, &frames, more).await;
            assert_eq!(place.end().await, Stand::Lost);
            assert!(desk.words().contains(expected), "{}", desk.words());
        }
    }

    #[tokio::test]
    async fn whoever_waits_is_told_also_when_sorting_panics() {
        let desk = Arc::new(Desk::new());
        let place = desk.open(1, 1).unwrap();
        let output = stream::poll_fn(|_| -> std::task::Poll<Option<Result<Chunk, EngineError>>> {
            panic!("forced by the test")
        });
        let sorting = Arc::clone(&desk);
        let sorted = tokio::spawn(async move { sorting.sort(output).await }).await;
        assert!(sorted.is_err());
        assert_eq!(place.end().await, Stand::Lost);
        assert!(!desk.is_alive() && !desk.ready().await);
    }
}

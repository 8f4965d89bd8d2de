//! What a run wrote last, those who watch it, and the one who types.
//!
//! Nothing here waits for a watcher: who does not keep up misses output. For the one who types the
//! program waits, as it does for a terminal, but no longer than a minute, and not once the run is
//! being stopped.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sandbox::TerminalSize;
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe;
use tokio::sync::watch;

use super::frame::{Frame, LONGEST as LONGEST_FRAME};
use crate::terminal::Modes;

/// What is kept of a program without a terminal, in bytes; of one with a terminal enough for its
/// last screens.
const KEPT: usize = 1024 * 1024;
const KEPT_OF_TERMINAL: usize = 64 * 1024;
/// How long the program waits for the one who types to read.
const PATIENCE: Duration = Duration::from_mins(1);
/// Of a stream of ours at once.
const PIECE: usize = 16 * 1024;
/// How many may be attached at once.
const VIEWERS: usize = 64;
/// The number of the first of them.
const FIRST: u64 = 1;

/// The output of a run, and its input.
#[derive(Debug, Default)]
pub(crate) struct Screen {
    state: Mutex<State>,
    /// Counts what was added.
    changes: watch::Sender<u64>,
    /// Someone who types has read something, or has left.
    read: Condvar,
    /// `None` where the program has no terminal.
    input: tokio::sync::Mutex<Option<pipe::Sender>>,
    size: watch::Sender<Option<RequestedSize>>,
}

/// A size, and who asked for it: in another terminal, all has to be drawn again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestedSize {
    pub(crate) by: u64,
    pub(crate) size: TerminalSize,
}

#[derive(Debug, Default)]
struct State {
    /// Whether the program has a terminal.
    terminal: bool,
    kept: VecDeque<Frame>,
    /// The number of the first that is kept, and the bytes in them.
    first: u64,
    bytes: usize,
    /// What was switched on in the terminal by what is not kept any more.
    modes: Modes,
    /// Who types, and the number of what comes next for it.
    keyboard: Option<(u64, u64)>,
    viewers: usize,
    last_viewer: u64,
    /// The program waits for no reader any more.
    stopping: bool,
    ended: bool,
}

/// Someone who is attached.
#[derive(Debug)]
pub(crate) struct Viewer {
    screen: Arc<Screen>,
    id: u64,
    /// The number of what comes next.
    next: u64,
    /// What a terminal has to be sent before anything else.
    first: Option<Vec<u8>>,
}

/// The keys of a [`Viewer`].
#[derive(Debug)]
pub(crate) struct Keys {
    screen: Arc<Screen>,
    id: u64,
    size: Option<TerminalSize>,
}

impl Screen {
    /// What is typed goes into `input` from now on: the program has a terminal.
    pub(crate) async fn take_input(&self, input: pipe::Sender) {
        self.state().terminal = true;
        *self.input.lock().await = Some(input);
    }

    /// The first who attaches is sure to come, and is waited for as if it were there.
    pub(crate) fn expect_viewer(&self) {
        self.state().keyboard = Some((FIRST, 0));
    }

    /// Returns when the first has attached who is expected; at once where none is.
    pub(crate) async fn was_viewed(&self) {
        let mut changes = self.changes.subscribe();
        let is_expected = || {
            let state = self.state();
            state.last_viewer < FIRST && state.keyboard.is_some()
        };
        while is_expected() && changes.changed().await.is_ok() {}
    }

    /// Whether someone is attached.
    pub(crate) fn is_watched(&self) -> bool {
        self.state().viewers > 0
    }

    pub(crate) fn has_terminal(&self) -> bool {
        self.state().terminal
    }

    /// The sizes that the terminal is to have.
    pub(crate) fn sizes(&self) -> watch::Receiver<Option<RequestedSize>> {
        self.size.subscribe()
    }

    /// Attaches someone, unless too many are.
    pub(crate) fn view(self: &Arc<Self>) -> Option<Viewer> {
        let mut state = self.state();
        if state.viewers >= VIEWERS {
            return None;
        }
        state.viewers += 1;
        state.last_viewer += 1;
        let modes = state.modes.redone().into_bytes();
        let viewer = Viewer {
            screen: Arc::clone(self),
            id: state.last_viewer,
            next: state.first,
            first: Some(modes).filter(|modes| !modes.is_empty()),
        };
        drop(state);
        self.changes.send_modify(|count| *count += 1);
        Some(viewer)
    }

    /// Adds what comes from `source` until its end. Blocks.
    pub(crate) fn add_all(&self, mut source: impl Read, frame: fn(Vec<u8>) -> Frame) {
        let mut bytes = vec![0; PIECE];
        loop {
            match source.read(&mut bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => return,
                Ok(count) => self.add(frame(bytes.get(..count).unwrap_or_default().to_vec())),
            }
        }
    }

    fn add(&self, frame: Frame) {
        let length = length(&frame);
        let mut state = self.state();
        let patience = Instant::now() + PATIENCE;
        while matches!(frame, Frame::Output(_)) && state.would_overtake(length) {
            let left = patience.saturating_duration_since(Instant::now());
            if left.is_zero() {
                state.keyboard = None;
                break;
            }
            let waited = self.read.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.add(frame, length);
        drop(state);
        self.changes.send_modify(|count| *count += 1);
    }

    /// The run is being stopped: what it still writes waits for no reader.
    pub(crate) fn stop_waiting(&self) {
        self.state().stopping = true;
        self.read.notify_all();
    }

    /// The run has ended: everyone gets the rest, and `code`.
    pub(crate) fn end(&self, code: u8) {
        let mut state = self.state();
        state.ended = true;
        state.add(Frame::Exit(code), 1);
        drop(state);
        self.changes.send_modify(|count| *count += 1);
    }

    /// Returns when no one is attached any more.
    pub(crate) async fn left(&self) {
        let mut changes = self.changes.subscribe();
        while self.state().viewers > 0 && changes.changed().await.is_ok() {}
    }

    /// All that is kept, as bytes.
    pub(crate) fn kept(&self) -> Vec<u8> {
        let state = self.state();
        let modes = Frame::Output(state.modes.redone().into_bytes());
        std::iter::once(&modes).chain(&state.kept).flat_map(Frame::bytes).collect()
    }

    /// Held for single operations, and by a thread that waits for room.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn limit(&self) -> usize {
        if self.terminal { KEPT_OF_TERMINAL } else { KEPT }
    }

    /// Whether so many bytes more would drop what the one who types has not read.
    fn would_overtake(&self, length: usize) -> bool {
        let Some((_, next)) = self.keyboard.filter(|_| !self.stopping) else { return false };
        let mut excess = (self.bytes + length).saturating_sub(self.limit());
        let dropped = self.kept.iter().take_while(|frame| {
            let is_dropped = excess > 0;
            excess = excess.saturating_sub(self::length(frame));
            is_dropped
        });
        next < self.first + dropped.count() as u64
    }

    fn add(&mut self, frame: Frame, length: usize) {
        while self.bytes + length > self.limit()
            && let Some(dropped) = self.kept.pop_front()
        {
            self.first += 1;
            self.bytes -= self::length(&dropped);
            if let Frame::Output(bytes) = dropped {
                self.modes.saw(&bytes);
            }
        }
        self.bytes += length;
        self.kept.push_back(frame);
    }

    /// What comes at `next` or after it, in one frame where it is of one kind; and what comes then.
    fn at(&self, next: u64) -> (Option<Frame>, u64) {
        let next = next.max(self.first);
        let skipped = usize::try_from(next - self.first).unwrap_or(usize::MAX);
        let mut frames = self.kept.iter().skip(skipped);
        let Some(mut frame) = frames.next().cloned() else { return (None, next) };
        let mut after = next + 1;
        for more in frames {
            match (&mut frame, more) {
                (Frame::Output(all), Frame::Output(more)) | (Frame::Message(all), Frame::Message(more))
                    if all.len() + more.len() <= LONGEST_FRAME =>
                {
                    all.extend_from_slice(more);
                    after += 1;
                }
                _ => break,
            }
        }
        (Some(frame), after)
    }
}

impl Viewer {
    /// The next frame; none after the end of the run.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        if let Some(first) = self.first.take() {
            return Some(Frame::Output(first));
        }
        let mut changes = self.screen.changes.subscribe();
        loop {
            changes.mark_unchanged();
            let (frame, after, ended) = {
                let mut state = self.screen.state();
                let (frame, after) = state.at(self.next);
                // What was returned before has been sent.
                if let Some((holder, read)) = &mut state.keyboard
                    && *holder == self.id
                {
                    *read = self.next;
                }
                (frame, after, state.ended)
            };
            self.screen.read.notify_all();
            self.next = after;
            if frame.is_some() || ended {
                return frame;
            }
            let _ = changes.changed().await;
        }
    }

    pub(crate) fn keys(&self) -> Keys {
        Keys { screen: Arc::clone(&self.screen), id: self.id, size: None }
    }
}

impl Keys {
    /// Takes what this one sends: it types if no one else does, from now on.
    pub(crate) async fn take(&mut self, frame: Frame) -> io::Result<()> {
        if let Frame::Size(size) = frame {
            self.size = Some(size);
        }
        let holder = {
            let mut state = self.screen.state();
            let next = state.first + state.kept.len() as u64;
            state.keyboard.get_or_insert((self.id, next)).0
        };
        if holder != self.id {
            return Ok(());
        }
        let wanted = self.size.map(|size| RequestedSize { by: self.id, size });
        self.screen.size.send_if_modified(|size| {
            let changed = wanted.is_some() && *size != wanted;
            if changed {
                *size = wanted;
            }
            changed
        });
        match (frame, &mut *self.screen.input.lock().await) {
            (Frame::Typed(bytes), Some(input)) => input.write_all(&bytes).await,
            _ => Ok(()),
        }
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        let mut state = self.screen.state();
        state.viewers -= 1;
        if state.keyboard.is_some_and(|(holder, _)| holder == self.id) {
            state.keyboard = None;
        }
        drop(state);
        self.screen.read.notify_all();
        self.screen.changes.send_modify(|count| *count += 1);
    }
}

fn length(frame: &Frame) -> usize {
    match frame {
        Frame::Typed(bytes) | Frame::Output(bytes) | Frame::Message(bytes) => bytes.len(),
        Frame::Size(_) | Frame::Exit(_) | Frame::Taken | Frame::Stop => 1,
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn output(text: &str) -> Frame {
        Frame::Output(text.as_bytes().to_vec())
    }

    #[tokio::test]
    async fn who_attaches_gets_what_is_kept_and_then_what_comes() {
        let screen = Arc::new(Screen::default());
        screen.add(output("a"));
        screen.add(output("b"));
        screen.add(Frame::Message(b"m".to_vec()));
        let mut viewer = screen.view().unwrap();
        assert_eq!(viewer.next().await, Some(output("ab")));
        assert_eq!(viewer.next().await, Some(Frame::Message(b"m".to_vec())));
        assert!(viewer.next().now_or_never().is_none(), "it waits");
        screen.add(output("c"));
        screen.end(7);
        assert_eq!(viewer.next().await, Some(output("c")));
        assert_eq!(viewer.next().await, Some(Frame::Exit(7)));
        assert_eq!(viewer.next().await, None);
        assert!(screen.left().now_or_never().is_none());
        drop(viewer);
        screen.left().await;
    }

    #[tokio::test]
    async fn what_is_kept_is_bounded_and_a_terminal_keeps_its_modes() {
        let screen = Arc::new(Screen::default());
        screen.state().terminal = true;
        screen.add(output("\u{1b}[?2004h"));
        for _ in 0..100 {
            screen.add(Frame::Output(vec![b'x'; PIECE]));
        }
        let mut viewer = screen.view().unwrap();
        assert_eq!(viewer.next().await, Some(output("\u{1b}[?2004h")));
        assert!(screen.kept().len() < KEPT_OF_TERMINAL + 1024);
        assert!(screen.state().bytes <= KEPT_OF_TERMINAL);
    }

    #[tokio::test]
    async fn one_types_and_for_that_one_the_program_waits() {
        let screen = Arc::new(Screen::default());
        screen.state().terminal = true;
        let size = |columns| Frame::Size(TerminalSize { columns, rows: 24 });
        let (mut first, second) = (screen.view().unwrap(), screen.view().unwrap());
        first.keys().take(size(80)).await.unwrap();
        second.keys().take(size(100)).await.unwrap();
        assert_eq!(screen.size.borrow().map(|asked| asked.size.columns), Some(80));
        let writer = Arc::clone(&screen);
        let written = std::thread::spawn(move || {
            for _ in 0..20 {
                writer.add(Frame::Output(vec![b'x'; PIECE]));
            }
        });
        let mut read = 0;
        while read < 20 * PIECE {
            read += length(&first.next().await.unwrap());
        }
        assert_eq!(read, 20 * PIECE, "nothing was missed");
        written.join().unwrap();
        drop(first);
        second.keys().take(size(100)).await.unwrap();
        assert_eq!(screen.size.borrow().map(|asked| asked.size.columns), Some(100));
    }

    #[tokio::test]
    async fn a_run_that_is_being_stopped_waits_for_no_one() {
        let screen = Arc::new(Screen::default());
        let viewer = screen.view().unwrap();
        viewer.keys().take(Frame::Size(TerminalSize { columns: 80, rows: 24 })).await.unwrap();
        let writer = Arc::clone(&screen);
        let written = std::thread::spawn(move || {
            for _ in 0..2 * KEPT / PIECE {
                writer.add(Frame::Output(vec![b'x'; PIECE]));
            }
        });
        screen.stop_waiting();
        written.join().unwrap();
        assert!(screen.state().keyboard.is_some(), "it did not wait until its patience was over");
    }

    #[test]
    fn only_so_many_may_be_attached() {
        let screen = Arc::new(Screen::default());
        let viewers: Vec<_> = (0..VIEWERS).map(|_| screen.view().unwrap()).collect();
        assert!(screen.view().is_none());
        drop(viewers);
        assert!(screen.view().is_some());
    }
}

//! The latest output of a run, its viewers, and the viewer who types.
//!
//! Nothing waits for viewers: slow ones miss output. Only for the one who types, the program waits
//! as for a terminal, but at most a minute, and not while the run is being stopped.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sandbox::TerminalSize;
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe;
use tokio::sync::watch;

use super::frame::{Frame, LONGEST as LONGEST_FRAME};
use super::stored::Writer;
use crate::terminal::Modes;

/// The amount of output kept of a program without a terminal, in bytes; of one with a terminal,
/// enough for its last screens.
const KEPT: usize = 1024 * 1024;
const KEPT_OF_TERMINAL: usize = 64 * 1024;
/// The maximum time that the program waits for the viewer who types.
const PATIENCE: Duration = Duration::from_mins(1);
/// The size of one read from our streams.
const PIECE: usize = 16 * 1024;
/// The maximum number of viewers.
const VIEWERS: usize = 64;
/// The number of the first viewer.
const FIRST: u64 = 1;

/// The output of a run, and its input.
#[derive(Debug, Default)]
pub(crate) struct Screen {
    state: Mutex<State>,
    /// Changes with each addition.
    changes: watch::Sender<u64>,
    /// Notified when the viewer who types has read something, or has left.
    read: Condvar,
    /// `None` if the program has no terminal.
    input: tokio::sync::Mutex<Option<pipe::Sender>>,
    size: watch::Sender<Option<RequestedSize>>,
    stored: Mutex<Option<Stored>>,
}

/// The output in the run's folder, and the number of its next piece.
#[derive(Debug)]
struct Stored {
    writer: Writer,
    next: u64,
    /// Whether the rest is not stored.
    failed: bool,
}

/// A size, and the viewer that requested it: in another terminal, everything must be redrawn.
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
    /// The number of the first kept piece, and the bytes of all.
    first: u64,
    bytes: usize,
    /// The terminal modes set by output that is no longer kept.
    modes: Modes,
    /// The viewer who types, and the number of its next piece.
    keyboard: Option<(u64, u64)>,
    viewers: usize,
    last_viewer: u64,
    /// The program no longer waits for readers.
    stopping: bool,
    ended: bool,
}

/// An attached client.
#[derive(Debug)]
pub(crate) struct Viewer {
    screen: Arc<Screen>,
    id: u64,
    /// The number of its next piece.
    next: u64,
    /// Sequences that a terminal must get first.
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
    /// From now on typed input goes to `input`: the program has a terminal.
    pub(crate) async fn take_input(&self, input: pipe::Sender) {
        self.state().terminal = true;
        *self.input.lock().await = Some(input);
    }

    /// The first viewer is certain to attach, and is waited for as if it were attached.
    pub(crate) fn expect_viewer(&self) {
        self.state().keyboard = Some((FIRST, 0));
    }

    /// Returns when the expected first viewer has attached; immediately if none is expected.
    pub(crate) async fn was_viewed(&self) {
        let mut changes = self.changes.subscribe();
        let is_expected = || {
            let state = self.state();
            state.last_viewer < FIRST && state.keyboard.is_some()
        };
        while is_expected() && changes.changed().await.is_ok() {}
    }

    /// Whether a viewer is attached.
    pub(crate) fn is_watched(&self) -> bool {
        self.state().viewers > 0
    }

    pub(crate) fn has_terminal(&self) -> bool {
        self.state().terminal
    }

    /// The requested sizes of the terminal.
    pub(crate) fn sizes(&self) -> watch::Receiver<Option<RequestedSize>> {
        self.size.subscribe()
    }

    /// Attaches a viewer, unless there are too many.
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

    /// Adds the output of `source` until its end. Blocks.
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

    /// Stores all output in the file `path`, until the end of the run.
    pub(crate) fn store(&self, path: &Path) -> io::Result<()> {
        let mut stored = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        // An agent whose session is in use starts again, in the same run.
        if stored.is_some() {
            return Ok(());
        }
        let mut writer = Writer::create(path)?;
        let (kept, next) = {
            let state = self.state();
            (state.kept.clone(), state.next())
        };
        kept.iter().try_for_each(|frame| writer.add(frame))?;
        *stored = Some(Stored { writer, next, failed: false });
        Ok(())
    }

    /// Stores a piece with its number, unless [`store`](Self::store) did.
    fn store_piece(&self, frame: &Frame, number: u64) {
        let mut stored = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Stored { writer, next, failed }) = &mut *stored
            && *next <= number
            && !*failed
            && let Err(error) = writer.add(frame)
        {
            *failed = true;
            let message = format!("warning: failed to store the rest of the output: {error}\n");
            let message = Frame::Message(message.into());
            let length = length(&message);
            self.state().add(message, length);
        }
    }

    /// Adds output of the program; waits for the viewer who types without blocking.
    pub(crate) async fn write(self: &Arc<Self>, bytes: &[u8], frame: fn(Vec<u8>) -> Frame) {
        for piece in bytes.chunks(PIECE) {
            if let Some(piece) = self.offer(frame(piece.to_vec())) {
                let screen = Arc::clone(self);
                let _ = tokio::task::spawn_blocking(move || screen.add(piece)).await;
            }
        }
    }

    /// Adds `frame`, or returns it if that must wait.
    fn offer(&self, frame: Frame) -> Option<Frame> {
        let state = self.state();
        if state.would_block(&frame) {
            return Some(frame);
        }
        self.push(state, frame);
        None
    }

    fn add(&self, frame: Frame) {
        let mut state = self.state();
        let patience = Instant::now() + PATIENCE;
        while state.would_block(&frame) {
            let left = patience.saturating_duration_since(Instant::now());
            if left.is_zero() {
                state.keyboard = None;
                break;
            }
            let waited = self.read.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        self.push(state, frame);
    }

    fn push(&self, mut state: MutexGuard<'_, State>, frame: Frame) {
        let length = length(&frame);
        let (copy, number) = (frame.clone(), state.next());
        state.add(frame, length);
        drop(state);
        self.changes.send_modify(|count| *count += 1);
        self.store_piece(&copy, number);
    }

    /// Marks the run as being stopped: its remaining output waits for no reader.
    pub(crate) fn stop_waiting(&self) {
        self.state().stopping = true;
        self.read.notify_all();
    }

    /// Marks the run as ended: all viewers get the rest, and `code`.
    pub(crate) fn end(&self, code: u8) {
        let mut state = self.state();
        state.ended = true;
        let number = state.next();
        state.add(Frame::Exit(code), 1);
        drop(state);
        self.store_piece(&Frame::Exit(code), number);
        // Readers see that it is complete.
        let stored = self.stored.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Stored { mut writer, failed: true, .. }) = stored {
            // There may be room again.
            let lost = Frame::Message("… the rest of the output is not stored …\n".to_owned().into());
            let _ = writer.add(&lost).and_then(|()| writer.add(&Frame::Exit(code)));
        }
        self.changes.send_modify(|count| *count += 1);
    }

    /// Returns when no viewer is attached.
    pub(crate) async fn left(&self) {
        let mut changes = self.changes.subscribe();
        while self.state().viewers > 0 && changes.changed().await.is_ok() {}
    }

    /// Locked for single operations, and by a thread that waits for room.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn limit(&self) -> usize {
        if self.terminal { KEPT_OF_TERMINAL } else { KEPT }
    }

    /// Whether adding `frame` waits for the viewer who types.
    fn would_block(&self, frame: &Frame) -> bool {
        matches!(frame, Frame::Output(_)) && self.would_overtake(length(frame))
    }

    /// Whether so many more bytes would drop output that the viewer who types has not read.
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

    /// The number of the next piece.
    fn next(&self) -> u64 {
        self.first + self.kept.len() as u64
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

    /// The output from `next` on, as one frame as far as it is of one kind; and the number after
    /// it.
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
    /// The next frame; `None` after the end of the run.
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
                // The piece that was returned before has been sent.
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
    /// Handles a frame of this viewer: it becomes the one who types if there is none.
    pub(crate) async fn take(&mut self, frame: Frame) -> io::Result<()> {
        if let Frame::Size(size) = frame {
            self.size = Some(size);
        }
        let holder = {
            let mut state = self.screen.state();
            let next = state.next();
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
    frame.output().map_or(1, <[u8]>::len)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use futures_util::FutureExt as _;

    use super::super::stored::Reader;
    use super::*;

    fn output(text: &str) -> Frame {
        Frame::Output(text.as_bytes().to_vec())
    }

    #[tokio::test]
    async fn viewer_gets_kept_output_then_new_output() {
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
    async fn kept_output_is_bounded_and_preserves_terminal_modes() {
        let screen = Arc::new(Screen::default());
        screen.state().terminal = true;
        screen.add(output("\u{1b}[?2004h"));
        for _ in 0..100 {
            screen.add(Frame::Output(vec![b'x'; PIECE]));
        }
        let mut viewer = screen.view().unwrap();
        assert_eq!(viewer.next().await, Some(output("\u{1b}[?2004h")));
        assert!(screen.state().bytes <= KEPT_OF_TERMINAL);
    }

    #[tokio::test]
    async fn program_waits_only_for_the_viewer_who_types() {
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
    async fn stopping_run_does_not_wait_for_readers() {
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

    #[tokio::test]
    async fn output_that_cannot_be_stored_is_reported_once_and_marked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("output");
        let screen = Screen::default();
        screen.add(output("before"));
        screen.store(&path).unwrap();
        let exchange = |file| {
            let mut stored = screen.stored.lock().unwrap();
            std::mem::replace(&mut stored.as_mut().unwrap().writer.file, file)
        };
        let file = exchange(File::options().write(true).open("/dev/full").unwrap());
        screen.add(output("lost"));
        screen.add(output("lost"));
        let is_message = |frame: &&Frame| matches!(frame, Frame::Message(_));
        assert_eq!(screen.state().kept.iter().filter(is_message).count(), 1);
        // There is room again.
        exchange(file);
        screen.end(3);
        let mut reader = Reader::open(&path, true).unwrap();
        assert_eq!(reader.next().await.unwrap(), Some(output("before")));
        let mark = reader.next().await.unwrap().unwrap();
        assert!(String::from_utf8_lossy(mark.output().unwrap()).contains("not stored"));
        assert_eq!(reader.next().await.unwrap(), Some(Frame::Exit(3)));
        assert_eq!(reader.next().await.unwrap(), None);
    }

    #[test]
    fn number_of_viewers_is_limited() {
        let screen = Arc::new(Screen::default());
        let viewers: Vec<_> = (0..VIEWERS).map(|_| screen.view().unwrap()).collect();
        assert!(screen.view().is_none());
        drop(viewers);
        assert!(screen.view().is_some());
    }
}

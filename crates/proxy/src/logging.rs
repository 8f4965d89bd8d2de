//! The program's tracing events: each is one line of JSON on stderr, which the sandbox reads.
//!
//! Invariant: no connection waits for the reader of stderr. A separate thread writes; lines that it
//! cannot keep up with are dropped and counted. Only this crate's events are written, because
//! libraries trace headers.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, fmt, registry};

/// The maximum number of lines that wait for the reader.
const QUEUE: usize = 256;
/// How long the last lines of an ending program may take to be read.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Events that wait to be written.
pub(crate) struct Logging {
    queue: Queue,
    ended: Receiver<()>,
}

#[derive(Clone)]
struct Queue {
    /// `None` ends the writer.
    lines: SyncSender<Option<Vec<u8>>>,
    dropped: Arc<AtomicU64>,
}

/// Writes events of `level` and above from now on.
///
/// # Errors
///
/// If starting a thread fails.
pub(crate) fn begin(level: LevelFilter) -> io::Result<Logging> {
    let (lines, waiting) = sync_channel(QUEUE);
    let (end, ended) = sync_channel(0);
    let queue = Queue { lines, dropped: Arc::default() };
    let dropped = Arc::clone(&queue.dropped);
    std::thread::Builder::new().name("log".to_owned()).spawn(move || {
        write_lines(&waiting, &dropped);
        drop(end);
    })?;
    let writer = queue.clone();
    let layer = fmt::layer()
        .json()
        .without_time()
        .with_current_span(false)
        .with_writer(move || writer.clone())
        .with_filter(Targets::new().with_target("sandbox_proxy", level));
    // There is no other subscriber in this program.
    let _ = registry().with(layer).try_init();
    Ok(Logging { queue, ended })
}

impl Logging {
    /// Waits briefly for pending events to be written.
    pub(crate) fn finish(self) {
        if self.queue.lines.try_send(None).is_ok() {
            let _: Result<(), RecvTimeoutError> = self.ended.recv_timeout(LAST_LINES);
        }
    }
}

impl Write for Queue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.lines.try_send(Some(line.to_vec())).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_lines(waiting: &Receiver<Option<Vec<u8>>>, dropped: &AtomicU64) {
    while let Ok(Some(line)) = waiting.recv() {
        // If stderr takes nothing, there is no one left to report to.
        let _ = io::stderr().write_all(&line);
        let dropped = dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            let _ = writeln!(io::stderr(), "{dropped} lines of the log were dropped");
        }
    }
}

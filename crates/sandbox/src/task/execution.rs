//! A running execution as a stream of events and a result.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::vec;

use futures_util::Stream;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tracing::Instrument as _;

use crate::error::SandboxError;
use crate::stop_switch::StopSwitch;

/// A running execution. It is a [`Stream`] of events, and yields its result when awaited.
///
/// The event buffer is small. While nothing reads it, the program in the container waits once the
/// buffer is full; its time limit still applies, and it can be stopped. After its end nothing
/// waits: the rest of its output, less than a few mebibytes, is in the stream and in the result,
/// however late they are read. Awaiting the execution ends the reading: further events are
/// discarded.
///
/// Dropping it kills the program and removes all its objects from the engine in the background.
/// Until that is done, another execution of the same task or command is
/// [`Busy`](SandboxError::Busy); `stop` waits for it, as does
/// [`Sandbox::shutdown`](crate::Sandbox::shutdown). Tampered files in protected mounts are moved
/// away, and reported in the log only.
///
/// ```no_run
/// use futures_util::StreamExt as _;
///
/// # async fn example(task: sandbox::Task) -> Result<(), sandbox::SandboxError> {
/// let mut execution = task.execute(sandbox::Prompt::new("fix the failing test"));
/// while let Some(event) = execution.next().await {
///     println!("{event:?}");
/// }
/// let result = execution.await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping an execution ends it; await it for its result"]
pub struct Execution<E, R> {
    events: mpsc::UnboundedReceiver<Vec<E>>,
    room: Room,
    /// Received, but not yet yielded.
    ready: vec::IntoIter<E>,
    result: oneshot::Receiver<Result<Unclaimed<R>, SandboxError>>,
    _owner: oneshot::Sender<()>,
}

/// The running side of an [`Execution`].
pub(super) struct Owner<E> {
    events: Events<E>,
    gone: oneshot::Receiver<()>,
}

/// The sending side of the events. Sending waits for room while there is a reader and the program
/// runs.
pub(super) struct Events<E> {
    sender: mpsc::UnboundedSender<Vec<E>>,
    /// A permit for each batch that may wait; closed when sending no longer waits.
    room: Arc<Semaphore>,
}

/// Closes the room when the reader is gone, so that nothing waits for it.
struct Room(Arc<Semaphore>);

impl Drop for Room {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// A result that may still be taken. On drop, the findings in it are logged.
struct Unclaimed<R> {
    result: Option<R>,
    log: fn(&R),
}

impl<R> Drop for Unclaimed<R> {
    fn drop(&mut self) {
        if let Some(result) = &self.result {
            (self.log)(result);
        }
    }
}

impl<E, R> Execution<E, R>
where
    E: Send + 'static,
    R: Send + 'static,
{
    /// Runs `work` in the background unless `switch` reports that the last one still runs. `room`
    /// is the number of batches of events that may wait; `log` logs the findings of a result that
    /// is not taken.
    pub(super) fn spawn<W>(
        switch: &Arc<StopSwitch>,
        room: usize,
        log: fn(&R),
        work: impl FnOnce(Owner<E>) -> W,
    ) -> Self
    where
        W: Future<Output = Result<R, SandboxError>> + Send + 'static,
    {
        let (sender, received) = mpsc::unbounded_channel();
        let room = Arc::new(Semaphore::new(room));
        let (send_result, result) = oneshot::channel();
        let (owner, gone) = oneshot::channel();
        match switch.begin() {
            Ok(running) => {
                let events = Events { sender, room: Arc::clone(&room) };
                let work = work(Owner { events, gone });
                let finished = async move {
                    let result = work.await.map(|result| Unclaimed { result: Some(result), log });
                    // The next one can start once the result is available.
                    drop(running);
                    drop(send_result.send(result));
                };
                tokio::spawn(finished.in_current_span());
            }
            Err(busy) => drop(send_result.send(Err(busy))),
        }
        Self { events: received, room: Room(room), ready: Vec::new().into_iter(), result, _owner: owner }
    }
}

impl<E> Owner<E> {
    /// The events' sender, and a future that ends when the execution was dropped.
    pub(super) fn split(self) -> (Events<E>, impl Future<Output = ()> + Send) {
        let gone = self.gone;
        (self.events, async move { drop(gone.await) })
    }
}

impl<E> Events<E> {
    /// Whether the events may still be read.
    pub(super) fn has_reader(&self) -> bool {
        !self.sender.is_closed()
    }

    /// Waits until there is room for a batch, and sends it.
    pub(super) async fn send(&self, batch: Vec<E>) {
        if batch.is_empty() {
            return;
        }
        if let Ok(permit) = self.room.acquire().await {
            // The permit is returned when the batch is received.
            permit.forget();
        }
        // Discarded if nothing reads any more.
        let _ = self.sender.send(batch);
    }

    /// Called when the program has ended: from then on sending does not wait. The remaining events
    /// are bounded.
    pub(super) fn at_end(&self) -> impl FnOnce() + Send + use<E> {
        let room = Arc::clone(&self.room);
        move || room.close()
    }
}

impl<E, R> Stream for Execution<E, R>
where
    E: Unpin,
{
    type Item = E;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<E>> {
        loop {
            if let Some(event) = self.ready.next() {
                return Poll::Ready(Some(event));
            }
            match self.events.poll_recv(context) {
                Poll::Ready(Some(batch)) => {
                    self.ready = batch.into_iter();
                    self.room.0.add_permits(1);
                }
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl<E, R> IntoFuture for Execution<E, R>
where
    E: Send + 'static,
    R: Send + 'static,
{
    type Output = Result<R, SandboxError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            // The block captures only what it names: without its owner, the execution would be
            // stopped.
            let Self { events, room, result, _owner: owner, .. } = self;
            drop((events, room));
            // An internal error ended it.
            let result = result.await.unwrap_or(Err(SandboxError::TeardownFailed));
            drop(owner);
            let taken = result?.result.take();
            taken.ok_or(SandboxError::TeardownFailed)
        })
    }
}

impl<E, R> fmt::Debug for Execution<E, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Execution").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt as _, StreamExt as _};

    use super::*;

    type Numbers = Execution<u32, u32>;

    fn numbers<W>(switch: &Arc<StopSwitch>, work: impl FnOnce(Owner<u32>) -> W) -> Numbers
    where
        W: Future<Output = Result<u32, SandboxError>> + Send + 'static,
    {
        Execution::spawn(switch, 1, |_| {}, work)
    }

    /// Sends batches of two forever; returns how many were received when there is no reader any
    /// more.
    async fn endless(owner: Owner<u32>, sent: mpsc::UnboundedSender<u32>) -> Result<u32, SandboxError> {
        let (events, gone) = owner.split();
        let sending = async {
            for number in 0.. {
                events.send(vec![number, number]).await;
                let _ = sent.send(number);
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            () = sending => Ok(0),
            () = gone => Ok(1),
        }
    }

    #[tokio::test]
    async fn program_waits_without_a_reader() {
        let (sent, mut seen) = mpsc::unbounded_channel();
        let switch = Arc::new(StopSwitch::new());
        let mut execution = numbers(&switch, |owner| endless(owner, sent));
        assert_eq!(seen.recv().await, Some(0));
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(seen.try_recv().is_err(), "there is room for one batch");
        assert_eq!(execution.next().await, Some(0));
        assert_eq!(seen.recv().await, Some(1), "the control: now there is room");
        assert_eq!(execution.next().await, Some(0));
    }

    #[tokio::test]
    async fn awaiting_discards_events_and_frees_the_task() {
        let switch = Arc::new(StopSwitch::new());
        for _ in 0..3 {
            let execution = numbers(&switch, |owner| async move {
                let (events, gone) = owner.split();
                for number in 0..100 {
                    events.send(vec![number]).await;
                }
                assert!(!events.has_reader());
                assert!(gone.now_or_never().is_none(), "the reader is there");
                Ok(7)
            });
            let busy = numbers(&switch, |_| async { Ok(0) }).await;
            assert!(matches!(busy, Err(SandboxError::Busy)), "{busy:?}");
            assert_eq!(execution.await.unwrap(), 7);
        }
    }

    #[tokio::test]
    async fn dropping_ends_the_work_and_stop_waits_for_it() {
        let (sent, _seen) = mpsc::unbounded_channel();
        let switch = Arc::new(StopSwitch::new());
        let execution = numbers(&switch, |owner| endless(owner, sent.clone()));
        drop(execution);
        assert!(switch.stop().await);
        let mut awaited = IntoFuture::into_future(numbers(&switch, |owner| endless(owner, sent)));
        assert!(awaited.as_mut().now_or_never().is_none());
        drop(awaited);
        switch.stop().await;
        assert!(switch.begin().is_ok());
    }

    #[tokio::test]
    async fn events_after_the_programs_end_neither_wait_nor_are_lost() {
        let switch = Arc::new(StopSwitch::new());
        let execution = numbers(&switch, |owner| async move {
            let (events, _gone) = owner.split();
            events.send(vec![0]).await;
            assert!(events.send(vec![1]).now_or_never().is_none(), "the control: it waits");
            events.at_end()();
            for number in 1..100 {
                events.send(vec![number]).await;
            }
            Ok(7)
        });
        // Nothing is read before the switch is free: the work is done.
        while switch.begin().is_err() {
            tokio::task::yield_now().await;
        }
        let mut execution = execution;
        let read: Vec<u32> = execution.by_ref().collect().await;
        assert_eq!(read, (0..100).collect::<Vec<_>>());
        assert_eq!(execution.await.unwrap(), 7);
    }

    #[tokio::test]
    async fn findings_are_logged_unless_the_result_was_taken() {
        let reports = Arc::new(std::sync::atomic::AtomicU32::new(0));
        let result = |reports: &Arc<std::sync::atomic::AtomicU32>| Unclaimed {
            result: Some(Arc::clone(reports)),
            log: |reports: &Arc<std::sync::atomic::AtomicU32>| {
                reports.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            },
        };
        let mut taken = result(&reports);
        drop(taken.result.take());
        drop(taken);
        assert_eq!(reports.load(std::sync::atomic::Ordering::Relaxed), 0);
        let (sender, receiver) = oneshot::channel();
        drop(sender.send(result(&reports)));
        drop(receiver);
        assert_eq!(reports.load(std::sync::atomic::Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn panic_is_an_internal_error() {
        let switch = Arc::new(StopSwitch::new());
        let fails = |_: Owner<u32>| async { panic!("a bug") };
        let result = numbers(&switch, fails).await;
        assert!(matches!(result, Err(SandboxError::TeardownFailed)), "{result:?}");
        assert!(switch.begin().is_ok());
    }
}

//! Moves the output of a running process, and ends it on a timeout or a stop.

use std::ops::ControlFlow;
use std::time::Duration;

use futures_util::{Stream, StreamExt as _};
use sandbox_agents::Ended;
use tokio::io::{AsyncRead, AsyncWriteExt as _};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use crate::container::{Chunk, Exit, ProgramControl, Stdin};
use crate::error::SandboxError;

use crate::stop_switch::StopSwitch;

/// How long buffered output of the engine may still come after the process ended.
const DRAIN: Duration = Duration::from_secs(30);

/// The end of a process.
pub(crate) struct End {
    pub(crate) exit: Exit,
    pub(crate) ended: Ended,
}

/// Receives the output of a process.
pub(crate) trait Sink: Send {
    /// Receives a chunk; breaks to stop the process.
    fn take(&mut self, chunk: Chunk) -> impl Future<Output = ControlFlow<Ended>> + Send;

    /// When to call [`Self::wake`] without new output. Called after every chunk.
    fn deadline(&mut self) -> Option<Instant> {
        None
    }

    /// Called at the deadline; breaks to stop the process.
    fn wake(&mut self) -> impl Future<Output = ControlFlow<Ended>> + Send {
        std::future::ready(ControlFlow::Continue(()))
    }

    /// Called when the process has ended: from then on receiving a chunk does not wait.
    fn at_end(&self) -> impl FnOnce() + Send + use<Self> {
        || ()
    }
}

/// Moves output into `sink` until the process has ended. The process is stopped after `timeout`, on
/// `switch` and by `sink`; it is killed when `gone` ends.
pub(crate) async fn drive<S>(
    output: S,
    handle: &dyn ProgramControl,
    timeout: Option<Duration>,
    switch: &StopSwitch,
    gone: impl Future<Output = ()> + Send,
    sink: &mut impl Sink,
) -> Result<End, SandboxError>
where
    S: Stream<Item = Result<Chunk, sandbox_podman::EngineError>> + Send + Unpin,
{
    let (stop, stops) = oneshot::channel();
    let (ended, has_ended) = watch::channel(false);
    let at_end = sink.at_end();
    let pump = pump(output, sink, stop, has_ended.clone());
    let supervise = async {
        let end = supervise(handle, timeout, switch, gone, stops).await;
        at_end();
        let _ = ended.send(true);
        end
    };
    let pump = async {
        tokio::pin!(pump);
        tokio::select! {
            moved = &mut pump => moved,
            () = after(has_ended, DRAIN) => {
                tracing::warn!("output still came {DRAIN:?} after the process had ended; the rest is lost");
                Ok(())
            }
        }
    };
    let (end, moved) = tokio::join!(supervise, pump);
    let end = end?;
    moved?;
    Ok(end)
}

/// Moves `output` into `sink` until it ends, and sends on `stop` when the process must be stopped.
async fn pump<S>(
    output: S,
    sink: &mut impl Sink,
    stop: oneshot::Sender<Ended>,
    has_ended: watch::Receiver<bool>,
) -> Result<(), SandboxError>
where
    S: Stream<Item = Result<Chunk, sandbox_podman::EngineError>> + Send + Unpin,
{
    let mut output = output.fuse();
    let mut stop = Some(stop);
    let mut is_open = true;
    while is_open || stop.is_some() {
        let deadline = if stop.is_some() { sink.deadline() } else { None };
        if !is_open && deadline.is_none() {
            break;
        }
        let verdict = tokio::select! {
            biased;
            // Endless output must not postpone it.
            verdict = sink.wake(), if deadline.is_some_and(|deadline| deadline <= Instant::now()) => verdict,
            chunk = output.next(), if is_open => match chunk {
                // Output after a refusal is still read: a full pipe would keep the process from
                // ending.
                Some(Ok(chunk)) if stop.is_some() => sink.take(chunk).await,
                Some(Ok(_)) => ControlFlow::Continue(()),
                Some(Err(error)) => {
                    // Nothing reads its output any more, so it would not end by itself.
                    if let Some(stop) = stop {
                        let _ = stop.send(Ended::Itself);
                    }
                    return Err(error.into());
                }
                None => {
                    is_open = false;
                    ControlFlow::Continue(())
                }
            },
            () = at(deadline) => sink.wake().await,
            // Its output was closed before; there is nothing more to wait for.
            () = after(has_ended.clone(), Duration::ZERO), if !is_open => break,
        };
        if let ControlFlow::Break(ended) = verdict
            && let Some(stop) = stop.take()
        {
            let _ = stop.send(ended);
        }
    }
    Ok(())
}

/// Ends at `deadline`, or never without one.
async fn at(deadline: Option<Instant>) {
    match deadline {
        // tidy: sleep: a deadline, not a poll
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Ends `delay` after `event` became true.
async fn after(mut event: watch::Receiver<bool>, delay: Duration) {
    let _ = event.wait_for(|has_come| *has_come).await;
    // tidy: sleep: a deadline, not a poll
    tokio::time::sleep(delay).await;
}

async fn supervise(
    handle: &dyn ProgramControl,
    timeout: Option<Duration>,
    switch: &StopSwitch,
    gone: impl Future<Output = ()> + Send,
    stops: oneshot::Receiver<Ended>,
) -> Result<End, SandboxError> {
    let mut killed = false;
    let ended = tokio::select! {
        exit = handle.wait() => return Ok(End { exit: exit?, ended: Ended::Itself }),
        () = at(timeout.and_then(|timeout| Instant::now().checked_add(timeout))) => Ended::Timeout,
        () = switch.requested() => Ended::Stopped,
        ended = asked(stops) => ended,
        () = gone => {
            killed = true;
            Ended::Stopped
        }
    };
    tracing::debug!(?ended, killed, "stopping");
    if killed {
        handle.kill().await?;
    } else {
        handle.stop().await?;
    }
    Ok(End { exit: handle.wait().await?, ended })
}

/// Why the process must be stopped; pending if its output ends without that.
async fn asked(stops: oneshot::Receiver<Ended>) -> Ended {
    match stops.await {
        Ok(ended) => ended,
        Err(_) => std::future::pending().await,
    }
}

/// Copies `input` to the process and closes its stdin. It is not an error if the process does not
/// read its input.
pub(super) async fn feed(mut input: impl AsyncRead + Unpin, mut stdin: Stdin) {
    if let Err(error) = tokio::io::copy(&mut input, &mut stdin).await {
        tracing::debug!(%error, "the process closed its stdin");
    }
    let _ = stdin.shutdown().await;
}

//! Moving the output of a running process, and ending it when its time is over or someone asks.

use std::time::Duration;

use futures_util::{Stream, StreamExt as _};
use tokio::io::{AsyncRead, AsyncWriteExt as _};

use crate::container::{Chunk, Exit, ProgramControl, Stdin};
use crate::error::SandboxError;

use super::outcome::Ended;
use crate::stop_switch::StopSwitch;

/// How long output may still come after the process ended: what the engine holds.
const DRAIN: Duration = Duration::from_secs(10);

/// How a process came to its end.
pub(crate) struct End {
    pub(crate) exit: Exit,
    pub(crate) ended: Ended,
}

/// Takes what a process writes.
pub(crate) trait Sink: Send {
    /// Takes a chunk in; `false` when the process has to be stopped.
    fn take(&mut self, chunk: Chunk) -> impl Future<Output = bool> + Send;

    /// What to do when the process has ended: from then on taking a chunk in does not wait.
    fn at_end(&self) -> impl FnOnce() + Send + use<Self> {
        || ()
    }
}

/// Moves output into `sink` until the process has ended. The process is stopped after `timeout`, when `switch` says so, and when
/// `sink` refuses more; it is killed when `gone` ends.
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
    let refused = tokio::sync::Notify::new();
    let at_end = sink.at_end();
    let pump = async {
        let mut output = output;
        let mut wanted = true;
        while let Some(chunk) = output.next().await {
            // No one reads what it writes any more, so it would not end by itself.
            let chunk = chunk.inspect_err(|_| refused.notify_one())?;
            // What comes after a refusal is still read: a full pipe would keep the process from ending.
            if wanted && !sink.take(chunk).await {
                wanted = false;
                refused.notify_one();
            }
        }
        Ok::<(), SandboxError>(())
    };
    let (ended_sender, ended_receiver) = tokio::sync::oneshot::channel();
    let supervise = async {
        let end = supervise(handle, timeout, switch, gone, &refused).await;
        at_end();
        let _ = ended_sender.send(());
        end
    };
    let pump = async {
        tokio::pin!(pump);
        tokio::select! {
            moved = &mut pump => moved,
            () = after(ended_receiver, DRAIN) => {
                tracing::warn!("output was still coming {DRAIN:?} after the process had ended; the rest is lost");
                Ok(())
            }
        }
    };
    let (end, moved) = tokio::join!(supervise, pump);
    let end = end?;
    moved?;
    Ok(end)
}

/// Ends `delay` after `event`.
async fn after(event: tokio::sync::oneshot::Receiver<()>, delay: Duration) {
    let _ = event.await;
    // tidy: sleep: a deadline, not a poll
    tokio::time::sleep(delay).await;
}

async fn supervise(
    handle: &dyn ProgramControl,
    timeout: Option<Duration>,
    switch: &StopSwitch,
    gone: impl Future<Output = ()> + Send,
    refused: &tokio::sync::Notify,
) -> Result<End, SandboxError> {
    let mut killed = false;
    let ended = tokio::select! {
        exit = handle.wait() => return Ok(End { exit: exit?, ended: Ended::Itself }),
        () = deadline(timeout) => Ended::Timeout,
        () = switch.requested() => Ended::Stopped,
        () = refused.notified() => Ended::Itself,
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

async fn deadline(timeout: Option<Duration>) {
    match timeout {
        // tidy: sleep: a deadline, not a poll
        Some(timeout) => tokio::time::sleep(timeout).await,
        None => std::future::pending().await,
    }
}

/// Copies `input` to the process and closes its stdin. A process that does not read its input is none of our faults.
pub(super) async fn feed(mut input: impl AsyncRead + Unpin, mut stdin: Stdin) {
    if let Err(error) = tokio::io::copy(&mut input, &mut stdin).await {
        tracing::debug!(%error, "the process closed its stdin");
    }
    let _ = stdin.shutdown().await;
}

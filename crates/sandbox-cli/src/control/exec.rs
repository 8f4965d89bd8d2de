//! Another program in a run, on behalf of a client: passes its streams as frames.

use std::io;
use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt as _;
use sandbox::launcher::{Exit, LaunchedProgram, Output, ProgramControl, Stdin};
use sandbox::{EngineError, OutputChunk};
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;

use crate::exit_status::ExitStatus;
use crate::owner::Frame;

/// How long output may continue after its end: child processes may still hold the streams.
const REST: Duration = Duration::from_secs(1);

/// Passes its streams on until it ends, and ends it when the client requests it or is gone.
pub(super) async fn serve(
    program: LaunchedProgram,
    mut reader: BufReader<OwnedReadHalf>,
    mut write: OwnedWriteHalf,
) -> io::Result<()> {
    let LaunchedProgram { stdin, output, control } = program;
    // The client sends a piece only after the last one was taken.
    let (typed, waiting) = mpsc::unbounded_channel();
    let (taken, took) = mpsc::unbounded_channel();
    let exit = {
        let mut passing = pin!(async {
            pass(output, took, &mut write).await.map_err(|_| gone())?;
            control.wait().await
        });
        tokio::select! {
            exit = &mut passing => exit,
            () = listen(&mut reader, &*control, &typed) => tokio::select! {
                exit = &mut passing => exit,
                ended = end(&*control) => match ended {
                    Ok(()) => control.wait().await,
                    Err(error) => Err(error),
                },
            },
            () = feed(stdin, waiting, taken) => Err(gone()),
        }
    };
    if exit.is_err() {
        let _ = control.stop().await;
    }
    let code = exit.map_or(ExitStatus::Infrastructure, |Exit { code, .. }| ExitStatus::of_command(code));
    write.write_all(&Frame::Exit(code.code()).bytes()).await
}

/// Sends its output, and acknowledgements of input, until its output ends.
async fn pass(
    mut output: Output,
    mut took: mpsc::UnboundedReceiver<()>,
    write: &mut OwnedWriteHalf,
) -> io::Result<()> {
    loop {
        let frame = tokio::select! {
            chunk = output.next() => match chunk {
                Some(Ok(OutputChunk::Stdout(bytes))) => Frame::Output(bytes.to_vec()),
                Some(Ok(OutputChunk::Stderr(bytes))) => Frame::Message(bytes.to_vec()),
                // The engine knows how it ended.
                Some(Err(_)) | None => return Ok(()),
            },
            Some(()) = took.recv() => Frame::Taken,
        };
        write.write_all(&frame.bytes()).await?;
    }
}

/// Returns when the client wants to end it.
async fn listen(
    reader: &mut BufReader<OwnedReadHalf>,
    control: &dyn ProgramControl,
    typed: &mpsc::UnboundedSender<Vec<u8>>,
) {
    loop {
        match Frame::read(reader).await {
            Ok(Some(Frame::Typed(bytes))) => drop(typed.send(bytes)),
            // A program that just ended needs no size.
            Ok(Some(Frame::Size(size))) => drop(control.resize(size).await),
            _ => return,
        }
    }
}

/// Writes typed input to it; never returns.
async fn feed(stdin: Stdin, mut waiting: mpsc::UnboundedReceiver<Vec<u8>>, taken: mpsc::UnboundedSender<()>) {
    let mut stdin = Some(stdin);
    while let Some(bytes) = waiting.recv().await {
        let written = match &mut stdin {
            Some(stdin) if bytes.is_empty() => stdin.shutdown().await,
            Some(stdin) => stdin.write_all(&bytes).await,
            None => Ok(()),
        };
        // A program that no longer reads gets nothing.
        stdin = stdin.filter(|_| written.is_ok() && !bytes.is_empty());
        let _ = taken.send(());
    }
    std::future::pending::<()>().await;
}

async fn end(control: &dyn ProgramControl) -> Result<(), EngineError> {
    control.stop().await?;
    tokio::time::sleep(REST).await; // tidy: sleep: a deadline, not a poll
    Ok(())
}

fn gone() -> EngineError {
    EngineError::refused("pass on the streams of", "command", "the client is gone")
}

//! A further program in a run, for a client that asked for it: its streams as frames.

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

/// How long its output may go on when it has been ended: processes that it began may have it.
const REST: Duration = Duration::from_secs(1);

/// Passes its streams on until it has ended, and ends it when the client asks for that, or goes
/// away.
pub(super) async fn serve(
    program: LaunchedProgram,
    mut reader: BufReader<OwnedReadHalf>,
    mut write: OwnedWriteHalf,
) -> io::Result<()> {
    let LaunchedProgram { stdin, output, control } = program;
    // The client waits for each piece to be taken before it sends another.
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

/// Writes its output, and that its input was taken, until its output ends.
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
                // How it ended, the engine is asked.
                Some(Err(_)) | None => return Ok(()),
            },
            Some(()) = took.recv() => Frame::Taken,
        };
        write.write_all(&frame.bytes()).await?;
    }
}

/// Returns when the client wants the end of it.
async fn listen(
    reader: &mut BufReader<OwnedReadHalf>,
    control: &dyn ProgramControl,
    typed: &mpsc::UnboundedSender<Vec<u8>>,
) {
    loop {
        match Frame::read(reader).await {
            Ok(Some(Frame::Typed(bytes))) => drop(typed.send(bytes)),
            // One that has just ended needs none.
            Ok(Some(Frame::Size(size))) => drop(control.resize(size).await),
            _ => return,
        }
    }
}

/// Gives it what was typed; never returns.
async fn feed(stdin: Stdin, mut waiting: mpsc::UnboundedReceiver<Vec<u8>>, taken: mpsc::UnboundedSender<()>) {
    let mut stdin = Some(stdin);
    while let Some(bytes) = waiting.recv().await {
        let written = match &mut stdin {
            Some(stdin) if bytes.is_empty() => stdin.shutdown().await,
            Some(stdin) => stdin.write_all(&bytes).await,
            None => Ok(()),
        };
        // A program that does not read any more is given nothing.
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

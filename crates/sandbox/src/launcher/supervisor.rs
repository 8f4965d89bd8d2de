//! Simulates the first process of an executor's container: each command and file is a program with
//! a script.

use std::collections::BTreeMap;

use bytes::Bytes;
use sandbox_inside::{CommandLine, Decoder, End, Frame, Request};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

use super::engine::{ScriptedEngine, ScriptedProgram};
use super::script::{Lost, Signal, ended_by};
use crate::container::{Chunk, ContainerError, Exit, LaunchPlan};

type Output = mpsc::UnboundedSender<Chunk>;

/// A running command.
struct Running {
    /// The number of the program.
    number: usize,
    /// Dropped at the end of its input.
    input: Option<oneshot::Sender<()>>,
    /// Dropped to kill it.
    _signal: watch::Sender<Signal>,
}

/// Serves until its stdin ends, a signal comes, or a script loses the engine.
pub(super) async fn supervise(
    engine: &ScriptedEngine,
    plan: &LaunchPlan,
    mut stdin: impl AsyncRead + Unpin,
    mut signal: watch::Receiver<Signal>,
    output: Output,
) -> Result<Exit, Lost> {
    let (mut decoder, mut buffer) = (Decoder::default(), Vec::new());
    let (mut running, mut playing) = (BTreeMap::new(), JoinSet::new());
    send(&output, &Frame::Ready);
    loop {
        tokio::select! {
            exit = ended_by(&mut signal) => return Ok(exit),
            Some(played) = playing.join_next() => played.unwrap_or(Err(Lost))?,
            read = stdin.read_buf(&mut buffer) => {
                if !matches!(read, Ok(1..)) {
                    return Ok(Exit::new(0));
                }
                decoder.push(&buffer);
                buffer.clear();
            }
        }
        while let Ok(Some(frame)) = decoder.next_frame() {
            match frame {
                Frame::Start { command, request } => {
                    if let Some(started) = start(engine, plan, command, request, &output, &mut playing) {
                        running.insert(command, started);
                    }
                }
                Frame::Input { command, bytes } => {
                    if let Some(Running { number, .. }) = running.get(&command) {
                        engine.keep_input(*number, &bytes);
                    }
                    let taken = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
                    send(&output, &Frame::Taken { command, bytes: taken });
                }
                Frame::EndOfInput { command } => {
                    if let Some(running) = running.get_mut(&command) {
                        running.input = None;
                    }
                }
                Frame::Kill { command } => drop(running.remove(&command)),
                // Only a supervisor sends the others.
                _ => {}
            }
        }
    }
}

/// Begins a command; `None` if it has ended already.
fn start(
    engine: &ScriptedEngine,
    plan: &LaunchPlan,
    command: u32,
    request: Request,
    output: &Output,
    playing: &mut JoinSet<Result<(), Lost>>,
) -> Option<Running> {
    let has_input = request.has_input();
    let (number, script) = match engine.begin(program(plan, request)) {
        Ok(begun) => begun,
        Err(error) => {
            send(output, &Frame::Ended { command, end: not_started(error) });
            return None;
        }
    };
    let (input, end_of_input) = oneshot::channel::<()>();
    let (signal, signalled) = watch::channel(Signal::None);
    let output = output.clone();
    playing.spawn(async move {
        let write = |chunk| {
            let frame = match chunk {
                Chunk::Stdout(bytes) => Frame::Stdout { command, bytes: bytes.into() },
                Chunk::Stderr(bytes) => Frame::Stderr { command, bytes: bytes.into() },
            };
            send(&output, &frame);
        };
        let read = async { drop(end_of_input.await) };
        let exit = script.play(read, signalled, write).await?;
        let end = End::Exited(i32::try_from(exit.code).unwrap_or(i32::MAX));
        send(&output, &Frame::Ended { command, end });
        Ok(())
    });
    Some(Running { number, input: has_input.then_some(input), _signal: signal })
}

fn program(plan: &LaunchPlan, request: Request) -> ScriptedProgram {
    let words = |words: [&str; 2]| words.map(str::to_owned).to_vec();
    match request {
        Request::Run { command, env, working_dir, .. } => {
            let command = match command {
                CommandLine::Shell(line) => vec!["sh".to_owned(), "-c".to_owned(), line],
                CommandLine::Program(words) => words,
            };
            let program = ScriptedProgram::executed(plan, command);
            ScriptedProgram {
                env: program.env.merge(&env),
                working_dir: working_dir.or(program.working_dir),
                ..program
            }
        }
        Request::Write { path } => ScriptedProgram::executed(plan, words(["write", &path])),
        Request::Read { path, .. } => ScriptedProgram::executed(plan, words(["read", &path])),
    }
}

fn not_started(error: ContainerError) -> End {
    match error {
        ContainerError::ProgramNotFound { program } => End::NotFound { program },
        ContainerError::ProgramNotExecutable { program } => End::NotExecutable { program },
        error => {
            let first: &dyn std::error::Error = &error;
            let causes = std::iter::successors(Some(first), |error| error.source());
            End::Failed { problem: causes.map(ToString::to_string).collect::<Vec<_>>().join(": ") }
        }
    }
}

fn send(output: &Output, frame: &Frame) {
    // If nothing reads the output, the executor is gone.
    let _ = output.send(Chunk::Stdout(Bytes::from(frame.encode())));
}

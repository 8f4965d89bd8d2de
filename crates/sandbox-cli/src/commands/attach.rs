//! `attach`, and the client side of `run -t`, `run -d` and `shell`.

use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::path::Path;

use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::OwnedWriteHalf;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot};

use crate::args::{AttachArgs, BackgroundArgs};
use crate::config::Places;
use crate::control::{Connection, Runs};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::interrupt::{Interrupt, Interrupts};
use crate::owner::{self, Frame, Starting, StoredOutput};
use crate::printer::Printer;
use crate::run_folder::{self, OUTPUT};
use crate::run_record::RunRecord;
use crate::terminal::{self, DetachKeys, RawMode};

/// The number of frames and keys that may wait, each way.
const WAITING: usize = 4;
/// Bytes of keyboard input that are read at once.
const KEYS: usize = 4096;
/// The maximum size of the messages that are buffered while a program has the terminal.
const MESSAGES: usize = 64 * 1024;

/// How an attachment ended.
#[derive(Debug)]
enum End {
    Exited(u8),
    /// The detach keys were typed, or the terminal is gone.
    Detached,
    /// The owner ended without an exit code.
    Lost,
    Interrupted(Interrupt),
}

/// Attaches to a run, or shows the stored output of an ended one.
pub(crate) async fn attach(
    args: AttachArgs,
    places: &Places,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let named = args.run.run.as_deref();
    let (state, logs) = (&places.state, places.all_logs());
    let mut runs = Runs::find(state, printer).await?;
    if named.is_none() {
        runs = runs.with_screen();
    }
    let run = match (runs.one(named), named) {
        // An ambiguous id is a usage error, not an ended run.
        (Err(failure), Some(named)) if failure.status() != ExitStatus::Usage => {
            return ended(&logs, named, printer).await?.ok_or(failure);
        }
        (run, _) => run?,
    };
    let connection = match runs.attach(run).await {
        Ok(connection) => connection,
        Err(failure) => {
            let has_ended = Runs::find(state, printer).await?.one(Some(&run.run)).is_err();
            let kept = if has_ended { ended(&logs, &run.run, printer).await? } else { None };
            return kept.ok_or(failure);
        }
    };
    let id = connection.report.run.clone();
    let mut interrupts = Interrupts::listen().map_err(Failure::doing("listen for signals"))?;
    let stop = async |interrupt| Some(End::Interrupted(interrupt));
    let end = attached(connection, args.detach_keys, &mut interrupts, stop, printer).await?;
    Ok(status(&end, &id, printer))
}

/// Starts an owner process for the run of this command line, and attaches to it unless it is to run
/// in the background.
pub(crate) async fn in_front(
    args: BackgroundArgs,
    asks: bool,
    state: &Path,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let has_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    if !(args.detach || has_terminal) {
        return Err(Failure::usage("stdin and stdout must be a terminal")
            .with_hint("omit -t, or use -d and later `sandbox attach`"));
    }
    if asks {
        printer.hint(
            "`sandbox watch` shows the questions of --ask; requests without an answer in 30 s, or in the \
             time of --ask-timeout, are refused",
        );
    }
    let mut interrupts = Interrupts::listen().map_err(Failure::doing("listen for signals"))?;
    let mut starting = owner::start()?;
    let pid = starting.pid();
    let mut started = tokio::task::spawn_blocking(move || {
        let run = starting.run();
        (run, starting)
    });
    let (run, starting) = loop {
        tokio::select! {
            started = &mut started => break started.map_err(|_| Failure::new("failed to wait for the owner"))?,
            // It is still our child: it has not been waited for.
            interrupt = interrupts.next() => Starting::signal(pid, interrupt),
        }
    };
    let ended = tokio::task::spawn_blocking(move || starting.end());
    let Some(run) = run.map_err(Failure::doing("wait for the start of the run"))? else {
        return Ok(ended.await.unwrap_or(ExitStatus::Infrastructure));
    };
    if args.detach {
        printer.line(&run);
        return Ok(ExitStatus::Success);
    }
    let runs = Runs::find(state, printer).await?;
    let connection = runs.attach(runs.one(Some(&run))?).await?;
    let stop = async |interrupt| match interrupt {
        Interrupt::HangUp => Some(End::Interrupted(interrupt)),
        Interrupt::KeyPress | Interrupt::Terminate => {
            Starting::signal(pid, interrupt);
            None
        }
    };
    match attached(connection, args.detach_keys, &mut interrupts, stop, printer).await? {
        End::Exited(_) => Ok(ended.await.unwrap_or(ExitStatus::Infrastructure)),
        end => Ok(status(&end, &run, printer)),
    }
}

fn status(end: &End, run: &str, printer: Printer) -> ExitStatus {
    match end {
        End::Exited(code) => ExitStatus::Command(*code),
        End::Detached => {
            printer.message(format_args!("run {run} continues: `sandbox attach {run}`"));
            ExitStatus::Success
        }
        End::Interrupted(interrupt) => {
            printer.message(format_args!("run {run} continues: `sandbox attach {run}`"));
            ExitStatus::Interrupted(*interrupt)
        }
        End::Lost => {
            printer
                .warning(format_args!("the process that owned run {run} died; the run's network is cut off"));
            printer.hint("`sandbox clean` or the next run removes its objects");
            ExitStatus::Infrastructure
        }
    }
}

/// The error for a run whose output is not found.
pub(super) fn not_stored(run: &str) -> impl FnOnce(io::Error) -> Failure {
    let missing = Failure::doing(format!("open the output of run `{run}`"));
    |error| {
        missing(error).with_hint(
            "that of runs with -d or -t is stored, until `sandbox rm` or 8 GiB of the project's newer output",
        )
    }
}

/// Shows the stored output of an ended run, and returns how that ended; `None` if there is no such
/// run.
async fn ended(logs: &Path, named: &str, printer: Printer) -> Result<Option<ExitStatus>, Failure> {
    let Ok(folder) = run_folder::find_in_all(logs, named) else { return Ok(None) };
    // It waits for a run that is about to end and accepts no more connections.
    let output = StoredOutput::open(&folder.join(OUTPUT), true).map_err(not_stored(named))?;
    let mut interrupts = Interrupts::listen().map_err(Failure::doing("listen for signals"))?;
    let shown = tokio::select! {
        shown = show(output, printer) => shown?,
        interrupt = interrupts.next() => return Ok(Some(ExitStatus::Interrupted(interrupt))),
    };
    let recorded = || RunRecord::read(&folder)?.end.map(|end| end.exit_code);
    match shown {
        Replay::Complete(code) => match code.or_else(recorded) {
            Some(code) => Ok(Some(ExitStatus::Command(code))),
            None => Err(Failure::new(format!("run `{named}` was killed: this is its output until then"))),
        },
        Replay::NotRead => Ok(Some(ExitStatus::Success)),
    }
}

/// How far stored output was shown.
#[derive(Debug)]
pub(super) enum Replay {
    /// All of it, with the run's exit code if that is stored too.
    Complete(Option<u8>),
    /// Nobody reads stdout.
    NotRead,
}

/// Shows stored output.
pub(super) async fn show(mut output: StoredOutput, printer: Printer) -> Result<Replay, Failure> {
    // The program may have been killed, or its output cut off in the middle of a drawing.
    let mut modes = terminal::Shown::default();
    let (mut filter, mut error_filter) = printer.filters(true);
    // A signal ends it although nobody reads.
    let mut stdout = tokio::io::stdout();
    while let Some(frame) = output.next().await.map_err(Failure::doing("read the run's stored output"))? {
        match frame {
            Frame::Output(bytes) => {
                let bytes = filter.pass(&bytes);
                modes.saw(&bytes);
                let written = stdout.write_all(&bytes).await;
                if !printer.has_written(written.and(stdout.flush().await)) {
                    return Ok(Replay::NotRead);
                }
            }
            Frame::Message(bytes) => drop(io::stderr().write_all(&error_filter.pass(&bytes))),
            Frame::Exit(code) => return Ok(Replay::Complete(Some(code))),
            Frame::Typed(_) | Frame::Size(_) | Frame::Taken | Frame::Stop | Frame::Offset(_) => {}
        }
    }
    Ok(Replay::Complete(None))
}

/// The client side of a run, until it ends or detaches. `stop` decides whether a signal ends the
/// run.
async fn attached(
    Connection { report, stream }: Connection,
    mut keys: DetachKeys,
    interrupts: &mut Interrupts,
    stop: impl AsyncFn(Interrupt) -> Option<End>,
    printer: Printer,
) -> Result<End, Failure> {
    let has_terminal = report.screen.is_some_and(|screen| screen.terminal);
    let types = has_terminal && io::stdin().is_terminal() && io::stdout().is_terminal();
    let waiting = |kind| signal(kind).map_err(Failure::doing("listen for signals"));
    let mut resized = waiting(SignalKind::window_change())?;
    let mut continued = waiting(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))?;
    let (mut keyboard, mut shown, mut write) = streams(stream, types);
    let mut raw = types.then(RawMode::enter).transpose().map_err(Failure::doing("set up the terminal"))?;
    // A client that only watches has a terminal too.
    let mut seen = (!types).then(terminal::Shown::default);
    if types {
        send(&mut write, &Frame::Size(terminal::size())).await;
    }
    let (mut filter, mut error_filter) = printer.filters(true);
    let mut messages = Vec::new();
    let mut stdout = tokio::io::stdout();
    let (screen, written) = types.then(writer).unzip();
    let end = loop {
        tokio::select! {
            frame = shown.recv() => match frame {
                Some(Frame::Output(bytes)) => {
                    let bytes = filter.pass(&bytes);
                    if let Some(raw) = &mut raw {
                        raw.saw(&bytes);
                    }
                    if let Some(seen) = &mut seen {
                        seen.saw(&bytes);
                    }
                    let passed = match &screen {
                        Some(screen) => screen.send(bytes.into_owned()).await.is_ok(),
                        // In order with stderr.
                        None => stdout.write_all(&bytes).await.is_ok() && stdout.flush().await.is_ok(),
                    };
                    if !passed {
                        break End::Detached;
                    }
                }
                Some(Frame::Message(bytes)) if types => {
                    let room = MESSAGES.saturating_sub(messages.len());
                    messages.extend_from_slice(bytes.get(..room.min(bytes.len())).unwrap_or_default());
                }
                Some(Frame::Message(bytes)) => drop(io::stderr().write_all(&error_filter.pass(&bytes))),
                Some(Frame::Exit(code)) => break End::Exited(code),
                Some(Frame::Typed(_) | Frame::Size(_) | Frame::Taken | Frame::Stop | Frame::Offset(_)) => {}
                None => break End::Lost,
            },
            bytes = keyboard.recv(), if types => match bytes {
                Some(bytes) => {
                    let (passed, detached) = keys.pass(&bytes);
                    if !passed.is_empty() {
                        send(&mut write, &Frame::Typed(passed)).await;
                    }
                    if detached {
                        break End::Detached;
                    }
                }
                None => break End::Detached,
            },
            _ = resized.recv(), if types => send(&mut write, &Frame::Size(terminal::size())).await,
            _ = continued.recv(), if types => {
                // A shell that stopped us has changed the terminal's mode.
                let _ = raw.as_ref().map(RawMode::resume).transpose();
                send(&mut write, &Frame::Size(terminal::size())).await;
            }
            interrupt = interrupts.next() => if let Some(end) = stop(interrupt).await { break end },
        }
    };
    drop(screen);
    if let Some(written) = written {
        let _ = written.await;
    }
    drop(seen);
    if raw.take().is_some() {
        let _ = io::stderr().write_all(b"\r");
    }
    let _ = io::stderr().write_all(&error_filter.pass(&messages));
    Ok(end)
}

/// A thread that writes what it is sent to a terminal, which takes fewer turns than tokio's stdout;
/// and its end.
fn writer() -> (mpsc::Sender<Vec<u8>>, oneshot::Receiver<()>) {
    let (sender, mut pieces) = mpsc::channel::<Vec<u8>>(WAITING);
    let (ended, end) = oneshot::channel();
    std::thread::spawn(move || {
        let mut stdout = io::stdout().lock();
        while let Some(piece) = pieces.blocking_recv() {
            if stdout.write_all(&piece).and_then(|()| stdout.flush()).is_err() {
                break;
            }
        }
        drop(stdout);
        let _ = ended.send(());
    });
    (sender, end)
}

/// The keyboard input, the frames from the run, and the connection to it.
pub(super) fn streams(
    stream: tokio::io::BufReader<tokio::net::UnixStream>,
    types: bool,
) -> (mpsc::Receiver<Vec<u8>>, mpsc::Receiver<Frame>, OwnedWriteHalf) {
    // The buffer may hold frames that arrived with the answer.
    let buffered = stream.buffer().to_vec();
    let (read, write) = stream.into_inner().into_split();
    let (send_frame, shown) = mpsc::channel(WAITING);
    tokio::spawn(async move {
        let mut read = tokio::io::AsyncReadExt::chain(buffered.as_slice(), tokio::io::BufReader::new(read));
        while let Ok(Some(frame)) = Frame::read(&mut read).await {
            if send_frame.send(frame).await.is_err() {
                break;
            }
        }
    });
    let (send_keys, keyboard) = mpsc::channel(WAITING);
    if types {
        // A read of stdin cannot be cancelled.
        std::thread::spawn(move || {
            let mut bytes = vec![0; KEYS];
            while let Ok(count @ 1..) = io::stdin().lock().read(&mut bytes) {
                if send_keys.blocking_send(bytes.get(..count).unwrap_or_default().to_vec()).is_err() {
                    break;
                }
            }
        });
    }
    (keyboard, shown, write)
}

/// A run that just ended no longer reads; its last frames report the end.
pub(super) async fn send(write: &mut OwnedWriteHalf, frame: &Frame) {
    let _ = write.write_all(&frame.bytes()).await;
}

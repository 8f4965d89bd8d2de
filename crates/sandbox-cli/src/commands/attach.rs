//! `attach`, and what `run -t`, `run -d` and `shell` do with the process that owns their run.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::OwnedWriteHalf;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::args::{AttachArgs, BackgroundArgs};
use crate::config::Places;
use crate::control::{Connection, Runs};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::interrupt::{Interrupt, Interrupts};
use crate::owner::{self, Frame, Starting};
use crate::printer::Printer;
use crate::run_folder::{self, OUTPUT};
use crate::terminal::{self, DetachKeys, RawMode, Shown};

/// Frames and keys that wait for each other's side.
const WAITING: usize = 4;
/// Keys that are read at once.
const KEYS: usize = 4096;
/// Of what the sandbox says while a program has the terminal, this much is shown afterwards.
const MESSAGES: usize = 64 * 1024;

/// How being attached ended.
#[derive(Debug)]
enum End {
    Exited(u8),
    /// The keys were typed, or the terminal is gone.
    Detached,
    /// The owner is gone without a word.
    Lost,
    Interrupted(Interrupt),
}

/// Attaches to a run, or shows what is kept of one that has ended.
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
        // More than one is meant by what is a wrong usage.
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

/// Starts a process that owns the run of this command line, and attaches to it unless it is to go
/// on in the background.
pub(crate) async fn in_front(
    args: BackgroundArgs,
    asks: bool,
    state: &Path,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let has_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    if !(args.detach || has_terminal) {
        return Err(Failure::usage("there is no terminal: stdin and stdout have to be one").with_hint(
            "`sandbox run` without -t needs none; with -d, `sandbox attach` shows the run on a terminal",
        ));
    }
    if asks {
        printer.hint("`sandbox watch` shows what --ask asks; what is not answered within 60 s is refused");
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
            started = &mut started => break started.map_err(|_| Failure::new("waiting for the owner failed"))?,
            // It has not ended: no one has waited for that.
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
            printer.message(format_args!("run {run} goes on: `sandbox attach {run}`"));
            ExitStatus::Success
        }
        End::Interrupted(interrupt) => {
            printer.message(format_args!("run {run} goes on: `sandbox attach {run}`"));
            ExitStatus::Interrupted(*interrupt)
        }
        End::Lost => {
            printer.warning(format_args!("the process that owned run {run} is gone; its network is cut off"));
            printer.hint("the next run removes what it left, and so does `sandbox clean`");
            ExitStatus::Infrastructure
        }
    }
}

/// Shows what is kept of a run that has ended.
async fn ended(logs: &Path, named: &str, printer: Printer) -> Result<Option<ExitStatus>, Failure> {
    let Ok(folder) = run_folder::find_in_all(logs, named) else { return Ok(None) };
    let Ok(kept) = owner::read_kept(&folder.join(OUTPUT)) else { return Ok(None) };
    let mut kept = kept.as_slice();
    let mut code = None;
    // It may have been killed, or be cut off in the midst of what it drew.
    let mut shown = Shown::default();
    let (mut filter, mut error_filter) = printer.filters(true);
    while let Some(frame) = Frame::read(&mut kept).await.map_err(Failure::doing("read what is kept of it"))? {
        match frame {
            Frame::Output(bytes) => {
                let bytes = filter.pass(&bytes);
                shown.saw(&bytes);
                printer.data(&bytes);
            }
            Frame::Message(bytes) => drop(io::stderr().write_all(&error_filter.pass(&bytes))),
            Frame::Exit(ended) => code = Some(ended),
            Frame::Typed(_) | Frame::Size(_) | Frame::Taken | Frame::Stop => {}
        }
    }
    Ok(code.map(ExitStatus::Command))
}

/// Is our side of a run until one of the two has enough. `stop` says what a signal means: an end,
/// or none.
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
    let mut raw = types.then(RawMode::enter).transpose().map_err(Failure::doing("set the terminal up"))?;
    // One who does not type has a terminal too.
    let mut seen = (!types).then(Shown::default);
    if types {
        send(&mut write, &Frame::Size(terminal::size())).await;
    }
    let (mut filter, mut error_filter) = printer.filters(true);
    let mut messages = Vec::new();
    let mut stdout = tokio::io::stdout();
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
                    if stdout.write_all(&bytes).await.is_err() || stdout.flush().await.is_err() {
                        break End::Detached;
                    }
                }
                Some(Frame::Message(bytes)) if types => {
                    let room = MESSAGES.saturating_sub(messages.len());
                    messages.extend_from_slice(bytes.get(..room.min(bytes.len())).unwrap_or_default());
                }
                Some(Frame::Message(bytes)) => drop(io::stderr().write_all(&error_filter.pass(&bytes))),
                Some(Frame::Exit(code)) => break End::Exited(code),
                Some(Frame::Typed(_) | Frame::Size(_) | Frame::Taken | Frame::Stop) => {}
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
                // A shell that stopped us took the terminal back.
                let _ = raw.as_ref().map(RawMode::resume).transpose();
                send(&mut write, &Frame::Size(terminal::size())).await;
            }
            interrupt = interrupts.next() => if let Some(end) = stop(interrupt).await { break end },
        }
    };
    drop(seen);
    if raw.take().is_some() {
        let _ = io::stderr().write_all(b"\r");
    }
    let _ = io::stderr().write_all(&error_filter.pass(&messages));
    Ok(end)
}

/// What is typed here, what comes from the run, and the way to it.
pub(super) fn streams(
    stream: tokio::io::BufReader<tokio::net::UnixStream>,
    types: bool,
) -> (mpsc::Receiver<Vec<u8>>, mpsc::Receiver<Frame>, OwnedWriteHalf) {
    // What is buffered would be frames that came with the answer.
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
        tokio::spawn(async move {
            let mut stdin = tokio::io::stdin();
            let mut bytes = vec![0; KEYS];
            while let Ok(count @ 1..) = stdin.read(&mut bytes).await {
                if send_keys.send(bytes.get(..count).unwrap_or_default().to_vec()).await.is_err() {
                    break;
                }
            }
        });
    }
    (keyboard, shown, write)
}

/// A run that has just ended reads nothing any more; its last frames say so.
pub(super) async fn send(write: &mut OwnedWriteHalf, frame: &Frame) {
    let _ = write.write_all(&frame.bytes()).await;
}

//! `exec --run`: a command next to the program of a run.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;

use tokio::io::AsyncWriteExt as _;
use tokio::signal::unix::{SignalKind, signal};

use super::attach::{send, streams};
use super::run::terminal_kind;
use crate::control::{Connection, ExecTerminal, Runs};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::owner::Frame;
use crate::printer::Printer;
use crate::terminal::{self, RawMode};

/// The command to run, and its run.
#[derive(Debug)]
pub(crate) struct InRun {
    /// The run, by its id or a prefix of it.
    pub(crate) run: String,
    pub(crate) command: Vec<String>,
    pub(crate) has_terminal: bool,
}

/// Runs a command in an active run; `kind` is the value of `TERM`.
pub(crate) async fn exec(
    InRun { run, command, has_terminal }: InRun,
    kind: &str,
    state: &Path,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    if has_terminal && !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
        return Err(Failure::usage("stdin and stdout must be a terminal").with_hint("omit -t"));
    }
    let runs = Runs::find(state, printer).await?;
    let run = runs.one(Some(&run))?;
    let terminal = has_terminal.then(|| {
        let size = terminal::size();
        ExecTerminal { kind: terminal_kind(kind).to_owned(), columns: size.columns, rows: size.rows }
    });
    // From here on, signals are passed to the command.
    let mut interrupts = Interrupts::listen().map_err(Failure::doing("listen for signals"))?;
    let connection = runs.exec(run, command, terminal).await?;
    let raw = has_terminal.then(RawMode::enter).transpose();
    let raw = raw.map_err(Failure::doing("set up the terminal"))?;
    let id = run.run.clone();
    if let Some(status) = passed(connection, raw, &mut interrupts, printer).await? {
        return Ok(status);
    }
    printer.warning(format_args!("the process that owned run {id} died; the run's network is cut off"));
    Ok(ExitStatus::Infrastructure)
}

/// Passes the streams on until the command ends. `None` if the run ended without an exit code.
async fn passed(
    Connection { stream, .. }: Connection,
    mut raw: Option<RawMode>,
    interrupts: &mut Interrupts,
    printer: Printer,
) -> Result<Option<ExitStatus>, Failure> {
    let waiting = |kind| signal(kind).map_err(Failure::doing("listen for signals"));
    let mut resized = waiting(SignalKind::window_change())?;
    let mut continued = waiting(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))?;
    let (mut typed, mut shown, mut write) = streams(stream, true);
    let (mut filter, mut error_filter) = printer.filters(raw.is_some());
    let mut stdout = tokio::io::stdout();
    // The signal that asked it to end.
    let mut why = None;
    // Whether the next piece of stdin may be sent, and whether there is one.
    let (mut is_open, mut is_typed) = (true, true);
    loop {
        tokio::select! {
            frame = shown.recv() => match frame {
                Some(Frame::Output(bytes)) => {
                    let bytes = filter.pass(&bytes);
                    if let Some(raw) = &mut raw {
                        raw.saw(&bytes);
                    }
                    let written = async {
                        stdout.write_all(&bytes).await?;
                        stdout.flush().await
                    };
                    if let Err(error) = written.await {
                        // The printer turns lost output into an exit code.
                        printer.has_written(Err(error));
                        send(&mut write, &Frame::Stop).await;
                        return Ok(Some(ExitStatus::OutputClosed));
                    }
                }
                Some(Frame::Message(bytes)) => drop(io::stderr().write_all(&error_filter.pass(&bytes))),
                Some(Frame::Exit(code)) => return Ok(Some(why.unwrap_or(ExitStatus::Command(code)))),
                Some(Frame::Taken) => is_open = true,
                Some(Frame::Typed(_) | Frame::Size(_) | Frame::Stop | Frame::Offset(_)) => {}
                None => return Ok(None),
            },
            bytes = typed.recv(), if is_open && is_typed => {
                (is_open, is_typed) = (false, bytes.is_some());
                // An empty frame is the end of stdin.
                send(&mut write, &Frame::Typed(bytes.unwrap_or_default())).await;
            },
            _ = resized.recv(), if raw.is_some() => send(&mut write, &Frame::Size(terminal::size())).await,
            _ = continued.recv(), if raw.is_some() => {
                // A shell that stopped us has changed the terminal's mode.
                let _ = raw.as_ref().map(RawMode::resume).transpose();
            }
            interrupt = interrupts.next() => {
                let again = why.replace(ExitStatus::Interrupted(interrupt));
                send(&mut write, &Frame::Stop).await;
                if again.is_some() {
                    return Ok(why);
                }
            }
        }
    }
}

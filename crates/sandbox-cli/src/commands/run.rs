//! `run`: any command, its three streams passed through byte for byte.

use std::io::{self, IsTerminal as _};

use futures_util::StreamExt as _;
use futures_util::future::OptionFuture;
use sandbox::{CommandResult, CommandSpec, Execution, Input, OutputChunk, SandboxError, TerminalSize};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Notify;

use crate::args::BackgroundArgs;
use crate::config::WorkspaceMode;
use crate::control::Controlled;
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::git_report::report_imported;
use crate::network_log::report_blocked;
use crate::owner::{Frame, Owner};
use crate::printer::Printer;
use crate::questions::{Asking, Board};
use crate::run_context::{Executed, RunContext};
use crate::settings::TaskSettings;
use crate::tamper_report;
use crate::terminal::{self, Filter};

/// The default work tree mode of a command: with a copy, servers and watchers would not see edits
/// on the host, and a second command would have to wait.
pub(crate) const WORKSPACE: WorkspaceMode = WorkspaceMode::Direct;
/// After so many pieces of output, other events get their turn.
const TURN: u64 = 32;

/// The streams of a command; by default those of this process.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    /// A terminal of this size and kind.
    terminal: Option<(TerminalSize, String)>,
    /// Whether the process that started this one attaches.
    watched: bool,
    /// Whether the command gets no input.
    without_input: bool,
}

impl Streams {
    /// The streams of a run that this process owns; `kind` is the value of `TERM`.
    pub(crate) fn of(args: &BackgroundArgs, kind: &str) -> Self {
        let terminal = args.terminal.then(|| (terminal::size(), terminal_kind(kind).to_owned()));
        Self { terminal, watched: !args.detach, without_input: false }
    }

    /// Those of this process, but no input.
    pub(crate) fn without_input() -> Self {
        Self { without_input: true, ..Self::default() }
    }
}

/// Validates the kind of a terminal for a program in a container: it becomes a variable, and from
/// there part of file names.
pub(crate) fn terminal_kind(kind: &str) -> &str {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-+._".contains(c);
    Some(kind).filter(|kind| !kind.is_empty() && kind.chars().all(is_name)).unwrap_or("xterm")
}

/// Runs `command` and passes its exit code on.
pub(crate) async fn run(
    settings: TaskSettings,
    command: Vec<String>,
    streams: Streams,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let mut context = match RunContext::open(&settings, printer).await? {
        Ok(context) => context,
        Err(status) => return Ok(status),
    };
    let executed = execute(&mut context, command, streams).await;
    let finished = context.close(executed).await?;
    report_blocked(&finished.folder, printer);
    Ok(finished.status)
}

/// Runs `command`; the value is its result, if it ended.
pub(super) async fn execute(
    context: &mut RunContext<'_>,
    command: Vec<String>,
    streams: Streams,
) -> Result<Executed<Option<CommandResult>>, Failure> {
    let (settings, printer) = (context.settings, context.printer);
    let program = command.first().cloned().unwrap_or_default();
    context.record(&command).write(context.folder())?;
    let mut env = settings.env.clone();
    if let Some((_, kind)) = &streams.terminal
        && !env.variables().contains_key("TERM")
    {
        env = env.with("TERM", kind);
    }
    let mut spec = CommandSpec::new(&settings.key, context.image.clone(), command)
        .env(env)
        .network(settings.network.clone())
        .limits(settings.limits)
        .isolation(settings.isolation.clone())
        .working_dir(&settings.working_dir)
        .network_log_dir(context.folder());
    for mount in &settings.mounts {
        spec = spec.mount(mount.clone());
    }
    spec = spec.git_identity(settings.git_identity.clone());
    if let Some(renewal) = &settings.renewal {
        spec = spec.on_network_event(renewal.observer());
    }
    if let Some(ssh) = &settings.ssh {
        spec = spec.ssh_signer(ssh.signer().await?);
    }
    if let Some((size, _)) = streams.terminal {
        spec = spec.terminal(size);
    }
    if let Some(owner) = Owner::of_this_process() {
        let taken = owner.take_input(streams.terminal.is_some(), streams.watched).await;
        taken.map_err(Failure::doing("create the streams of the run"))?;
    }
    let command = context.sandbox.create_command(spec)?;
    let closed = Notify::new();
    // The board of the questions.
    let board = settings.questions.as_ref().filter(|_| Owner::of_this_process().is_none());
    let _asking = board.map(|board| Asking::begin(board, printer));
    let input = if streams.without_input || board.is_some() && io::stdin().is_terminal() {
        // Input on the terminal is answers.
        Input::Empty
    } else {
        input()?
    };
    let execution = command.execute(input);
    let mut failure = None;
    let passed = pass(execution, board, &closed, &mut failure, printer);
    let (mut result, why) = context.watch(passed, Controlled::Command(command), &program, &closed).await;
    let is_over = matches!(result, Some(Ok(_)));
    let status = ended(&mut result, why, failure, settings, printer)?;
    Ok(Executed { status, is_over, value: result.and_then(Result::ok) })
}

/// The input of attached clients, otherwise stdin.
pub(super) fn input() -> Result<Input, Failure> {
    let typed = Owner::of_this_process().map(Owner::input).transpose();
    Ok(match typed.map_err(Failure::doing("open the input of attached clients"))?.flatten() {
        Some(typed) => Input::Reader(Box::new(typed)),
        None => Input::Reader(Box::new(tokio::io::stdin())),
    })
}

/// Writes output to our streams as it arrives. When writing to stdout fails, `closed` is notified,
/// and `failure` has the error unless the reader is gone.
pub(super) async fn pass(
    mut execution: Execution<OutputChunk, CommandResult>,
    board: Option<&Board>,
    closed: &Notify,
    failure: &mut Option<io::Error>,
    printer: Printer,
) -> Result<CommandResult, SandboxError> {
    let (out, err) = printer.filters(false);
    let mut stdout = Outlet::new(tokio::io::stdout(), out);
    let mut stderr = Outlet::new(tokio::io::stderr(), err);
    let mut chunks = 0_u64;
    while let Some(chunk) = execution.next().await {
        if let Some(owner) = Owner::of_this_process()
            && owner.takes_output().await
        {
            // Without the way through our own streams.
            match &chunk {
                OutputChunk::Stdout(bytes) => owner.screen.write(bytes, Frame::Output).await,
                OutputChunk::Stderr(bytes) => owner.screen.write(bytes, Frame::Message).await,
            }
            chunks += 1;
            if chunks.is_multiple_of(TURN) {
                // Signals are noticed in a flood of output too.
                tokio::task::yield_now().await;
            }
            continue;
        }
        // The task must not overwrite a question.
        let _screen = OptionFuture::from(board.map(Board::screen)).await;
        match chunk {
            OutputChunk::Stdout(bytes) => {
                if !stdout.write(&bytes).await {
                    *failure = stdout.failure.take().or(failure.take());
                    closed.notify_one();
                }
            }
            OutputChunk::Stderr(bytes) => {
                stderr.write(&bytes).await;
            }
        }
    }
    execution.await
}

/// The exit status for the end of the command. Takes an error out of `result`.
pub(super) fn ended(
    result: &mut Option<Result<CommandResult, SandboxError>>,
    why: Option<ExitStatus>,
    output: Option<io::Error>,
    settings: &TaskSettings,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    if let Some(Ok(result)) = result {
        tamper_report::report(&result.tampered, &settings.root, printer);
        report_imported(&result.git, &settings.root, printer);
    }
    if let Some(error) = output {
        return Err(Failure::doing("write the command's output to stdout")(error));
    }
    if let Some(why) = why {
        // The reason for the stop takes precedence over the command's own exit code.
        return Ok(why);
    }
    if let Some(Err(error)) = result.take_if(|result| result.is_err()) {
        return Err(error.into());
    }
    let Some(Ok(result)) = result else { return Ok(ExitStatus::Infrastructure) };
    if result.timed_out {
        let limit = settings.limits.timeout.unwrap_or_default().as_secs();
        printer.warning(format_args!("the command was stopped after its time limit of {limit} s"));
        return Ok(ExitStatus::Timeout);
    }
    if result.oom_killed {
        printer.warning("a process of the command was killed for want of memory");
        let file = if settings.is_bundle {
            "the project of the bundle, or in your own sandbox.yaml"
        } else {
            ".sandbox/sandbox.yaml"
        };
        printer.hint(format_args!("raise `resource_limits.memory` in {file}"));
    }
    match tamper_report::not_written(&result.tampered, &settings.root) {
        Some(failure) if result.exit_code == 0 => Err(failure),
        Some(failure) => {
            printer.failure(&failure);
            Ok(ExitStatus::of_command(result.exit_code))
        }
        // The reason was already reported.
        None if result.exit_code == 0 && !result.git.failed.is_empty() => Ok(ExitStatus::Infrastructure),
        None => Ok(ExitStatus::of_command(result.exit_code)),
    }
}

/// One of our streams, until writing to it fails.
struct Outlet<W> {
    writer: Option<W>,
    filter: Filter,
    /// The write error, unless the reader is gone.
    failure: Option<io::Error>,
}

impl<W: AsyncWrite + Unpin> Outlet<W> {
    fn new(writer: W, filter: Filter) -> Self {
        Self { writer: Some(writer), filter, failure: None }
    }

    /// Writes all bytes. Returns `false` if this or an earlier write failed.
    async fn write(&mut self, bytes: &[u8]) -> bool {
        let Some(writer) = &mut self.writer else {
            return false;
        };
        let written = async {
            writer.write_all(&self.filter.pass(bytes)).await?;
            writer.flush().await
        };
        match written.await {
            Ok(()) => true,
            Err(error) => {
                self.writer = None;
                self.failure = Some(error).filter(|error| error.kind() != io::ErrorKind::BrokenPipe);
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bytes_pass_through_and_closed_reader_is_not_an_error() {
        let (ours, theirs) = tokio::io::duplex(64);
        let mut outlet = Outlet::new(ours, Filter::new(false, false));
        assert!(outlet.write(b"\x00\xff").await);
        drop(theirs);
        assert!(!outlet.write(b"x").await);
        assert!(outlet.failure.is_none());
        assert!(!outlet.write(b"y").await);
    }

    #[tokio::test]
    async fn full_disk_is_an_error() {
        let full = tokio::fs::OpenOptions::new().write(true).open("/dev/full").await.unwrap();
        let mut outlet = Outlet::new(full, Filter::new(false, false));
        assert!(!outlet.write(b"x").await);
        assert!(outlet.failure.is_some());
    }
}

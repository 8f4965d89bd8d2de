//! The run's side.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use allowlist::{Allowlist, RuleChange};
use futures_util::FutureExt as _;
use rustix::process::geteuid;
use sandbox::credentials::SecretReplacements;
use sandbox::launcher::{ExecSpec, LaunchedProgram};
use sandbox::network::ShieldState;
use sandbox::network_event::PolicyState;
use sandbox::{Command, SandboxError, Task, TerminalSize};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::activity::{Activity, Seen};
use super::exec;
use super::folder::ControlFolder;
use super::message::{Answer, ExecTerminal, LINE_BYTES, Question, Report, Request, ScreenReport};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::owner::{Frame, Owner, Screen, Viewer};
use crate::printer::Printer;
use crate::questions::Board;

/// The number of connections served concurrently; more wait.
const CONNECTIONS: usize = 16;
/// The number of concurrent commands of clients, next to the run's own program.
const COMMANDS: usize = 32;
/// The timeout for a client to send its request and to read the answer.
const CLIENT: Duration = Duration::from_secs(10);
/// The maximum time for the last answers to clients after the run's end.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// Who answers questions, in the network log.
const BY: &str = "control socket";

/// The execution that is controlled.
#[derive(Debug, Clone)]
pub(crate) enum Controlled {
    Task(Task),
    Command(Command),
}

impl Controlled {
    fn policy(&self) -> Result<Allowlist, SandboxError> {
        match self {
            Self::Task(task) => task.policy(),
            Self::Command(command) => command.policy(),
        }
    }

    async fn set_policy(&self, policy: Allowlist) -> Result<(), SandboxError> {
        match self {
            Self::Task(task) => task.set_policy(policy).await,
            Self::Command(command) => command.set_policy(policy).await,
        }
    }

    async fn change_rule(&self, change: &RuleChange) -> Result<(), SandboxError> {
        match self {
            Self::Task(task) => task.change_rule(change).await,
            Self::Command(command) => command.change_rule(change).await,
        }
    }

    /// Changes the real values that replace surrogates.
    pub(crate) async fn set_replacements(
        &self,
        replacements: SecretReplacements,
    ) -> Result<(), SandboxError> {
        match self {
            Self::Task(task) => task.set_replacements(replacements).await,
            Self::Command(command) => command.set_replacements(replacements).await,
        }
    }

    async fn shield_down(&self, time: Duration) -> Result<(), SandboxError> {
        match self {
            Self::Task(task) => task.shield_down(time).await,
            Self::Command(command) => command.shield_down(time).await,
        }
    }

    async fn shield_up(&self) -> Result<(), SandboxError> {
        match self {
            Self::Task(task) => task.shield_up().await,
            Self::Command(command) => command.shield_up().await,
        }
    }

    async fn quarantine(&self) -> Result<(), SandboxError> {
        match self {
            Self::Task(task) => task.quarantine().await,
            Self::Command(command) => command.quarantine().await,
        }
    }

    fn shield_state(&self) -> Result<ShieldState, SandboxError> {
        match self {
            Self::Task(task) => task.shield_state(),
            Self::Command(command) => command.shield_state(),
        }
    }

    /// Returns when its program has been started.
    pub(crate) async fn started(&self) {
        match self {
            Self::Task(task) => task.started().await,
            Self::Command(command) => command.started().await,
        }
    }

    /// Resizes its terminal.
    pub(crate) async fn resize(&self, size: TerminalSize) -> Result<(), SandboxError> {
        match self {
            Self::Task(task) => task.resize(size).await,
            Self::Command(command) => command.resize(size).await,
        }
    }

    /// Starts another program next to its own.
    async fn exec(&self, spec: &ExecSpec) -> Result<LaunchedProgram, SandboxError> {
        match self {
            Self::Task(task) => task.exec(spec).await,
            Self::Command(command) => command.exec(spec).await,
        }
    }

    /// Stops it.
    pub(crate) async fn stop(&self) -> bool {
        match self {
            Self::Task(task) => task.stop().await,
            Self::Command(command) => command.stop().await,
        }
    }
}

/// The socket of a run. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct ControlSocket {
    folder: ControlFolder,
    served: Arc<Served>,
    end: watch::Sender<bool>,
    serving: tokio::task::JoinHandle<()>,
}

/// The state that connections share.
#[derive(Debug)]
struct Served {
    controlled: Controlled,
    /// The initial report.
    report: Report,
    /// The pending questions.
    questions: Option<Board>,
    activity: Activity,
    /// A permit for each command that may still be started.
    commands: Semaphore,
    /// Whether a client stopped the run.
    stopped: AtomicBool,
    printer: Printer,
}

impl ControlSocket {
    /// Opens the socket of the run that `report` describes, in the state folder `state`.
    pub(crate) fn open(
        state: &Path,
        controlled: Controlled,
        report: Report,
        questions: Option<Board>,
        activity: Activity,
        printer: Printer,
    ) -> Result<Self, Failure> {
        let opened = || {
            let folder = ControlFolder::create(state)?;
            let listener = folder.listen(&report.run)?;
            listener.set_nonblocking(true)?;
            Ok((folder, UnixListener::from_std(listener)?))
        };
        let (folder, listener) =
            opened().map_err(Failure::doing::<io::Error>("open the control socket of this run"))?;
        let served = Arc::new(Served {
            controlled,
            report,
            questions,
            activity,
            commands: Semaphore::new(COMMANDS),
            stopped: AtomicBool::new(false),
            printer,
        });
        let (end, ended) = watch::channel(false);
        let serving = tokio::spawn(serve(listener, Arc::clone(&served), ended));
        Ok(Self { folder, served, end, serving })
    }

    /// Removes a socket, after the last clients have their answers. Returns the exit status if one
    /// of them stopped the run.
    pub(crate) async fn end(socket: Option<Self>) -> Option<ExitStatus> {
        let mut socket = socket?;
        if let (Some(owner), Some(())) =
            (Owner::of_this_process(), socket.served.controlled.started().now_or_never())
        {
            // The program may have ended before the process that started us attached.
            owner.is_ready(&socket.served.report.run);
            let _ = timeout(CLIENT, owner.screen.was_viewed()).await;
        }
        socket.folder.remove(&socket.served.report.run);
        socket.end.send_replace(true);
        let _ = timeout(LAST_ANSWERS, &mut socket.serving).await;
        let stopped = socket.served.stopped.load(Ordering::Relaxed);
        stopped.then_some(ExitStatus::Interrupted(Interrupt::Terminate))
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        self.folder.remove(&self.served.report.run);
        self.serving.abort();
    }
}

async fn serve(listener: UnixListener, served: Arc<Served>, mut ended: watch::Receiver<bool>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    let next = async || {
        let place = Arc::clone(&places).acquire_owned().await.map_err(io::Error::other)?;
        let (stream, _) = listener.accept().await?;
        io::Result::Ok((place, stream))
    };
    loop {
        let accepted = tokio::select! {
            accepted = next() => accepted,
            _ = ended.wait_for(|ended| *ended) => break,
        };
        while connections.try_join_next().is_some() {}
        match accepted {
            Ok((place, stream)) => {
                let (served, ended) = (Arc::clone(&served), ended.clone());
                connections.spawn(async move {
                    // A client that went away needs no answer.
                    let _ = answer(stream, &served, ended, place).await;
                });
            }
            Err(error) => {
                served.printer.warning(format_args!(
                    "the control socket of this run accepts no more connections: {error}"
                ));
                break;
            }
        }
    }
    while connections.join_next().await.is_some() {}
}

/// Whether the user `peer` may control runs of the user `own`.
fn admits(peer: u32, own: u32) -> bool {
    peer == own || peer == 0
}

/// `place` is held until the client has its answer.
async fn answer(
    stream: UnixStream,
    served: &Served,
    mut ended: watch::Receiver<bool>,
    place: OwnedSemaphorePermit,
) -> io::Result<()> {
    let peer = stream.peer_cred()?.uid();
    if !admits(peer, geteuid().as_raw()) {
        served.printer.warning(format_args!("user {peer} was refused at the control socket of this run"));
        return Ok(());
    }
    let mut line = Vec::new();
    let (read, mut write) = stream.into_split();
    let mut reader = BufReader::new(read).take(LINE_BYTES);
    tokio::select! {
        read = timeout(CLIENT, reader.read_until(b'\n', &mut line)) => drop(read??),
        // The end of the run does not wait for clients without a request.
        _ = ended.wait_for(|ended| *ended) => return Ok(()),
    }
    let mut viewer = None;
    let mut executed = None;
    let answer = match serde_json::from_slice(&line) {
        // A line without an end was cut off and is ignored.
        Ok(Request::Attach {}) if line.ends_with(b"\n") => {
            let screen = Owner::of_this_process().map(|owner| &owner.screen);
            viewer = screen.and_then(Screen::view);
            match (screen, &viewer) {
                (_, Some(_)) => Answer::Done(Box::new(served.report())),
                (Some(_), None) => Answer::Failed("too many clients are attached to it".to_owned()),
                (None, None) => Answer::Failed(
                    "it uses the terminal or the streams of the command that started it".to_owned(),
                ),
            }
        }
        Ok(Request::Exec { program, terminal }) if line.ends_with(b"\n") => {
            match served.exec(program, terminal).await {
                Ok(program) => {
                    executed = Some(program);
                    Answer::Done(Box::new(served.report()))
                }
                Err(problem) => Answer::Failed(problem),
            }
        }
        Ok(request) if line.ends_with(b"\n") => served.answer(request).await,
        _ => Answer::Failed("this run does not understand the request; is it of another version?".to_owned()),
    };
    let mut line = serde_json::to_vec(&answer)?;
    line.push(b'\n');
    let answered = timeout(CLIENT, write.write_all(&line)).await.map_err(io::Error::from).flatten();
    drop(place);
    if let Some((program, _command)) = executed {
        return exec::serve(program, reader.into_inner(), write).await;
    }
    answered?;
    if let Some(viewer) = viewer {
        // It outlives the socket: it lasts until the run has ended completely.
        tokio::spawn(attached(viewer, reader.into_inner(), write));
    }
    Ok(())
}

/// Sends the run's output to a viewer, and typed input to the run.
async fn attached(
    mut viewer: Viewer,
    mut reader: BufReader<OwnedReadHalf>,
    mut write: OwnedWriteHalf,
) -> io::Result<()> {
    let mut keys = viewer.keys();
    let typed = async {
        while let Some(frame) = Frame::read(&mut reader).await? {
            keys.take(frame).await?;
        }
        io::Result::Ok(())
    };
    let shown = async {
        while let Some(frame) = viewer.next().await {
            write.write_all(&frame.bytes()).await?;
        }
        io::Result::Ok(())
    };
    tokio::select! {
        ended = typed => ended,
        ended = shown => ended,
    }
}

impl Served {
    async fn answer(&self, request: Request) -> Answer {
        let done = match request {
            // The last two are answered before their frames.
            Request::Show {} | Request::Attach {} | Request::Exec { .. } => Ok(()),
            Request::SetPolicy { policy } => self.controlled.set_policy(policy).await,
            Request::ChangeRule { change } => self.controlled.change_rule(&change).await,
            Request::Down { for_ms } => self.controlled.shield_down(Duration::from_millis(for_ms)).await,
            Request::Up {} => self.controlled.shield_up().await,
            Request::Quarantine {} => self.controlled.quarantine().await,
            Request::Decide { question, verdict } => {
                let decided = match &self.questions {
                    Some(questions) => questions.answer(question, verdict, BY),
                    None => Err(Failure::new("this run asks no questions: it was started without --ask")),
                };
                match decided {
                    Ok(()) => Ok(()),
                    Err(failure) => return Answer::Failed(failure.to_string()),
                }
            }
            Request::Stop {} => {
                if let Some(owner) = Owner::of_this_process() {
                    owner.screen.stop_waiting();
                }
                if self.controlled.stop().await {
                    self.stopped.store(true, Ordering::Relaxed);
                }
                Ok(())
            }
        };
        match done {
            Ok(()) => Answer::Done(Box::new(self.report())),
            Err(error) => Answer::Failed(error.to_string()),
        }
    }

    /// Starts a command next to the run's program, once that has started.
    async fn exec(
        &self,
        command: Vec<String>,
        terminal: Option<ExecTerminal>,
    ) -> Result<(LaunchedProgram, SemaphorePermit<'_>), String> {
        let place = self.commands.try_acquire();
        let place = place.map_err(|_| format!("{COMMANDS} commands already run in it"))?;
        let mut spec = ExecSpec::new(command);
        if let Some(ExecTerminal { kind, columns, rows }) = terminal {
            spec = spec.terminal(TerminalSize { columns, rows }).variable("TERM", kind);
        }
        let started = timeout(CLIENT, self.controlled.started()).await;
        started.map_err(|_| "its program has not been started yet".to_owned())?;
        match self.controlled.exec(&spec).await {
            Ok(program) => Ok((program, place)),
            Err(SandboxError::NotRunning) => Err("its program has ended".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn report(&self) -> Report {
        // Before the start and after the end, the initial policy.
        let policy = self.controlled.policy().ok().or_else(|| self.report.policy.clone());
        let questions = self.questions.as_ref().map(Board::questions).unwrap_or_default();
        let questions = questions.into_iter().map(Question::of).collect();
        let (shield, until_ms) = match self.controlled.shield_state() {
            Ok(ShieldState::Down { until }) => {
                let until = until.duration_since(UNIX_EPOCH).unwrap_or_default();
                (Some(PolicyState::Down), u64::try_from(until.as_millis()).ok())
            }
            Ok(ShieldState::Quarantined) => (Some(PolicyState::Quarantine), None),
            Ok(_) => (Some(PolicyState::Up), None),
            Err(_) => (None, None),
        };
        let screen = Owner::of_this_process().map(|owner| ScreenReport {
            terminal: owner.screen.has_terminal(),
            attached: owner.screen.is_watched(),
        });
        let Seen { tools, cost, .. } = self.activity.seen();
        let tools = tools.into();
        Report { shield, until_ms, policy, screen, questions, tools, cost, ..self.report.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_user_and_root_are_admitted() {
        for (peer, own, is_admitted) in
            [(1000, 1000, true), (0, 1000, true), (0, 0, true), (1001, 1000, false), (1000, 0, false)]
        {
            assert_eq!(admits(peer, own), is_admitted, "{peer} {own}");
        }
    }
}

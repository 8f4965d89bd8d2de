//! The side of the run.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use allowlist::Allowlist;
use rustix::process::geteuid;
use sandbox::credentials::SecretReplacements;
use sandbox::network::ShieldState;
use sandbox::network_event::PolicyState;
use sandbox::{Command, SandboxError, Task};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::folder::ControlFolder;
use super::message::{Answer, LINE_BYTES, Report, Request};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::printer::Printer;

/// Connections at once; more are closed.
const CONNECTIONS: usize = 16;
/// How long a client may take to say what it wants, and to read what came of it.
const CLIENT: Duration = Duration::from_secs(10);
/// How long those wait for their answers at most that asked for something when the run ended.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// What is controlled: an execution that runs.
#[derive(Debug, Clone)]
pub(crate) enum Controlled {
    Task(Task),
    Command(Command),
}

impl Controlled {
    async fn set_policy(&self, policy: Allowlist) -> Result<(), SandboxError> {
        match self {
            Self::Task(task) => task.set_policy(policy).await,
            Self::Command(command) => command.set_policy(policy).await,
        }
    }

    /// Puts other real values in the place of surrogates.
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

    async fn stop(&self) -> bool {
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

/// What connections work with.
#[derive(Debug)]
struct Served {
    controlled: Controlled,
    /// As it was when nothing was asked yet.
    report: Report,
    /// Held while a policy is set: what is shown is the one that came last.
    setting: tokio::sync::Mutex<()>,
    /// The policy. Locked for single operations only.
    policy: Mutex<Option<Allowlist>>,
    /// Whether someone asked the run to end.
    stopped: AtomicBool,
    printer: Printer,
}

impl ControlSocket {
    /// Opens the socket of the run that `report` describes, in the state folder `state`.
    pub(crate) fn open(
        state: &Path,
        controlled: Controlled,
        report: Report,
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
            setting: tokio::sync::Mutex::default(),
            policy: Mutex::new(report.policy.clone()),
            report,
            stopped: AtomicBool::new(false),
            printer,
        });
        let (end, ended) = watch::channel(false);
        let serving = tokio::spawn(serve(listener, Arc::clone(&served), ended));
        Ok(Self { folder, served, end, serving })
    }

    /// Removes a socket, once those have their answers that asked for something. Returns how the program ends where one of them stopped the
    /// run.
    pub(crate) async fn end(socket: Option<Self>) -> Option<ExitStatus> {
        let mut socket = socket?;
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
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = ended.wait_for(|ended| *ended) => break,
        };
        while connections.try_join_next().is_some() {}
        match (accepted, Arc::clone(&places).try_acquire_owned()) {
            (Ok((stream, _)), Ok(place)) => {
                let (served, ended) = (Arc::clone(&served), ended.clone());
                connections.spawn(async move {
                    // A client that went away needs no answer.
                    let _ = answer(stream, &served, ended).await;
                    drop(place);
                });
            }
            (Ok(_), Err(_)) => {}
            (Err(error), _) => {
                served.printer.warning(format_args!(
                    "the control socket of this run takes no connections any more: {error}"
                ));
                break;
            }
        }
    }
    while connections.join_next().await.is_some() {}
}

/// Whether the user `peer` may control what the user `own` runs.
fn admits(peer: u32, own: u32) -> bool {
    peer == own || peer == 0
}

async fn answer(mut stream: UnixStream, served: &Served, mut ended: watch::Receiver<bool>) -> io::Result<()> {
    let peer = stream.peer_cred()?.uid();
    if !admits(peer, geteuid().as_raw()) {
        served.printer.warning(format_args!("user {peer} was refused at the control socket of this run"));
        return Ok(());
    }
    let mut line = Vec::new();
    let (read, mut write) = stream.split();
    let mut reader = BufReader::new(read).take(LINE_BYTES);
    tokio::select! {
        read = timeout(CLIENT, reader.read_until(b'\n', &mut line)) => drop(read??),
        // The end of the run waits for no one who has not asked for anything.
        _ = ended.wait_for(|ended| *ended) => return Ok(()),
    }
    let answer = match serde_json::from_slice(&line) {
        // A line that was cut off is none.
        Ok(request) if line.ends_with(b"\n") => served.answer(request).await,
        _ => Answer::Failed(
            "this run does not understand what it was asked; is it of another version?".to_owned(),
        ),
    };
    let mut line = serde_json::to_vec(&answer)?;
    line.push(b'\n');
    timeout(CLIENT, write.write_all(&line)).await?
}

impl Served {
    async fn answer(&self, request: Request) -> Answer {
        let done = match request {
            Request::Show {} => Ok(()),
            Request::SetPolicy { policy } => self.set_policy(policy).await,
            Request::Down { for_ms } => self.controlled.shield_down(Duration::from_millis(for_ms)).await,
            Request::Up {} => self.controlled.shield_up().await,
            Request::Quarantine {} => self.controlled.quarantine().await,
            Request::Stop {} => {
                if self.controlled.stop().await {
                    self.stopped.store(true, Ordering::Relaxed);
                }
                Ok(())
            }
        };
        match done {
            Ok(()) => Answer::Done(self.report()),
            Err(error) => Answer::Failed(error.to_string()),
        }
    }

    async fn set_policy(&self, policy: Allowlist) -> Result<(), SandboxError> {
        let _one_at_a_time = self.setting.lock().await;
        self.controlled.set_policy(policy.clone()).await?;
        *self.policy.lock().unwrap_or_else(PoisonError::into_inner) = Some(policy);
        Ok(())
    }

    fn report(&self) -> Report {
        let policy = self.policy.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (shield, until_ms) = match self.controlled.shield_state() {
            Ok(ShieldState::Down { until }) => {
                let until = until.duration_since(UNIX_EPOCH).unwrap_or_default();
                (Some(PolicyState::Down), u64::try_from(until.as_millis()).ok())
            }
            Ok(ShieldState::Quarantined) => (Some(PolicyState::Quarantine), None),
            Ok(_) => (Some(PolicyState::Up), None),
            Err(_) => (None, None),
        };
        Report { shield, until_ms, policy, ..self.report.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_user_and_root_are_let_in() {
        for (peer, own, is_admitted) in
            [(1000, 1000, true), (0, 1000, true), (0, 0, true), (1001, 1000, false), (1000, 0, false)]
        {
            assert_eq!(admits(peer, own), is_admitted, "{peer} {own}");
        }
    }
}

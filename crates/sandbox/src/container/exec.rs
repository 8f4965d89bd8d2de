//! A further program in a running container, confined like the first one: the engine gives it the
//! same user, privileges, seccomp filter and control group.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use sandbox_podman::{Engine, EngineError, TerminalSize};

use super::kernel::Process;
use super::launcher::{Answer, ExecSpec, Exit, LaunchedProgram, ProgramControl, ProgramLog};

/// How long it may take to end after the request.
const GRACE: Duration = Duration::from_secs(5);
/// How long it may take to end after SIGKILL, and to be recorded by its engine.
const KILL_DEADLINE: Duration = Duration::from_secs(30);
/// The polling interval for its end, which no event reports.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A program that was started in this way.
#[derive(Debug)]
struct Executed {
    engine: Engine,
    container: String,
    id: String,
    terminal: bool,
}

/// Starts a program in the container with this id.
pub(super) async fn exec(
    engine: &Engine,
    container: &str,
    spec: &ExecSpec,
) -> Result<LaunchedProgram, EngineError> {
    // The variable that the image's entry point sets for the first program.
    let confined = std::iter::once("IS_SANDBOX=1".to_owned());
    let variables: Vec<String> =
        confined.chain(spec.variables.iter().map(|(name, value)| format!("{name}={value}"))).collect();
    let terminal = spec.terminal.is_some();
    let id = engine.create_exec(container, &spec.command, &variables, terminal).await?;
    let (stdin, output) = engine.start_exec(&id, spec.terminal).await?;
    let executed = Executed { engine: engine.clone(), container: container.to_owned(), id, terminal };
    if let Some(size) = spec.terminal
        && let Err(error) = executed.resize(size).await
    {
        // Podman 4 supports no initial size. The program may have ended already.
        tracing::debug!(%error, "failed to set the size of a command's terminal");
    }
    Ok(LaunchedProgram { stdin, output, control: std::sync::Arc::new(executed) })
}

impl Executed {
    async fn ended(&self) -> Result<Exit, EngineError> {
        loop {
            let unknown = match self.engine.inspect_exec(&self.id).await {
                Ok(state) if state.running => None,
                // Negative if the engine does not know it.
                Ok(state) if state.exit_code >= 0 => return Ok(Exit::new(state.exit_code)),
                Ok(_) => Some(EngineError::refused("inspect command", &self.id, "its exit code is unknown")),
                Err(error) => Some(error),
            };
            if let Some(error) = unknown {
                return if self.went_with_container().await? { Ok(Exit::new(128 + 9)) } else { Err(error) };
            }
            tokio::time::sleep(POLL_INTERVAL).await; // tidy: sleep: the engine reports nothing to wait for
        }
    }

    /// Whether its container has ended, so that the kernel has killed it with all other processes.
    async fn went_with_container(&self) -> Result<bool, EngineError> {
        match self.engine.inspect_container(&self.container).await {
            Ok(container) => Ok(!matches!(container.state.status.as_str(), "running" | "paused")),
            Err(error) if error.is_not_found() => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Sends a signal to it and to all its descendants. The engine has no call for that.
    async fn signal(&self, signal: Signal) -> Result<(), EngineError> {
        let state = match self.engine.inspect_exec(&self.id).await {
            Ok(state) if state.running => state,
            Err(error) if !error.is_not_found() => return Err(error),
            _ => return Ok(()),
        };
        let unreachable = |problem: &str| EngineError::refused("signal command", &self.id, problem);
        if state.pid == 0 {
            return Err(unreachable("it has no process yet"));
        }
        let Some(process) = hold(state.pid) else { return Ok(()) };
        let proc = Path::new("/proc");
        // Opened before the check, so that the checked process cannot be another one.
        if !is_of_container(proc, state.pid, &self.container) {
            return Err(unreachable("its process is not visible from here"));
        }
        // They are its descendants only while it lives.
        for process in descendants(proc, state.pid).into_iter().chain([process]) {
            match pidfd_send_signal(&process, signal) {
                Ok(()) | Err(Errno::SRCH) => {}
                Err(error) => return Err(unreachable(&error.to_string())),
            }
        }
        Ok(())
    }
}

/// Opens a process, so that its number cannot be reused: `None` if there is none with this number.
fn hold(pid: u32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(i32::try_from(pid).ok()?)?, PidfdFlags::empty()).ok()
}

fn is_of_container(proc: &Path, pid: u32, container: &str) -> bool {
    let monitor = parent(proc, pid).unwrap_or_default();
    Process { pid, monitor, id: container }.is_of_container(proc)
}

/// The descendants of an opened process.
fn descendants(proc: &Path, pid: u32) -> Vec<OwnedFd> {
    let (mut found, mut parents) = (Vec::new(), vec![pid]);
    while let Some(above) = parents.pop() {
        for child in children(proc, above) {
            let Some(process) = hold(child) else { continue };
            // The number may have been reused before it was opened.
            if parent(proc, child) == Some(above) {
                found.push(process);
                parents.push(child);
            }
        }
    }
    found
}

fn parent(proc: &Path, pid: u32) -> Option<u32> {
    let status = fs::read_to_string(proc.join(pid.to_string()).join("status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok())
}

/// The kernel lists them by the thread that started them.
fn children(proc: &Path, pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(proc.join(pid.to_string()).join("task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split(' ').filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()).collect()
}

impl ProgramControl for Executed {
    fn wait(&self) -> Answer<'_, Exit> {
        Box::pin(self.ended())
    }

    fn stop(&self) -> Answer<'_, ()> {
        Box::pin(async {
            // A shell on a terminal ignores SIGTERM, and passes SIGHUP on to its jobs.
            self.signal(if self.terminal { Signal::HUP } else { Signal::TERM }).await?;
            if let Ok(ended) = tokio::time::timeout(GRACE, self.ended()).await {
                return ended.map(drop);
            }
            self.signal(Signal::KILL).await?;
            match tokio::time::timeout(KILL_DEADLINE, self.ended()).await {
                Ok(ended) => ended.map(drop),
                Err(_) => Err(EngineError::unkillable(&self.id, KILL_DEADLINE)),
            }
        })
    }

    fn kill(&self) -> Answer<'_, ()> {
        Box::pin(self.signal(Signal::KILL))
    }

    fn resize(&self, size: TerminalSize) -> Answer<'_, ()> {
        Box::pin(self.engine.resize_exec(&self.id, size))
    }

    fn log(&self) -> Answer<'_, ProgramLog> {
        let refused = EngineError::refused("read the log of command", &self.id, "it is not stored");
        Box::pin(std::future::ready(Err(refused)))
    }

    fn remove(&self) -> Answer<'_, ()> {
        self.kill()
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a process with descendants")]
    fn descendants_of_a_process_are_found() {
        let script = "sleep 1000 & setsid sh -c 'sleep 1000; true' & wait";
        let mut shell = Command::new("sh").args(["-c", script]).stdin(Stdio::null()).spawn().unwrap();
        let proc = Path::new("/proc");
        let deadline = std::time::Instant::now() + KILL_DEADLINE;
        let found = loop {
            let found = descendants(proc, shell.id());
            // Two sleep, and a shell waits for one of them.
            if found.len() == 3 {
                break found;
            }
            assert!(std::time::Instant::now() < deadline, "{}", found.len());
            std::thread::sleep(POLL_INTERVAL); // tidy: sleep: nothing reports what a shell has started
        };
        for process in &found {
            pidfd_send_signal(process, Signal::KILL).unwrap();
        }
        shell.wait().unwrap();
        assert!(descendants(proc, shell.id()).is_empty());
        assert!(hold(0).is_none() && hold(u32::MAX).is_none());
    }
}

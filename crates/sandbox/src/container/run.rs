//! A container's life, with one type per state. Each failed step removes the container; a dropped
//! future leaves a labelled one.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::spec::{Device, Mount, Seccomp, StopSignal};
use sandbox_files::host_path::Resolver;
use sandbox_podman::{
    ContainerId, ContainerState as State, Engine, EngineError, ImageFacts, Inspection, Output, Stdin,
    TerminalSize,
};

use super::error::ContainerError;
use super::kernel::{self, Node, Process};
use super::launcher::{Answer, ExecSpec, Exit, LaunchedProgram, ProgramControl, ProgramLog};
use super::monitor::Monitor;
use super::plan::ContainerPlan;
use super::{apparmor, default_limits, exec, packets, support, verify};

/// How long a process may take to end after SIGKILL. In an uninterruptible sleep it can take
/// forever.
const KILL_DEADLINE: Duration = Duration::from_secs(30);
/// How long a process may outlive its monitor, which ends after it: only a process whose monitor
/// was killed outlives it.
const OUTLIVES: Duration = Duration::from_secs(3);
/// The pause before the engine is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(500);

/// A container that exists, and matches its plan as far as the engine reports.
#[derive(Debug)]
pub(crate) struct Created {
    handle: Handle,
    plan: ContainerPlan,
    image: ImageFacts,
}

/// A container whose networks, mounts and limits are set up and verified in the kernel; its process
/// does not run yet.
#[derive(Debug)]
pub(crate) struct SetUp {
    handle: Handle,
    plan: ContainerPlan,
    program: String,
    /// Empty for a detached container.
    stdin: Stdin,
    output: Output,
}

/// A container whose process was started.
#[derive(Debug)]
pub(crate) struct Running {
    /// The stdin of the process.
    pub(crate) stdin: Stdin,
    /// The output of the process.
    pub(crate) output: Output,
    /// The control of the container.
    pub(crate) handle: Handle,
}

/// Signals, awaits and removes a container.
#[derive(Debug, Clone)]
pub(crate) struct Handle {
    engine: Engine,
    id: ContainerId,
    name: String,
    pid: u32,
    own_kernel: bool,
    /// `None` if it is not visible from here.
    monitor: Option<Arc<Monitor>>,
    stop_signal: StopSignal,
    stop_timeout: Duration,
}

impl Created {
    /// Creates the container of `plan`, and compares the engine's report with it.
    pub(crate) async fn create(engine: &Engine, plan: &ContainerPlan) -> Result<Self, ContainerError> {
        let mounts = resolve(&plan.mounts)?;
        let no_image = || ContainerError::NoImage { image: plan.image.clone() };
        let image = engine.image_with_id(&plan.image).await?.ok_or_else(no_image)?;
        let mut plan = ContainerPlan {
            isolation: plan
                .isolation
                .clone()
                .resolved(&image.user, &mounts)
                .filtered(engine.seccomp_profile()),
            mounts,
            ..plan.clone()
        };
        support::before_creation(&plan, engine)?;
        support::storage(&plan, engine).await?;
        let id = default_limits::create(engine, &plan).await;
        let mut handle = Handle {
            engine: engine.clone(),
            id: id.map_err(|error| {
                if error.is_image_not_found() { no_image() } else { support::explain(error, &plan, engine) }
            })?,
            name: plan.name.clone(),
            pid: 0,
            own_kernel: false,
            monitor: None,
            stop_signal: plan.isolation.stop_signal,
            stop_timeout: plan.isolation.stop_timeout,
        };
        let verified = async {
            let inspection = handle.inspect().await?;
            handle.own_kernel = verify::has_own_kernel(&inspection);
            support::after_creation(&mut plan, engine, &inspection)?;
            handle.as_planned(verify::created(&plan, &image, &inspection))
        };
        match verified.await {
            Ok(()) => Ok(Self { handle, plan, image }),
            Err(error) => Err(handle.give_up(error).await),
        }
    }

    /// Lets the engine set the container up, attached to its streams unless it is detached, and
    /// compares the result with the plan.
    pub(crate) async fn set_up(self) -> Result<SetUp, ContainerError> {
        let Self { mut handle, plan, image } = self;
        let program = verify::command_line(&plan, &image).into_iter().next().unwrap_or_default();
        let set_up = async {
            let streams = handle.streams(&plan).await;
            let (keys, output) = streams.map_err(|error| explain(error, &program, &plan, &handle.engine))?;
            let stdin = async {
                match keys {
                    Some(keys) => Ok(keys),
                    None => Ok(handle.stdin(plan.stdin).await?),
                }
            };
            let (stdin, state) = tokio::try_join!(stdin, handle.verify_set_up(&plan, &image))?;
            Ok::<_, ContainerError>((stdin, output, state))
        };
        match set_up.await {
            Ok((stdin, output, state)) => {
                handle.watch(&state);
                Ok(SetUp { handle, plan, program, stdin, output })
            }
            Err(error) => Err(handle.give_up(error).await),
        }
    }

    /// The handle of the container, which does not run yet.
    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Removes the container.
    pub(crate) async fn remove(self) -> Result<(), EngineError> {
        self.handle.remove().await
    }
}

impl SetUp {
    /// The handle of the container, whose process does not run yet.
    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// The stdin of the process.
    pub(crate) fn stdin(&mut self) -> &mut Stdin {
        &mut self.stdin
    }

    /// Starts the process.
    pub(crate) async fn start(self) -> Result<Running, ContainerError> {
        let Self { handle, plan, program, stdin, output } = self;
        let resize = async || match plan.terminal {
            Some(size) => handle.engine.resize_container(handle.id.as_str(), size).await,
            None => Ok(()),
        };
        // Both versions of podman resize before the process runs, which is when programs query the
        // size.
        let resized = resize().await;
        handle.start(&plan, &program).await?;
        if resized.is_err()
            && let Err(error) = resize().await
        {
            // It may have ended already.
            tracing::debug!(container = %handle.name, %error, "failed to set the size of its terminal");
        }
        Ok(Running { stdin, output, handle })
    }

    /// Removes the container.
    pub(crate) async fn remove(self) -> Result<(), EngineError> {
        self.handle.remove().await
    }
}

impl Handle {
    /// The handle of a container of another process. It is asked to end with `stop_signal`, and
    /// killed after `stop_timeout`.
    pub(crate) fn of_other(
        engine: &Engine,
        id: ContainerId,
        name: String,
        stop_signal: StopSignal,
        stop_timeout: Duration,
    ) -> Self {
        Self {
            engine: engine.clone(),
            id,
            name,
            pid: 0,
            own_kernel: false,
            monitor: None,
            stop_signal,
            stop_timeout,
        }
    }

    /// The engine's id of the container.
    pub(crate) fn id(&self) -> &str {
        self.id.as_str()
    }

    /// The number of the first process, from the engine.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Starts the process. Confinement that the kernel applies only then is verified right after.
    async fn start(&self, plan: &ContainerPlan, program: &str) -> Result<(), ContainerError> {
        let started = async {
            let started = self.engine.start_container(self.id.as_str()).await;
            started.map_err(|error| explain(error, program, plan, &self.engine))?;
            if let Some(profile) = &plan.isolation.apparmor {
                let in_force = apparmor::in_force(Path::new("/proc"), self.pid, profile).await;
                let differences =
                    in_force.err().map(|problem| format!("AppArmor profile in the kernel: {problem}"));
                self.as_planned(differences.into_iter().collect())?;
            }
            Ok(())
        };
        match started.await {
            Ok(()) => {
                tracing::debug!(container = %self.name, pid = self.pid, "started");
                Ok(())
            }
            Err(error) => Err(self.give_up(error).await),
        }
    }

    /// Whether its first process, which should have ended, is seen to be dead within three seconds.
    pub(crate) async fn is_dead(&self) -> bool {
        match &self.monitor {
            Some(monitor) => !monitor.is_outlived(OUTLIVES).await,
            None => false,
        }
    }

    /// Whether its runtime gives it a kernel of its own, if this process created it.
    pub(crate) fn has_own_kernel(&self) -> bool {
        self.own_kernel
    }

    /// Sends a signal such as `TERM` to the first process. Succeeds if it has ended.
    pub(crate) async fn signal(&self, signal: &str) -> Result<(), EngineError> {
        match self.engine.kill_container(self.id.as_str(), signal).await {
            // 409, and on podman 4 500: it does not run. 404: it was removed.
            Err(error) if error.status().is_some() && !self.is_running().await? => Ok(()),
            other => other,
        }
    }

    /// Ends the process with the signal and timeout of the plan, then SIGKILL. Returns when it is
    /// dead.
    pub(crate) async fn stop(&self) -> Result<(), EngineError> {
        self.signal(self.stop_signal.name()).await?;
        if let Ok(ended) =
            tokio::time::timeout(self.stop_timeout, self.engine.wait_container(self.id.as_str())).await
        {
            return ignore_missing(ended.map(drop));
        }
        self.signal("KILL").await?;
        match tokio::time::timeout(KILL_DEADLINE, self.engine.wait_container(self.id.as_str())).await {
            Ok(ended) => ignore_missing(ended.map(drop)),
            Err(_) => Err(EngineError::unkillable(&self.name, KILL_DEADLINE)),
        }
    }

    /// Waits for the end of the process. It is an error if the engine's service or the container's
    /// monitor went away meanwhile: the exit is then unknown, and the process may still run.
    pub(crate) async fn wait(&self) -> Result<Exit, EngineError> {
        let code = tokio::select! {
            // The record says more than the engine's answer.
            biased;
            exit = self.recorded() => {
                tracing::debug!(container = %self.name, ?exit, "ended, as its monitor recorded");
                return Ok(exit);
            }
            code = self.ended() => code?,
            () = self.unmonitored() => return Err(EngineError::end_unknown(&self.name, "its process still runs")),
        };
        let oom_killed = self.confirm(code).await?;
        tracing::debug!(container = %self.name, code, oom_killed, "ended");
        Ok(Exit { oom_killed, ..Exit::new(code) })
    }

    /// The exit, once the monitor has recorded it; never if that is not visible.
    async fn recorded(&self) -> Exit {
        let Some(monitor) = &self.monitor else { return std::future::pending().await };
        // A kernel of its own may still have a process that passes writes on to the host.
        Exit { all_ended: !self.own_kernel, ..monitor.exit().await }
    }

    /// The exit code, once the engine reports it. The monitor ends after the process, so engines
    /// need not poll before its end.
    async fn ended(&self) -> Result<i64, EngineError> {
        if let (false, Some(monitor)) = (self.engine.capabilities().wakes_waits(), &self.monitor) {
            tokio::select! {
                code = self.engine.wait_container_watched(self.id.as_str()) => return code,
                () = monitor.ended() => {}
            }
        }
        self.engine.wait_container(self.id.as_str()).await
    }

    /// Returns when the monitor has ended but the process has not; never if no monitor is visible.
    /// Some engines never notice it.
    async fn unmonitored(&self) {
        if let Some(monitor) = &self.monitor {
            monitor.ended().await;
            if monitor.is_outlived(OUTLIVES).await {
                return;
            }
        }
        std::future::pending::<()>().await;
    }

    /// Whether a process that reportedly ended with `code` was killed for lack of memory. An engine
    /// whose monitor died reports that a running process has ended with 0, so the whole state is
    /// queried.
    async fn confirm(&self, code: i64) -> Result<bool, EngineError> {
        for attempt in 0..2 {
            let state = match self.inspect().await {
                Ok(inspection) => inspection.state,
                // Removed meanwhile, which only another program does.
                Err(error) if error.is_not_found() => return Ok(false),
                Err(error) => return Err(error),
            };
            if state.has_ended() && state.exit_code == code && code >= 0 {
                return Ok(state.oom_killed);
            }
            if attempt > 0 {
                return Err(EngineError::end_unknown(&self.name, &state.status));
            }
            // tidy: sleep: there is no event for what an engine has yet to write down
            tokio::time::sleep(ASK_AGAIN).await;
        }
        Ok(false)
    }

    /// Kills the process and removes the container. Succeeds if it no longer exists.
    pub(crate) async fn remove(&self) -> Result<(), EngineError> {
        self.engine.remove_container(self.id.as_str()).await?;
        tracing::debug!(container = %self.name, "removed");
        Ok(())
    }

    /// Lets the engine set the container up. Returns the stdin of a terminal, and the container's
    /// output; both are empty if it is detached.
    async fn streams(&self, plan: &ContainerPlan) -> Result<(Option<Stdin>, Output), EngineError> {
        let id = self.id.as_str();
        if plan.detachment.is_detached() {
            self.engine.set_up_container(id).await?;
            return Ok((None, Output::new(futures_util::stream::empty())));
        }
        match plan.terminal {
            // A terminal has one connection for both directions.
            Some(_) => self.engine.attach_terminal(id).await.map(|(keys, screen)| (Some(keys), screen)),
            None => self.engine.attach_output(id).await.map(|output| (None, output)),
        }
    }

    /// The stdin of the process, if it is `planned`.
    async fn stdin(&self, planned: bool) -> Result<Stdin, EngineError> {
        if planned {
            self.engine.attach_stdin(self.id.as_str()).await
        } else {
            Ok(Stdin::new(tokio::io::sink()))
        }
    }

    /// Stores the processes of a container that is set up.
    fn watch(&mut self, state: &State) {
        self.pid = state.pid;
        self.monitor = Monitor::open(self.process(state)).map(Arc::new);
    }

    /// The first process of the container, from the engine's `state`.
    fn process(&self, state: &State) -> Process<'_> {
        Process { pid: state.pid, monitor: state.conmon_pid, id: self.id.as_str() }
    }

    /// Compares a container that is set up with its plan, as the engine and the kernel report it,
    /// and installs its packet filter; returns the state of its processes.
    async fn verify_set_up(&self, plan: &ContainerPlan, image: &ImageFacts) -> Result<State, ContainerError> {
        let inspection = self.inspect().await?;
        let unverifiable = |problem| ContainerError::Unverifiable { container: plan.name.clone(), problem };
        let (proc, pid) = (Path::new("/proc"), inspection.state.pid);
        let process = self.process(&inspection.state);
        let mut facts = kernel::read(proc, process, &plan.isolation.masked_paths).map_err(unverifiable)?;
        support::check_controls(plan, &self.engine, &facts.controlled)?;
        let targets = plan.mounts.iter().map(Mount::container_path);
        let no_root = |error| unverifiable(format!("failed to open its root: {error}"));
        facts.roots = kernel::roots(proc, pid, targets).map_err(no_root)?;
        let devices = plan.isolation.devices.iter().filter_map(Device::node_paths);
        facts.planned_nodes =
            devices.filter_map(|(host, container)| Some((container.to_owned(), Node::at(host)?))).collect();
        let mounted = facts.mounts.iter().map(|mount| mount.target.as_str());
        let planned = facts.planned_nodes.keys().map(String::as_str);
        facts.nodes = kernel::nodes(proc, pid, mounted.chain(planned)).map_err(no_root)?;
        if plan.disk.is_some() {
            facts.disk = kernel::disk_bound(Path::new("/"), pid, &facts.mounts);
        }
        let requested = kernel::requested(proc, process.monitor, &inspection.oci_config_path);
        let kernel::Requested { filter, apparmor } = requested.map_err(unverifiable)?;
        (facts.filter, facts.apparmor) = (filter, apparmor);
        if let Seccomp::Profile(path) = &plan.isolation.seccomp {
            let writable = plan.mounts.iter().filter(|mount| !mount.read_only());
            let resolver = Resolver::new(writable.map(Mount::host_path));
            facts.profile = Some(kernel::profile(&resolver, path));
        }
        self.as_planned(verify::attached(plan, image, &inspection, &facts))?;
        packets::confine(process, plan).await?;
        Ok(inspection.state)
    }

    async fn inspect(&self) -> Result<Inspection, EngineError> {
        self.engine.inspect_container(self.id.as_str()).await
    }

    async fn is_running(&self) -> Result<bool, EngineError> {
        match self.inspect().await {
            Ok(inspection) => Ok(inspection.state.is_running()),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn as_planned(&self, differences: Vec<String>) -> Result<(), ContainerError> {
        if differences.is_empty() {
            return Ok(());
        }
        Err(ContainerError::NotAsPlanned { container: self.name.clone(), differences })
    }

    /// Removes a container whose launch failed. If that fails too, it is found by its labels.
    async fn give_up(&self, error: ContainerError) -> ContainerError {
        if let Err(left) = self.remove().await {
            tracing::warn!(container = %self.name, error = %left, "not removed; the next sweep removes it");
        }
        error
    }
}

impl ProgramControl for Handle {
    fn wait(&self) -> Answer<'_, Exit> {
        Box::pin(self.wait())
    }

    fn stop(&self) -> Answer<'_, ()> {
        Box::pin(self.stop())
    }

    fn kill(&self) -> Answer<'_, ()> {
        Box::pin(self.signal("KILL"))
    }

    fn resize(&self, size: TerminalSize) -> Answer<'_, ()> {
        Box::pin(self.engine.resize_container(self.id.as_str(), size))
    }

    fn exec<'a>(&'a self, spec: &'a ExecSpec) -> Answer<'a, LaunchedProgram, ContainerError> {
        Box::pin(async {
            let program = spec.command.first().map(String::as_str).unwrap_or_default();
            let started = exec::exec(&self.engine, self.id.as_str(), spec).await;
            started.map_err(|error| {
                classify_start_error(error.message().unwrap_or_default(), program).unwrap_or(error.into())
            })
        })
    }

    fn log(&self) -> Answer<'_, ProgramLog> {
        Box::pin(async {
            // Queried first: if the container has ended, its output is complete.
            let status = self.inspect().await?.state.status;
            let ended = !matches!(status.as_str(), "running" | "paused" | "stopping");
            Ok(ProgramLog { ended, output: self.engine.logs(self.id()) })
        })
    }

    fn remove(&self) -> Answer<'_, ()> {
        Box::pin(self.remove())
    }
}

impl From<Running> for LaunchedProgram {
    fn from(Running { stdin, output, handle }: Running) -> Self {
        Self { stdin, output, control: Arc::new(handle) }
    }
}

fn ignore_missing(ended: Result<(), EngineError>) -> Result<(), EngineError> {
    match ended {
        Err(error) if error.is_not_found() => Ok(()),
        other => other,
    }
}

/// The mounts with resolved paths: the engine would create a missing source, and reports resolved
/// paths. Mounts that were not checked yet are the sandbox's own files.
fn resolve(mounts: &[Mount]) -> Result<Vec<Mount>, ContainerError> {
    let own = Resolver::default();
    let resolve = |mount: &Mount| match mount.identity() {
        Some(_) => Ok(mount.clone()),
        None => match mount.found_by(&own) {
            Ok(found) => Ok(mount.with_host_path(found.path().to_owned()).of(found.identity())),
            Err(source) => Err(ContainerError::MountSource { path: mount.host_path().to_owned(), source }),
        },
    };
    mounts.iter().map(resolve).collect()
}

/// The error of a failed launch.
fn explain(error: EngineError, program: &str, plan: &ContainerPlan, engine: &Engine) -> ContainerError {
    let message = error.message().unwrap_or_default();
    classify_start_error(message, program).unwrap_or_else(|| support::explain(error, plan, engine))
}

/// The error of the program itself, if any. Both versions of podman pass on the runtime's (crun,
/// runc) message about the executable; its messages about anything else, such as a missing mount,
/// are the engine's error.
fn classify_start_error(message: &str, program: &str) -> Option<ContainerError> {
    let message = message.to_ascii_lowercase();
    let mentions = |words: &[&str]| words.iter().any(|words| message.contains(words));
    let program = program.to_owned();
    if mentions(&["executable file"]) && mentions(&["not found"]) {
        Some(ContainerError::ProgramNotFound { program })
    } else if mentions(&["open executable", "exec: ", "is not executable", "is not a regular file"])
        && mentions(&["permission denied", "not permitted", "exec format error"])
    {
        Some(ContainerError::ProgramNotExecutable { program })
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtime_errors_about_the_executable_alone_are_program_errors() {
        let kind = |message: &str| match classify_start_error(message, "x") {
            Some(ContainerError::ProgramNotFound { .. }) => 127,
            Some(ContainerError::ProgramNotExecutable { .. }) => 126,
            _ => 125,
        };
        for (message, expected) in [
            (
                "preparing container 0f for attach: crun: executable file `x` not found in $PATH: No such file or directory: OCI \
                 runtime attempted to invoke a command that was not found",
                127,
            ),
            ("runc create failed: exec: \"x\": executable file not found in $PATH: unknown", 127),
            (
                "preparing container 0f for attach: crun: open executable: Permission denied: OCI permission denied",
                126,
            ),
            ("crun: open executable: Operation not permitted: OCI permission denied", 126),
            (
                "crun: the path `/etc/passwd` exists but it is not executable: Operation not permitted: OCI permission denied",
                126,
            ),
            (
                "crun: the path `/etc` is not a regular file: Operation not permitted: OCI permission denied",
                126,
            ),
            ("runc: exec: \"/etc/passwd\": permission denied", 126),
            (
                "crun: cannot stat `/tmp/x`: No such file or directory: OCI runtime attempted to invoke a command that was not \
                 found",
                125,
            ),
            ("netavark: permission denied", 125),
        ] {
            assert_eq!(kind(message), expected, "{message}");
        }
    }
}

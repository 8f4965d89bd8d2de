//! The only launcher: sets up the network, proxy and container of a task, a command, an executor or
//! a detached run, and removes them when one of them fails.

use std::sync::Arc;
use std::time::Instant;

use crate::container::{
    ContainerError, ContainerPlan, Created, Detachment, Injected, LaunchPlan, LaunchedProgram, SetUp, Stdin,
};
use crate::context::Shared;
use crate::egress::{Endpoint, PendingEgress, ProxyError, RunningProxy};
use crate::error::SandboxError;
use crate::labels::Role;
use crate::program::{START, readable};
use crate::spec::{
    ByteSize, ContainerEnv, Cpus, Launch, Mount, Network, ObjectId, SYSTEM, SYSTEM_FILE, SshSigner,
    with_git_settings,
};
use crate::ssh::{self, RunningAgent};
use sandbox_network_log::LogSink;
use sandbox_podman::{EngineError, TerminalSize};
use sandbox_workspace::WorkspaceGuard;
use tokio::io::AsyncRead;
use tokio::task::JoinSet;

use super::result::Timings;
use super::{drive, mounts, rollback, teardown};

/// The differences between tasks, commands, executors and detached runs.
#[derive(Default)]
pub(crate) struct Program {
    /// `None`: the image's.
    pub(crate) entrypoint: Option<Vec<String>>,
    pub(crate) command: Vec<String>,
    pub(crate) mounts: Vec<Mount>,
    /// `None`: it has no terminal.
    pub(crate) terminal: Option<TerminalSize>,
    /// `None`: its streams are attached, and it ends with this process.
    pub(crate) detached: Option<Detached>,
}

/// A program that outlives this process.
pub(crate) struct Detached {
    /// The name of the container.
    pub(crate) name: String,
    pub(crate) detachment: Detachment,
}

/// An execution whose process runs.
pub(crate) struct Started {
    pub(crate) program: LaunchedProgram,
    pub(crate) proxy: Option<RunningProxy>,
    pub(crate) timings: Timings,
    pub(crate) since: Instant,
    pub(crate) hold: WorkspaceGuard,
    /// Serves until it is dropped.
    pub(crate) agent: Option<RunningAgent>,
    /// Passes the input on. Ends when it is dropped.
    pub(crate) feeding: JoinSet<()>,
}

/// The stdin of a process.
pub(crate) enum ProcessInput {
    /// Copied to the process, starting before the process does: podman loses the output of a
    /// process that ends before its input has come.
    Reader(Box<dyn AsyncRead + Send + Unpin>),
    /// Written by the caller, if the process has a stdin.
    Written,
}

/// A program and its proxy, before the program's start.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) program: CreatedProgram,
    pub(crate) proxy: Option<RunningProxy>,
    timings: Timings,
}

/// A program that was created but not started.
#[derive(Debug)]
pub(crate) enum CreatedProgram {
    /// A container that is set up, with its streams.
    SetUp(Box<SetUp>),
    /// A detached container. Its files can be changed until the engine sets it up.
    Detached(Box<Created>),
    /// A plan for an injected launcher.
    Injected(Box<Injected>),
}

/// Milliseconds since `since`.
pub(super) fn elapsed_ms(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Launches `program` as in `launch`. Nothing is left after an error.
pub(crate) async fn start(
    shared: &Shared,
    launch: &Launch,
    program: Program,
    input: ProcessInput,
) -> Result<Started, SandboxError> {
    let since = Instant::now();
    let id = ObjectId::random(&launch.context);
    let mounts = mounts::resolved(shared.state_dir(), &launch.mounts)?;
    let taken = async {
        let taken = WorkspaceGuard::take(mounts, shared.quarantine(&id), Some(shared.views(&id))).await;
        taken.map_err(SandboxError::from)
    };
    let (image, (mounts, mut hold)) = tokio::try_join!(shared.image_id(&launch.image), taken)?;
    let agent =
        launch.ssh_signer.as_ref().map(|signer| ssh::serve(shared.state_dir(), signer)).transpose()?;
    let socket = agent.as_ref().map(RunningAgent::mount);
    let program =
        Program { mounts: mounts.into_iter().chain(program.mounts).chain(socket).collect(), ..program };
    let Prepared { program, proxy, mut timings } =
        Prepared::create(shared, launch, &id, &image, program, since).await?;
    let started = match hold.prepared().await {
        Ok(()) => program.start(input).await.map_err(SandboxError::from),
        Err(error) => {
            rollback::log_leftover(program.remove().await);
            Err(error.into())
        }
    };
    match started {
        Ok((program, feeding)) => {
            timings.started_ms = elapsed_ms(since);
            tracing::info!(container = %id, ms = timings.started_ms, "started");
            Ok(Started { program, proxy, timings, since, hold, agent, feeding })
        }
        Err(error) => {
            // An engine that did not answer may have started it. The container is removed again.
            teardown::log_findings(&hold.release(false).await);
            rollback::log_leftover(rollback::close(proxy).await);
            Err(error)
        }
    }
}

impl Prepared {
    /// Creates `program` in a container of the image with the id `image`, along with the proxy of
    /// its network if `launch` requires one. Nothing is left after an error. The timings are
    /// relative to `since`.
    pub(crate) async fn create(
        shared: &Shared,
        launch: &Launch,
        id: &ObjectId,
        image: &str,
        program: Program,
        since: Instant,
    ) -> Result<Self, SandboxError> {
        shared.begin();
        let mut timings = Timings::default();
        let is_run = program.detached.is_some();
        let without_proxy = Endpoint::without_proxy(&launch.network, launch.dns);
        if let Some(launcher) = shared.launcher() {
            let plan = plan(shared, launch, id, image, program, &without_proxy)?;
            let injected = Injected::new(launcher, LaunchPlan::new(launch, plan));
            return Ok(Self { program: CreatedProgram::Injected(Box::new(injected)), proxy: None, timings });
        }
        let create = async |endpoint: &Endpoint| {
            let plan = plan(shared, launch, id, image, program, endpoint)?;
            let created = Box::pin(CreatedProgram::create(shared, &plan)).await;
            timings.container_ready_ms = elapsed_ms(since);
            created
        };
        let Network::Sandboxed(config) = &launch.network else {
            let program = create(&without_proxy).await?;
            return Ok(Self { program, proxy: None, timings });
        };
        let (log, labels) = (log_sink(launch)?, shared.labels(&launch.context));
        let egress = shared.egress().await?;
        // A run outlives its instance, and its objects are found by labels of its own.
        let spare = if is_run { None } else { egress.take_spare(config).await };
        let PendingEgress { endpoint, proxy, resources } =
            Box::pin(egress.open(id, &labels, config, image, log, spare)).await?;
        let network_ready_ms = elapsed_ms(since);
        let mut proxy_ready_ms = 0;
        let proxy = async {
            let proxy = proxy.await;
            proxy_ready_ms = elapsed_ms(since);
            proxy
        };
        let (program, proxy) =
            rollback::both(create(&endpoint), proxy, &resources, CreatedProgram::remove).await?;
        let timings = Timings { network_ready_ms, proxy_ready_ms, ..timings };
        Ok(Self { program, proxy: Some(proxy), timings })
    }
}

impl CreatedProgram {
    async fn create(shared: &Shared, plan: &ContainerPlan) -> Result<Self, SandboxError> {
        let created = Created::create(shared.engine()?, plan).await?;
        if plan.detachment.is_detached() {
            return Ok(Self::Detached(Box::new(created)));
        }
        Ok(Self::SetUp(Box::new(created.set_up().await?)))
    }

    /// The engine's id of a detached container; the container's name if there is no engine.
    pub(crate) fn id(&self) -> &str {
        match self {
            Self::SetUp(container) => container.handle().id(),
            Self::Detached(container) => container.handle().id(),
            Self::Injected(injected) => injected.name(),
        }
    }

    /// Starts the process. It is removed after an error.
    pub(crate) async fn start(
        self,
        input: ProcessInput,
    ) -> Result<(LaunchedProgram, JoinSet<()>), ContainerError> {
        let mut feeding = JoinSet::new();
        let feed = |stdin: &mut Stdin| {
            if let ProcessInput::Reader(input) = input {
                feeding.spawn(drive::feed(input, std::mem::replace(stdin, Stdin::new(tokio::io::sink()))));
            }
        };
        let program = match self {
            Self::SetUp(mut container) => {
                feed(container.stdin());
                container.start().await?.into()
            }
            Self::Detached(container) => container.set_up().await?.start().await?.into(),
            Self::Injected(injected) => {
                let mut program = injected.launch().await?;
                feed(&mut program.stdin);
                program
            }
        };
        Ok((program, feeding))
    }

    /// Removes the program.
    pub(crate) async fn remove(self) -> Result<(), EngineError> {
        match self {
            Self::SetUp(container) => container.remove().await,
            Self::Detached(container) => container.remove().await,
            Self::Injected(_) => Ok(()),
        }
    }
}

/// Logs to the files, the caller, both or neither.
fn log_sink(launch: &Launch) -> Result<LogSink, SandboxError> {
    let sink = launch
        .network_log_dir
        .as_deref()
        .map(LogSink::open)
        .transpose()
        .map_err(ProxyError::from)?
        .unwrap_or_default();
    Ok(match &launch.on_network_event {
        Some(callback) => sink.with_callback(Arc::clone(&callback.0)),
        None => sink,
    })
}

/// The container of an execution. This is the only place that decides its properties. Writes the
/// sandbox's files that are mounted over the engine's.
fn plan(
    shared: &Shared,
    launch: &Launch,
    id: &ObjectId,
    image: &str,
    mut program: Program,
    endpoint: &Endpoint,
) -> Result<ContainerPlan, SandboxError> {
    if program.terminal.is_some() && launch.isolation.init && shared.launcher().is_none() {
        match readable(shared.config()) {
            // Podman's init leaves the signals of Ctrl-Z blocked.
            Ok(mount) => {
                program.mounts.push(mount);
                program.command.splice(0..0, START.map(str::to_owned));
            }
            Err(error) => tracing::warn!(%error, "Ctrl-Z has no effect in the container"),
        }
    }
    let files = shared.own_files().of(launch, endpoint.resolver.as_deref())?;
    let mounts = program.mounts.into_iter().chain(endpoint.mounts.iter().cloned());
    let mut env = launch.env.clone();
    if let Some(home) = &launch.isolation.home
        && !env.variables().contains_key("HOME")
    {
        env = env.with("HOME", home);
    }
    if !launch.git_identity.is_empty() && !env.variables().contains_key(SYSTEM) {
        env = env.with(SYSTEM, SYSTEM_FILE);
    }
    // The caller's own settings of a tool's trust are kept.
    let mut env = ContainerEnv::new(endpoint.env.clone()).merge(env.variables());
    if launch.ssh_signer.is_some() {
        env = env.with(SshSigner::VARIABLE, SshSigner::socket());
    }
    let git_settings = launch.git_settings().into_iter().chain(endpoint.git_settings.iter().cloned());
    let env = with_git_settings(&env, git_settings.collect())?;
    let stdin = program.detached.is_none();
    let role = if stdin { Role::Task } else { Role::Run };
    let Detached { name, detachment } = program.detached.unwrap_or_else(|| Detached {
        name: shared.object_name("task", id),
        detachment: Detachment::default(),
    });
    Ok(ContainerPlan {
        name,
        // The id, not the tag: a rebuild of the tag meanwhile does not change what runs.
        image: image.to_owned(),
        entrypoint: program.entrypoint,
        command: program.command,
        env,
        working_dir: launch.working_dir.clone(),
        mounts: mounts.chain(files).collect(),
        network: endpoint.network.clone(),
        isolation: launch.isolation.clone(),
        memory: launch.limits.memory.map(ByteSize::bytes),
        nano_cpus: launch.limits.cpus.map(Cpus::nano),
        pids: launch.limits.pids,
        disk: launch.limits.disk.map(ByteSize::bytes),
        labels: shared.labels(&launch.context).with_role(role),
        // A detached container would need a process at the other end of its stdin.
        stdin,
        terminal: program.terminal,
        detachment,
    })
}

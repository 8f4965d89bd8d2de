//! Sets up network, proxy and container of one execution, and removes them.

use std::sync::Arc;
use std::time::Instant;

use crate::container::{
    Attached, ContainerError, ContainerPlan, Created, Detachment, Injected, LaunchPlan, LaunchedProgram,
    Stdin,
};
use crate::context::Shared;
use crate::egress::{Endpoint, Opening, ProxyError, RunningProxy};
use crate::error::SandboxError;
use crate::labels::Role;
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
use super::{aftermath, drive, mounts, undo};

/// What tasks, commands and executors differ in.
#[derive(Default)]
pub(crate) struct Program {
    /// `None`: the image's.
    pub(crate) entrypoint: Option<Vec<String>>,
    pub(crate) command: Vec<String>,
    pub(crate) mounts: Vec<Mount>,
    /// `None`: it has no terminal.
    pub(crate) terminal: Option<TerminalSize>,
}

/// An execution whose process runs.
pub(crate) struct Started {
    pub(crate) program: LaunchedProgram,
    pub(crate) proxy: Option<RunningProxy>,
    pub(crate) timings: Timings,
    pub(crate) since: Instant,
    pub(crate) hold: WorkspaceGuard,
    /// It serves until it is dropped.
    pub(crate) agent: Option<RunningAgent>,
    /// What passes the input on. It ends when it is dropped.
    pub(crate) feeding: JoinSet<()>,
}

/// What a process reads.
pub(crate) enum ProcessInput {
    /// It is copied to the process, from before the process starts on: podman loses the output of one that ends before its input has come.
    Reader(Box<dyn AsyncRead + Send + Unpin>),
    /// The caller writes it.
    Written,
}

/// What is set up, and not started yet.
enum Startable {
    /// A container.
    Container(Box<Attached>),
    /// A plan for an injected launcher.
    Injected(Box<Injected>),
}

/// Milliseconds since `since`.
pub(super) fn elapsed_ms(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Launches `program` as `launch` says. On any error nothing is left.
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
    let mut timings = Timings::default();
    let (startable, proxy) = match (shared.launcher(), &launch.network) {
        (Some(launcher), network) => {
            let endpoint = Endpoint::without_proxy(network, launch.dns);
            let plan = plan(shared, launch, &id, &image, program, &endpoint)?;
            let injected = Injected::new(launcher, LaunchPlan::new(launch, plan));
            (Startable::Injected(Box::new(injected)), None)
        }
        (None, Network::Sandboxed(config)) => {
            let log = log_sink(launch)?;
            let labels = shared.labels(&launch.context);
            let Opening { endpoint, proxy, remains } =
                Box::pin(shared.egress().await?.open(&id, &labels, config, &image, log)).await?;
            timings.network_ready_ms = elapsed_ms(since);
            let container = async {
                let attached = attach(shared, launch, &id, &image, program, &endpoint).await;
                (attached, elapsed_ms(since))
            };
            let proxy = async {
                let proxy = proxy.await;
                (proxy, elapsed_ms(since))
            };
            // Neither is dropped half done when the other fails: both are removed again.
            let ((attached, container_ms), (proxy, proxy_ms)) = tokio::join!(container, proxy);
            timings.container_ready_ms = container_ms;
            timings.proxy_ready_ms = proxy_ms;
            let (attached, proxy) = undo::pair(attached, proxy, &remains, Attached::remove).await?;
            (Startable::Container(Box::new(attached)), proxy)
        }
        (None, Network::Disabled | Network::Unrestricted) => {
            let endpoint = Endpoint::without_proxy(&launch.network, launch.dns);
            let attached = attach(shared, launch, &id, &image, program, &endpoint).await?;
            timings.container_ready_ms = elapsed_ms(since);
            (Startable::Container(Box::new(attached)), None)
        }
    };
    let started = match hold.prepared().await {
        Ok(()) => startable.start(input).await.map_err(SandboxError::from),
        Err(error) => {
            undo::log_leftover(startable.remove().await);
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
            // An engine that does not answer may have started it. The container is gone again.
            aftermath::log_findings(&hold.release(false).await);
            undo::log_leftover(undo::close(proxy).await);
            Err(error)
        }
    }
}

impl Startable {
    async fn start(self, input: ProcessInput) -> Result<(LaunchedProgram, JoinSet<()>), ContainerError> {
        let mut feeding = JoinSet::new();
        let feed = |stdin: &mut Stdin| {
            if let ProcessInput::Reader(input) = input {
                feeding.spawn(drive::feed(input, std::mem::replace(stdin, Stdin::new(tokio::io::sink()))));
            }
        };
        let program = match self {
            Self::Container(mut attached) => {
                feed(attached.stdin());
                attached.start().await?.into()
            }
            Self::Injected(injected) => {
                let mut program = injected.launch().await?;
                feed(&mut program.stdin);
                program
            }
        };
        Ok((program, feeding))
    }

    async fn remove(self) -> Result<(), EngineError> {
        match self {
            Self::Container(attached) => attached.remove().await,
            Self::Injected(_) => Ok(()),
        }
    }
}

/// The files, the caller, both or neither.
pub(crate) fn log_sink(launch: &Launch) -> Result<LogSink, SandboxError> {
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

async fn attach(
    shared: &Shared,
    launch: &Launch,
    id: &ObjectId,
    image: &str,
    program: Program,
    endpoint: &Endpoint,
) -> Result<Attached, SandboxError> {
    let plan = plan(shared, launch, id, image, program, endpoint)?;
    Ok(Created::create(shared.engine()?, &plan).await?.attach().await?)
}

/// The container of an execution: what is created is decided here and nowhere else. Writes the files of ours that lie over the engine's.
pub(crate) fn plan(
    shared: &Shared,
    launch: &Launch,
    id: &ObjectId,
    image: &str,
    program: Program,
    endpoint: &Endpoint,
) -> Result<ContainerPlan, SandboxError> {
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
    // What the caller says of a tool's trust is left alone.
    let mut env = ContainerEnv::new(endpoint.env.clone()).merge(env.variables());
    if launch.ssh_signer.is_some() {
        env = env.with(SshSigner::VARIABLE, SshSigner::socket());
    }
    let git_settings = launch.git_settings().into_iter().chain(endpoint.git_settings.iter().cloned());
    let env = with_git_settings(&env, git_settings.collect())?;
    Ok(ContainerPlan {
        name: shared.object_name("task", id),
        // The id, not the tag: building that tag again meanwhile does not change what runs.
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
        labels: shared.labels(&launch.context).with_role(Role::Task),
        stdin: true,
        terminal: program.terminal,
        detachment: Detachment::default(),
    })
}

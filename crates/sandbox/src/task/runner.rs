//! The common part of tasks and commands: one execution at a time, from launch to teardown, and its
//! live control.

use std::sync::Arc;

use sandbox_proxy_protocol::Traffic;
use sandbox_workspace::Findings;
use tokio::io::AsyncRead;

use crate::container::LaunchedProgram;
use crate::context::Shared;
use crate::egress::RunningProxy;
use crate::error::SandboxError;
use crate::spec::Launch;
use crate::stop_switch::StopSwitch;

use super::drive::{self, End, Sink};
use super::launch::{self, ProcessInput, Program, Started};
use super::live::{LiveProgram, LiveProxy};
use super::mounts;
use super::result::Timings;
use super::teardown;

/// Runs the executions of one task or command.
#[derive(Debug)]
pub(super) struct Runner {
    pub(super) shared: Arc<Shared>,
    pub(super) switch: Arc<StopSwitch>,
    pub(super) live: LiveProxy,
    pub(super) program: LiveProgram,
}

/// An execution that has ended, and its result.
pub(super) struct Finished {
    pub(super) end: Result<End, SandboxError>,
    pub(super) timings: Timings,
    pub(super) findings: Findings,
    pub(super) traffic: Option<Traffic>,
}

impl Runner {
    /// Resolves the mounts of `launch` on the host, for all its executions.
    pub(super) fn new(shared: Arc<Shared>, launch: &mut Launch) -> Result<Self, SandboxError> {
        launch.resolve_mounts(&mounts::resolver(shared.state_dir(), &launch.mounts)?)?;
        let switch = shared.new_switch();
        Ok(Self { shared, switch, live: LiveProxy::default(), program: LiveProgram::default() })
    }

    /// Runs `program` with `input`, with its output into `sink`, to its end; kills it when `gone`
    /// ends.
    pub(super) async fn run(
        &self,
        launch: &Launch,
        program: Program,
        input: impl AsyncRead + Send + Unpin + 'static,
        sink: &mut impl Sink,
        gone: impl Future<Output = ()> + Send,
    ) -> Result<Finished, SandboxError> {
        let input = ProcessInput::Reader(Box::new(input));
        let Started { program, proxy, mut timings, since, hold, agent, feeding } =
            Box::pin(launch::start(&self.shared, launch, program, input)).await?;
        let LaunchedProgram { output, control: handle, .. } = program;
        self.live.replace(proxy.as_ref().map(RunningProxy::control));
        self.program.replace(Some(Arc::clone(&handle)));
        let end = drive::drive(output, &*handle, launch.limits.timeout, &self.switch, gone, sink).await;
        timings.exited_ms = launch::elapsed_ms(since);
        tracing::info!(ms = timings.exited_ms, "ended");
        self.live.replace(None);
        self.program.replace(None);
        drop((feeding, agent));
        let all_ended = end.as_ref().is_ok_and(|end| end.exit.all_ended);
        let (findings, traffic) = teardown::remove(&self.shared, handle, proxy, hold, all_ended).await;
        Ok(Finished { end, timings, findings, traffic })
    }
}

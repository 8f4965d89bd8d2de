//! The containers of a verification.

use std::ops::ControlFlow;
use std::time::Duration;

use sandbox_agents::Ended;
use sandbox_inside::{Check, Finding};

use crate::container::{Chunk, LaunchedProgram};
use crate::context::Shared;
use crate::error::{SandboxError, VerifyError};
use crate::program::{INSIDE, readable};
use crate::spec::{InvalidSpec, Isolation, Launch, Mount, ResourceLimits};
use crate::stop_switch::StopSwitch;
use crate::task::{self, Capture, End, ProcessInput, Program, Sink, Started};
use sandbox_podman::ImageFacts;

use super::VerifySpec;
use super::guarantee::checks;
use super::order::order;
use super::report::VerifyReport;

/// The time limit of all checks: some wait for an answer that does not come.
const LONGEST: Duration = Duration::from_mins(2);
/// The verified time limit, and its tolerance: the time to end by itself, and the engine's work.
const SHORT: Duration = Duration::from_secs(1);
const GRACE: Duration = Duration::from_secs(1);
const LATEST: Duration = Duration::from_secs(20);
/// Far more than all findings need.
const OUTPUT: usize = 1 << 20;
/// An exit code that nothing else produces.
const CODE: i64 = 42;

/// Runs all checks. A container that cannot be launched is an error; a guarantee that does not hold
/// is in the report.
pub(crate) async fn verify(shared: &Shared, spec: &VerifySpec) -> Result<VerifyReport, SandboxError> {
    let (isolation, limits) = &spec.made;
    let mut whole = launch(spec, isolation.clone(), *limits);
    whole.validate()?;
    refuse_guarded(&spec.mounts)?;
    whole.resolve_mounts(&task::resolver(shared.state_dir(), &whole.mounts)?)?;
    let spec = &VerifySpec { mounts: whole.mounts.clone(), ..spec.clone() };
    let expected = checks(spec);
    let image = shared.engine()?.image(spec.image.as_str()).await?;
    let image = image.ok_or_else(|| SandboxError::NoImage(spec.image.clone()))?;
    let program = readable(shared.config())?;
    let (inside, code, time) = tokio::join!(
        Box::pin(inside(shared, spec, &image, &program, &expected)),
        Box::pin(exit_code(shared, &whole, &program)),
        Box::pin(time_limit(shared, &whole, &program)),
    );
    let mut findings = inside?;
    findings.extend([code?, time?]);
    Ok(VerifyReport::new(&expected, findings))
}

/// Several containers have the mounts at once, and programs of the image run in them: nothing would
/// search for tampered files.
fn refuse_guarded(mounts: &[Mount]) -> Result<(), InvalidSpec> {
    let Some(mount) = mounts.iter().find(|mount| mount.is_guarded()) else {
        return Ok(());
    };
    Err(InvalidSpec::new(
        "mounts",
        format!(
            "`{}` is protected or copy-on-write, which a verification does not support; mount it read-only",
            mount.container_path().escape_debug()
        ),
    ))
}

fn launch(spec: &VerifySpec, isolation: Isolation, limits: ResourceLimits) -> Launch {
    Launch {
        mounts: spec.mounts.clone(),
        env: spec.env.clone(),
        network: spec.network.clone(),
        isolation,
        limits,
        ..Launch::new("verify".to_owned(), spec.image.clone())
    }
}

async fn inside(
    shared: &Shared,
    spec: &VerifySpec,
    image: &ImageFacts,
    program: &Mount,
    expected: &[Check],
) -> Result<Vec<Finding>, SandboxError> {
    let (isolation, limits) = &spec.made;
    let limits = limits.timeout(LONGEST);
    let launch = launch(spec, isolation.clone(), limits);
    let order = order(shared, spec, &launch, image, expected)?;
    let order = serde_json::to_string(&order).map_err(VerifyError::Order)?;
    let (_, stdout) = run(shared, &launch, program, &["verify", &order]).await?;
    // A line that is not a finding counts as a missing finding.
    Ok(stdout.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect())
}

async fn exit_code(shared: &Shared, launch: &Launch, program: &Mount) -> Result<Finding, SandboxError> {
    let launch = Launch { limits: launch.limits.timeout(LONGEST), ..launch.clone() };
    let (end, _) = run(shared, &launch, program, &["exit", &CODE.to_string()]).await?;
    Ok(Finding::new(
        Check::ExitCodePreserved,
        end.exit.code == CODE,
        format!("{CODE} was reported as {}", end.exit.code),
    ))
}

/// A process that ignores requests to end, with another one in a session of its own.
async fn time_limit(shared: &Shared, launch: &Launch, program: &Mount) -> Result<Finding, SandboxError> {
    let launch = Launch {
        limits: launch.limits.timeout(SHORT),
        isolation: Isolation { stop_timeout: GRACE, ..launch.isolation.clone() },
        ..launch.clone()
    };
    let started = start(shared, &launch, program, &["attempt", "outlive"]).await?;
    // The limit counts from here: the time that an engine takes to create a container is
    // irrelevant.
    let begun = std::time::Instant::now();
    let ran = tokio::time::timeout(LATEST, finish(&launch, started)).await;
    let took = begun.elapsed().as_millis();
    Ok(match ran {
        Ok(ran) => {
            let (end, _) = ran?;
            Finding::new(
                Check::TimeoutEnforced,
                end.ended == Ended::Timeout,
                format!("{:?} after {took} ms, exit code {}", end.ended, end.exit.code),
            )
        }
        Err(_) => Finding::new(Check::TimeoutEnforced, false, format!("still running after {took} ms")),
    })
}

/// Runs the program, and waits until its container is removed.
async fn run(
    shared: &Shared,
    launch: &Launch,
    program: &Mount,
    arguments: &[&str],
) -> Result<(End, Vec<u8>), SandboxError> {
    finish(launch, start(shared, launch, program, arguments).await?).await
}

async fn start(
    shared: &Shared,
    launch: &Launch,
    program: &Mount,
    arguments: &[&str],
) -> Result<Started, SandboxError> {
    let program = Program {
        // The image's entry point could print anything.
        entrypoint: Some(vec![INSIDE.to_owned()]),
        command: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
        mounts: vec![program.clone()],
        ..Program::default()
    };
    Box::pin(task::start(shared, launch, program, ProcessInput::Written)).await
}

async fn finish(launch: &Launch, started: Started) -> Result<(End, Vec<u8>), SandboxError> {
    // Nothing is held for the mounts: those that need it were refused.
    let Started { program, proxy, .. } = started;
    let LaunchedProgram { stdin, output, control: handle } = program;
    // It reads nothing, and an intermediate process may mistake the end of its input for the end of
    // its output.
    drop(stdin);
    let mut stdout = Report(Capture::new(OUTPUT));
    let end = task::drive(
        output,
        &*handle,
        launch.limits.timeout,
        &StopSwitch::new(),
        std::future::pending(),
        &mut stdout,
    )
    .await;
    task::tear_down(async { Ok(handle.remove().await?) }, proxy, tokio::sync::oneshot::channel().0).await?;
    Ok((end?, stdout.0.into_bytes()))
}

/// The output of `sandbox-inside verify` on its stdout.
struct Report(Capture);

impl Sink for Report {
    async fn take(&mut self, chunk: Chunk) -> ControlFlow<Ended> {
        if let Chunk::Stdout(bytes) = chunk {
            self.0.push(&bytes);
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandbox_workspace::Protection;

    #[test]
    fn guarded_mount_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let writable = || Mount::read_write(folder.path(), "/x");
        for (mount, good) in [
            (Mount::read_only_at(folder.path(), "/x").protected(Protection::default()), true),
            (writable(), true),
            (writable().protected(Protection::none()), true),
            (writable().protected(Protection::default()), false),
            (Mount::copy_on_write(folder.path(), "/x", "/copy"), false),
        ] {
            let refused = refuse_guarded(std::slice::from_ref(&mount));
            assert_eq!(refused.is_ok(), good, "{mount:?}");
        }
    }
}

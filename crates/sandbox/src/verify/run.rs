//! The containers of a verification.

use std::time::Duration;

use sandbox_verify_probe::Finding;

use crate::container::{Chunk, Running};
use crate::context::Shared;
use crate::engine::ImageFacts;
use crate::error::{SandboxError, VerifyError};
use crate::spec::{InvalidSpec, Isolation, Launch, Mount, ResourceLimits};
use crate::stop_switch::StopSwitch;
use crate::task::{self, Capture, End, Ended, Program, Started};

use super::order::order;
use super::promise::checks;
use super::report::VerifyReport;
use super::{VerifySpec, program};

/// Where the containers see the probe.
const PROBE: &str = "/run/sandbox/probe";
/// How long all checks may take: some have to wait for an answer that does not come.
const LONGEST: Duration = Duration::from_mins(2);
/// The time limit that is verified, and what may be added to it: the time to end by itself, and the work of the engine.
const SHORT: Duration = Duration::from_secs(1);
const GRACE: Duration = Duration::from_secs(1);
const LATEST: Duration = Duration::from_secs(20);
/// Far more than all findings need.
const OUTPUT: usize = 1 << 20;
/// An exit code that nothing else gives.
const CODE: i64 = 42;

/// Makes all checks. What cannot be launched is an error; what does not hold is in the report.
pub(crate) async fn verify(shared: &Shared, spec: &VerifySpec) -> Result<VerifyReport, SandboxError> {
    let (isolation, limits) = &spec.made;
    let mut whole = launch(spec, isolation.clone(), *limits);
    whole.validate()?;
    refuse_guarded(&spec.mounts)?;
    whole.resolve_mounts(&task::resolver(shared.state_dir(), &whole.mounts)?)?;
    let spec = &VerifySpec {
        mounts: whole.mounts.clone(),
        ..spec.clone()
    };
    let expected = checks(spec);
    let image = shared.engine().image(spec.image.as_str()).await?;
    let image = image.ok_or_else(|| SandboxError::NoImage(spec.image.clone()))?;
    let probe = Mount::read_only_at(program::place(shared.config())?, PROBE);
    let (inside, code, time) = tokio::join!(
        Box::pin(inside(shared, spec, &image, &probe, &expected)),
        Box::pin(exit_code(shared, &whole, &probe)),
        Box::pin(time_limit(shared, &whole, &probe)),
    );
    let mut findings = inside?;
    findings.extend([code?, time?]);
    Ok(VerifyReport::new(&expected, &findings))
}

/// Several containers have the mounts at once, and programs of the image run in them: nobody would look for what they planted.
fn refuse_guarded(mounts: &[Mount]) -> Result<(), InvalidSpec> {
    let Some(mount) = mounts.iter().find(|mount| mount.is_guarded()) else {
        return Ok(());
    };
    Err(InvalidSpec::new(
        "mounts",
        format!(
            "`{}` is protected or a copy, which a verification cannot use; mount it read-only",
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
    probe: &Mount,
    expected: &[&'static str],
) -> Result<Vec<Finding>, SandboxError> {
    let order = order(shared, spec, image, PROBE, expected)?;
    let order = serde_json::to_string(&order).map_err(VerifyError::Order)?;
    let (isolation, limits) = &spec.made;
    let limits = ResourceLimits {
        timeout: Some(LONGEST),
        ..*limits
    };
    let launch = launch(spec, isolation.clone(), limits);
    let (_, stdout) = run(shared, &launch, probe, &["verify", &order]).await?;
    // A line that is no finding is a finding that is missing.
    Ok(stdout
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect())
}

async fn exit_code(shared: &Shared, launch: &Launch, probe: &Mount) -> Result<Finding, SandboxError> {
    let launch = Launch {
        limits: ResourceLimits {
            timeout: Some(LONGEST),
            ..launch.limits
        },
        ..launch.clone()
    };
    let (end, _) = run(shared, &launch, probe, &["exit", &CODE.to_string()]).await?;
    Ok(finding(
        "exit_code_preserved",
        end.exit.code == CODE,
        format!("{CODE} came back as {}", end.exit.code),
    ))
}

/// A process that cannot be asked to end, with another in a session of its own.
async fn time_limit(shared: &Shared, launch: &Launch, probe: &Mount) -> Result<Finding, SandboxError> {
    let launch = Launch {
        limits: ResourceLimits {
            timeout: Some(SHORT),
            ..launch.limits
        },
        isolation: Isolation {
            stop_timeout: GRACE,
            ..launch.isolation.clone()
        },
        ..launch.clone()
    };
    let begun = std::time::Instant::now();
    let ran = tokio::time::timeout(LATEST, run(shared, &launch, probe, &["attempt", "outlive"])).await;
    let took = begun.elapsed().as_millis();
    Ok(match ran {
        Ok(ran) => {
            let (end, _) = ran?;
            finding(
                "timeout_enforced",
                end.ended == Ended::Timeout,
                format!("{:?} after {took} ms, exit code {}", end.ended, end.exit.code),
            )
        }
        Err(_) => finding("timeout_enforced", false, format!("it still ran after {took} ms")),
    })
}

fn finding(id: &str, held: bool, detail: String) -> Finding {
    Finding {
        id: id.to_owned(),
        category: sandbox_verify_probe::Category::Limits,
        held,
        detail,
    }
}

/// Runs the probe, and waits until nothing is left of it.
async fn run(
    shared: &Shared,
    launch: &Launch,
    probe: &Mount,
    arguments: &[&str],
) -> Result<(End, Vec<u8>), SandboxError> {
    let program = Program {
        // The image's entry point could say what it likes.
        entrypoint: Some(vec![PROBE.to_owned()]),
        command: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
        mounts: vec![probe.clone()],
    };
    // Nothing is held for the mounts: those that need it were refused.
    let Started { running, proxy, .. } = Box::pin(task::start(shared, launch, program)).await?;
    let Running {
        stdin,
        output,
        handle,
    } = running;
    drop(stdin);
    let mut stdout = Capture::new(OUTPUT);
    let end = task::drive(
        output,
        &handle,
        launch.limits.timeout,
        &StopSwitch::new(),
        async |chunk| {
            if let Chunk::Stdout(bytes) = chunk {
                stdout.push(&bytes);
            }
            true
        },
    )
    .await;
    task::take_down(handle, proxy).await?;
    Ok((end?, stdout.into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandbox_workspace::Protection;

    #[test]
    fn mounts_that_need_somebody_to_look_after_them_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let writable = || Mount::read_write(folder.path(), "/x");
        for (mount, good) in [
            (
                Mount::read_only_at(folder.path(), "/x").protected(Protection::default()),
                true,
            ),
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

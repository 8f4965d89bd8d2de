//! The order of the checks: prerequisites of others come first.

use sandbox::{Sandbox, SandboxConfig};

use crate::args::Output;
use crate::config::Environment;
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::Project;

use super::report::{Check, Report};
use super::{engine, host, project, trial};

/// Runs all checks that are possible, regardless of failures of others. `config` is not called
/// without a project.
pub(crate) async fn doctor(
    project: Result<Project, Failure>,
    config: impl FnOnce() -> Result<SandboxConfig, Failure>,
    environment: &Environment,
    output: Output,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let mut checks = project::checks(&project, environment);
    match project.is_ok().then(config) {
        Some(Ok(config)) => checks.extend(with_config(config).await),
        Some(Err(failure)) => checks.push(Check::failed("engine", &failure)),
        None => {}
    }
    Ok(Report::new(checks).print(output, printer))
}

async fn with_config(config: SandboxConfig) -> Vec<Check> {
    let mut checks = host::checks(&config);
    let address = config.engine.to_string();
    let sandbox = match Sandbox::start(config).await {
        Ok(sandbox) => sandbox,
        Err(error) => {
            checks.push(Check::failed("engine", &error.into()));
            return checks;
        }
    };
    checks.extend(engine::checks(&sandbox, &address).await);
    checks.push(trial::check(&sandbox).await);
    if let Err(error) = sandbox.shutdown().await {
        checks.push(Check::failed("clean-up", &error.into()));
    }
    checks
}

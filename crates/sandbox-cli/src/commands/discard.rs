//! `discard`: throws away what a task changed in its copy of the work tree.

use sandbox::SandboxConfig;

use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::TrustedProject;
use crate::workspace_copy::settled;

use super::diff::NO_COPY;

/// Throws it away. Where there is none, that is as good.
pub(crate) async fn discard(
    project: &TrustedProject,
    sandbox: impl FnOnce() -> Result<SandboxConfig, Failure>,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    match settled(&project.copy_dir(), sandbox).await? {
        Some(copy) => copy.discard()?,
        None => printer.message(NO_COPY),
    }
    Ok(ExitStatus::Success)
}

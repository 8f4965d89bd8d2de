//! `discard`: throws away what a task changed in its copy of the work tree.

use sandbox::SandboxConfig;
use sandbox::workspace::{WorkspaceCopy, WorkspaceError};

use crate::exit_status::ExitStatus;
use crate::failure::{Failure, with_causes};
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
    let dir = project.copy_dir();
    if let Err(error @ WorkspaceError::Unfinished { .. }) = WorkspaceCopy::open(&dir) {
        WorkspaceCopy::discard_in(&dir)?;
        printer.warning(format_args!("a part of it had come, and stays: {}", with_causes(&error)));
        return Ok(ExitStatus::Success);
    }
    match settled(&dir, sandbox).await? {
        Some(copy) => copy.discard()?,
        None => printer.message(NO_COPY),
    }
    Ok(ExitStatus::Success)
}

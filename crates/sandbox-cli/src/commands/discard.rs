//! `discard`: discards a task's changes in its copy of the work tree.

use sandbox::workspace::{WorkspaceCopy, WorkspaceError};
use sandbox::{SandboxConfig, SandboxError};

use crate::exit_status::ExitStatus;
use crate::failure::{Failure, with_causes};
use crate::printer::Printer;
use crate::settings::TrustedProject;
use crate::workspace_copy::settled;

use super::diff::NO_COPY;

/// Discards the copy; succeeds if there is none.
pub(crate) async fn discard(
    project: &TrustedProject,
    sandbox: impl FnOnce() -> Result<SandboxConfig, Failure>,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let dir = project.copy_dir();
    match WorkspaceCopy::open(&dir) {
        Err(error @ WorkspaceError::Busy { .. }) => return Err(SandboxError::from(error).into()),
        // An interrupted apply that can never be finished is reported once, and discarded.
        Err(error) => {
            WorkspaceCopy::discard_in(&dir)?;
            printer
                .warning(format_args!("changes that were already applied remain: {}", with_causes(&error)));
            return Ok(ExitStatus::Success);
        }
        Ok(_) => {}
    }
    match settled(&dir, sandbox).await? {
        Some(copy) => copy.discard()?,
        None => printer.message(NO_COPY),
    }
    Ok(ExitStatus::Success)
}

//! `discard`: throws away what a task changed in its copy of the work tree.

use sandbox::WorkspaceCopy;

use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::Project;

use super::diff::NO_COPY;

/// Throws it away. Where there is none, that is as good.
pub(crate) fn discard(project: &Project, printer: Printer) -> Result<ExitStatus, Failure> {
    match WorkspaceCopy::open(project.copy_dir())? {
        Some(copy) => copy.discard()?,
        None => printer.message(NO_COPY),
    }
    Ok(ExitStatus::Success)
}

//! Points at which a test makes an apply stop as if the power had failed.

use std::path::Path;

use super::super::error::WorkspaceError;

/// A point of an apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FailPoint {
    Staged,
    Journalled,
    Stepped,
    Importing,
    Imported,
    Committed,
    Failed,
    Undone,
    Cleaning,
    Cleaned,
}

/// Returns whether to continue.
pub(super) type FailPoints<'a> = &'a mut dyn FnMut(FailPoint) -> bool;

/// Only a test stops an apply here.
pub(super) fn stopped(fail_points: FailPoints<'_>, point: FailPoint) -> Result<(), WorkspaceError> {
    if fail_points(point) {
        return Ok(());
    }
    Err(WorkspaceError::unreadable(Path::new(""), "stopped by a test"))
}

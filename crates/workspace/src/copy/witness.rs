//! Moments at which a test makes an apply stop as if the power had failed.

use std::path::Path;

use super::super::error::WorkspaceError;

/// A moment of an apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    Staged,
    Journalled,
    Stepped,
    Committed,
    Failed,
    Undone,
    Cleaning,
    Cleaned,
}

/// Whether to go on.
pub(super) type Witness<'a> = &'a mut dyn FnMut(Moment) -> bool;

/// Only a test ever stops it here.
pub(super) fn stopped(witness: Witness<'_>, moment: Moment) -> Result<(), WorkspaceError> {
    if witness(moment) {
        return Ok(());
    }
    Err(WorkspaceError::unreadable(Path::new(""), "stopped by a test"))
}

//! Points at which a test makes an import stop as if the power had failed.

use std::io;
use std::path::Path;

use crate::Error;

/// A point of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailPoint {
    Packing,
    Packed,
    Early,
    Refs,
    Symbolic,
    Stashes,
    Head,
    IndexLocked,
    Index,
    Operating,
    Operation,
    Setting,
    Settings,
}

const STOP: &str = "stop";

/// Returns whether to continue.
pub(crate) type FailPoints<'a> = &'a mut dyn FnMut(FailPoint) -> bool;

/// Only a test stops an import here.
pub(crate) fn stopped(fail_points: FailPoints<'_>, point: FailPoint) -> Result<(), Error> {
    if fail_points(point) {
        return Ok(());
    }
    Err(Error::files(STOP, Path::new(""))(io::Error::other("stopped by a test")))
}

/// Whether a test stopped the import.
pub(crate) fn is_stop(error: &Error) -> bool {
    matches!(error, Error::Files { operation: STOP, .. })
}

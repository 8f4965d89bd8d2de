//! Records of this program for itself or a later one: JSON in the sandbox's own state directory,
//! which no task can write.

use std::path::Path;

use sandbox_files::{Replacement, read_if_present};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::WorkspaceError;

/// The record at `path`; `None` if there is none.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, WorkspaceError> {
    let text = read_if_present(path).map_err(|source| WorkspaceError::new("read", path, source))?;
    text.map(|text| serde_json::from_slice(&text))
        .transpose()
        .map_err(|error| WorkspaceError::unreadable(path, error.to_string()))
}

/// Writes `what` to `path`. A start does not wait for the disk: a record that a machine failure
/// damages is reported, or refused.
pub(super) fn write<T: Serialize>(path: &Path, what: &T) -> Result<(), WorkspaceError> {
    replace(path, what, Replacement::private())
}

/// As [`write`], but it is on the disk before this returns.
pub(super) fn write_durably<T: Serialize>(path: &Path, what: &T) -> Result<(), WorkspaceError> {
    replace(path, what, Replacement::private().durable())
}

fn replace<T: Serialize>(path: &Path, what: &T, replacement: Replacement) -> Result<(), WorkspaceError> {
    serde_json::to_vec(what)
        .map_err(Into::into)
        .and_then(|text| replacement.write(path, &text))
        .map_err(|source| WorkspaceError::new("write", path, source))
}

//! What this program notes for itself or a later one: JSON in the sandbox's own state directory, which no task can write.

use std::path::Path;

use sandbox_files::{Replacement, read_if_present};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::WorkspaceError;

/// What is noted at `path`; `None` where nothing is.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, WorkspaceError> {
    let text = read_if_present(path).map_err(|source| WorkspaceError::new("read", path, source))?;
    text.map(|text| serde_json::from_slice(&text))
        .transpose()
        .map_err(|error| WorkspaceError::unreadable(path, error.to_string()))
}

/// Notes `what` at `path`. A start does not wait for the disk: what a failure of the machine leaves then is reported, or refused.
pub(super) fn write<T: Serialize>(path: &Path, what: &T) -> Result<(), WorkspaceError> {
    replace(path, what, Replacement::private())
}

/// The same, on the disk before this returns.
pub(super) fn write_durably<T: Serialize>(path: &Path, what: &T) -> Result<(), WorkspaceError> {
    replace(path, what, Replacement::private().durable())
}

fn replace<T: Serialize>(path: &Path, what: &T, replacement: Replacement) -> Result<(), WorkspaceError> {
    serde_json::to_vec(what)
        .map_err(Into::into)
        .and_then(|text| replacement.write(path, &text))
        .map_err(|source| WorkspaceError::new("write", path, source))
}

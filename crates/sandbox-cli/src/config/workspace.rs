//! What `sandbox.yaml` says about the work tree.

use crate::workspace::WorkspaceMode;

use super::location::InvalidFile;
use super::reader::Place;

/// What concerns the work tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct WorkspaceFile {
    pub(crate) mode: Option<WorkspaceMode>,
    pub(crate) protect: Option<bool>,
    /// Relative to the work tree.
    pub(crate) protected_paths: Vec<String>,
}

pub(super) fn mode(place: &Place<'_>) -> Result<WorkspaceMode, InvalidFile> {
    place.parsed("`workspace` is auto, copy or direct", |text| match text {
        "auto" => Some(WorkspaceMode::Auto),
        "direct" => Some(WorkspaceMode::Direct),
        "copy" => Some(WorkspaceMode::Copy),
        _ => None,
    })
}

pub(super) fn protected_paths(place: &Place<'_>) -> Result<Vec<String>, InvalidFile> {
    let shape = "`protected_paths` is a list of paths in the work tree, as in [ci/deploy.sh, .bazelrc]";
    place.items(shape, |item| {
        let text = item.text("a path is a text")?;
        let plain = !text.is_empty()
            && text.split('/').all(|part| part != ".." && part != ".")
            && !text.starts_with('/');
        if plain {
            Ok(text.to_owned())
        } else {
            Err(item.problem("a path is relative to the work tree, without `.` and `..`"))
        }
    })
}

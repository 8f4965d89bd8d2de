//! What `sandbox.yaml` says about builds of images.

use std::path::{Path, PathBuf};

use super::location::InvalidFile;
use super::reader::Place;

/// What the steps of a build may reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BuildFile {
    /// What the allowlist at this path permits.
    Allowlist(PathBuf),
    /// Whatever the engine's host reaches: such a build is not sandboxed.
    HostNetwork,
}

pub(super) const BUILD_KEYS: [&str; 2] = ["allowlist", "network"];

/// Reads the part `build`; `folder` is what relative paths are relative to.
pub(super) fn build(place: &Place<'_>, folder: &Path) -> Result<BuildFile, InvalidFile> {
    let mut build = None;
    place.entries("`build` is a mapping", &BUILD_KEYS, |key, name, value| {
        let read = if name == "allowlist" {
            BuildFile::Allowlist(folder.join(value.text("`allowlist` is a path")?))
        } else {
            value.parsed("`network` is host", |text| {
                (text == "host").then_some(BuildFile::HostNetwork)
            })?
        };
        match build.replace(read) {
            Some(_) => {
                Err(key.problem("a build on the host's network has no allowlist: keep one of the two"))
            }
            None => Ok(()),
        }
    })?;
    build.ok_or_else(|| place.problem("`build` says nothing: use `allowlist` or `network`"))
}

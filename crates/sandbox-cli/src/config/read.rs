//! Reading `sandbox.yaml`.

use std::path::Path;

use located_yaml::InvalidFile;
use sandbox::host_path::{Found, Resolver};

use super::conflict;
use super::file::ConfigFile;
use super::text::read_text;
use crate::failure::Failure;

impl ConfigFile {
    /// Reads the file at `path`, which errors call `label`; `None` when it is not there. Gives its text and what it was found to be as well.
    pub(crate) fn read(
        resolver: &Resolver,
        path: &Path,
        label: &str,
    ) -> Result<Option<(Self, Found, String)>, Failure> {
        let Some((found, text)) = read_text(resolver, path, label)? else {
            return Ok(None);
        };
        let folder = path.parent().unwrap_or(Path::new("/"));
        let file = Self::parse(&text, label, folder)?;
        Ok(Some((file, found, text)))
    }

    /// Reads a document; `folder` is what relative paths are relative to.
    pub(super) fn parse(text: &str, file: &str, folder: &Path) -> Result<Self, InvalidFile> {
        let read = Self::check(located_yaml::read_without_nul(file, text)?, folder)?;
        conflict::refuse(&read)?;
        Ok(read)
    }
}

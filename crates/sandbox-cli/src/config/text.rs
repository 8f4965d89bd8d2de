//! Files that people write.

use std::fs;
use std::io;
use std::path::Path;

use super::location::{InvalidFile, Location};
use crate::failure::Failure;

/// The text of the file at `path`, which errors call `label`; `None` when it is not there.
pub(crate) fn read_text(path: &Path, label: &str) -> Result<Option<String>, Failure> {
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(Failure::doing(format!("read `{}`", path.display())))?,
    };
    let text = located_yaml::text(&bytes)
        .map_err(|fault| InvalidFile::new(&Location::new(label, fault.position), fault.message))?;
    Ok(Some(text.to_owned()))
}

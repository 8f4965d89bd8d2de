//! Files that people write.

use std::path::Path;

use sandbox::host_path::{Found, Resolver};

use crate::failure::Failure;
use located_yaml::{InvalidFile, Location};

/// What is longer is none of ours: 16 MiB.
const LONGEST: u64 = 16 << 20;

/// The text of the file at `path`, which errors call `label`; `None` when it is not there.
pub(crate) fn read_text(
    resolver: &Resolver,
    path: &Path,
    label: &str,
) -> Result<Option<(Found, String)>, Failure> {
    let Some((found, bytes)) = resolver.read(path, LONGEST)? else {
        return Ok(None);
    };
    let text = located_yaml::text(&bytes)
        .map_err(|fault| InvalidFile::new(&Location::new(label, fault.position), fault.message))?;
    Ok(Some((found, text.to_owned())))
}

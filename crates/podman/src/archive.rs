//! Files into and out of a container that need not run.

use std::io::Read as _;

use bollard::query_parameters::DownloadFromContainerOptionsBuilder;
use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt as _, TryStreamExt as _};

use crate::connection::{CALL_DEADLINE, Engine, within};
use crate::error::{Cause, EngineError};

/// The largest archive that is read out of a container. Its content is the image's, which may be
/// hostile.
const LARGEST_ARCHIVE: usize = 64 * 1024 * 1024;
/// The bundle of authorities of Debian 13 has 220 KB; a hostile image is not read into memory
/// without end.
const LARGEST_FILE: u64 = 8 * 1024 * 1024;

impl Engine {
    /// The file or folder `path` of a container as tar; `None` when there is none. More than 64 MiB
    /// are an error.
    ///
    /// # Errors
    ///
    /// As of every call: see [`EngineError`]; also when the archive is larger than 64 MiB.
    pub async fn download(&self, container: &str, path: &str) -> Result<Option<Bytes>, EngineError> {
        const OPERATION: &str = "read files of container";
        let object = format!("{container}:{path}");
        let options = DownloadFromContainerOptionsBuilder::default().path(path).build();
        let mut pieces = self.docker().download_from_container(container, Some(options)).boxed();
        let mut archive = BytesMut::new();
        loop {
            match within(CALL_DEADLINE, OPERATION, &object, pieces.try_next()).await {
                Ok(None) => return Ok(Some(archive.freeze())),
                Ok(Some(piece)) if archive.len() + piece.len() <= LARGEST_ARCHIVE => {
                    archive.extend_from_slice(&piece);
                }
                Ok(Some(_)) => {
                    let cause = Cause::Refused(format!("it is larger than {LARGEST_ARCHIVE} bytes"));
                    return Err(EngineError::new(OPERATION, object, cause));
                }
                // Of the file or of the container: both mean that there is no such file.
                Err(error) if error.is_not_found() => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }
}

/// The text of the first plain file of a tar archive, its first 8 MiB; `None` where there is none,
/// as where the archive is of a link. Bytes that are not UTF-8 are replaced.
#[must_use]
pub fn first_file(archive: &[u8]) -> Option<String> {
    let mut archive = tar::Archive::new(archive);
    let file =
        archive.entries().ok()?.filter_map(Result::ok).find(|entry| entry.header().entry_type().is_file())?;
    let mut text = Vec::new();
    file.take(LARGEST_FILE).read_to_end(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_plain_file_counts() {
        let mut builder = tar::Builder::new(Vec::new());
        let mut link = tar::Header::new_gnu();
        link.set_entry_type(tar::EntryType::Symlink);
        link.set_size(0);
        builder.append_link(&mut link, "cert.pem", "certs/ca-certificates.crt").unwrap();
        let mut header = tar::Header::new_gnu();
        header.set_size(3);
        builder.append_data(&mut header, "ca-certificates.crt", &b"pem"[..]).unwrap();
        assert_eq!(first_file(&builder.into_inner().unwrap()).as_deref(), Some("pem"));
        assert_eq!(first_file(b"no archive"), None);
    }
}

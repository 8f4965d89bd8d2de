//! Copies files into and out of a container, which may be stopped.

use std::io::Read as _;

use bollard::query_parameters::DownloadFromContainerOptionsBuilder;
use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt as _, TryStreamExt as _};

use crate::connection::{CALL_DEADLINE, Engine, within};
use crate::error::{Cause, EngineError};

/// Maximum size of an archive read from a container. The image, which may be hostile, controls its
/// content.
const LARGEST_ARCHIVE: usize = 64 * 1024 * 1024;
/// Debian 13's bundle of authorities has 220 KB; the limit protects memory from a hostile image.
const LARGEST_FILE: u64 = 8 * 1024 * 1024;

impl Engine {
    /// The file or folder `path` of a container as tar; `None` if it does not exist. More than 64
    /// MiB are an error.
    ///
    /// # Errors
    ///
    /// Like every call: see [`EngineError`]; also when the archive is larger than 64 MiB.
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
                // Either the file or the container is missing: in both cases there is no such file.
                Err(error) if error.is_not_found() => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }
}

/// The text of the first plain file of a tar archive, at most 8 MiB; `None` if there is none, for
/// example if the archive is of a link. Invalid UTF-8 is replaced.
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
    fn first_plain_file_is_read() {
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

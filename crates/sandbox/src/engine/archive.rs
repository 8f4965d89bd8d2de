//! Files into and out of a container that need not run.

use bollard::query_parameters::DownloadFromContainerOptionsBuilder;
use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt as _, TryStreamExt as _};

use super::connection::{CALL_DEADLINE, Engine, within};
use super::error::{Cause, EngineError};

/// The largest archive that is read out of a container. Its content is the image's, which may be hostile.
const LARGEST_ARCHIVE: usize = 64 * 1024 * 1024;

impl Engine {
    /// The file or folder `path` of a container as tar; `None` when there is none. More than 64 MiB are an error.
    pub(crate) async fn download(&self, container: &str, path: &str) -> Result<Option<Bytes>, EngineError> {
        const OPERATION: &str = "read files of container";
        let object = format!("{container}:{path}");
        let options = DownloadFromContainerOptionsBuilder::default().path(path).build();
        let mut pieces = self
            .docker()
            .download_from_container(container, Some(options))
            .boxed();
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

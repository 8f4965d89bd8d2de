//! Images as archives, to move them between machines.

use tokio::io::{AsyncRead, AsyncWrite};

use crate::error::ImageBuildError;
use sandbox_podman::Engine;

/// Writes the images `tags` with all their layers to one archive.
pub(crate) async fn save(
    engine: &Engine,
    tags: &[&str],
    writer: &mut (dyn AsyncWrite + Send + Unpin),
) -> Result<(), ImageBuildError> {
    for tag in tags {
        if engine.image(tag).await?.is_none() {
            return Err(ImageBuildError::NotFound { name: tag.escape_debug().to_string() });
        }
    }
    Ok(engine.export_images(tags, writer).await?)
}

/// Loads the images of an archive and returns their tags.
pub(crate) async fn load(
    engine: &Engine,
    reader: impl AsyncRead + Send + Unpin + 'static,
) -> Result<Vec<String>, ImageBuildError> {
    Ok(engine.load_images(reader).await?)
}

//! File operations on a thread where waiting for a disk does not block the runtime.

use std::path::Path;

use super::ProxyError;

pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ProxyError> + Send + 'static,
) -> Result<T, ProxyError> {
    let gone =
        |error: tokio::task::JoinError| ProxyError::file("use", Path::new("state directory"))(error.into());
    tokio::task::spawn_blocking(work).await.map_err(gone)?
}

//! The image of proxies: the static program and nothing else.

use bytes::Bytes;

use crate::config::SandboxConfig;
use crate::egress::ProxyError;
use crate::engine::{BuildNetwork, BuildRequest, Engine};
use crate::image::{self, FileLock, ImageKind};
use crate::program::StaticProgram;

/// Where the image has the program.
pub(super) const PROGRAM: &str = "/sandbox-proxy";
const DOCKERFILE: &str = "FROM scratch\nCOPY sandbox-proxy /sandbox-proxy\nENTRYPOINT [\"/sandbox-proxy\"]\n";

/// Builds the image of `binary` unless it is there; returns its id, which stays the same whoever builds that tag anew.
pub(in crate::egress) async fn ensure_image(
    engine: &Engine,
    config: &SandboxConfig,
    binary: &StaticProgram,
) -> Result<String, ProxyError> {
    let prefix = &config.prefix;
    let tag = image::tag(prefix, ImageKind::Proxy, &binary.sha256);
    if let Some(image) = engine.image(&tag).await? {
        return Ok(image.id);
    }
    let path = config
        .state_dir
        .join("locks")
        .join(format!("{prefix}-proxy-image.lock"));
    let _turn = FileLock::exclusive(&path)
        .await
        .map_err(ProxyError::file("lock", &path))?;
    if engine.image(&tag).await?.is_none() {
        let tar = context(binary).map_err(ProxyError::file("archive", "sandbox-proxy"))?;
        let request = BuildRequest {
            tag: tag.clone(),
            tar,
            no_cache: false,
            labels: image::labels(prefix, ImageKind::Proxy, None),
            network: BuildNetwork::None,
        };
        engine
            .build(request, &mut |line: &str| tracing::debug!(line, "proxy image"))
            .await?;
    }
    let image = engine.image(&tag).await?;
    image
        .map(|image| image.id)
        .ok_or_else(|| ProxyError::ImageVanished { tag })
}

fn context(binary: &StaticProgram) -> std::io::Result<Bytes> {
    let mut builder = tar::Builder::new(Vec::with_capacity(binary.content.len() + 4096));
    for (name, mode, content) in [
        ("Dockerfile", 0o644, DOCKERFILE.as_bytes()),
        ("sandbox-proxy", 0o755, &binary.content),
    ] {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(mode);
        header.set_mtime(0);
        builder.append_data(&mut header, name, content)?;
    }
    Ok(builder.into_inner()?.into())
}

//! The proxies' image: the static program and nothing else.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use bytes::Bytes;

use crate::config::SandboxConfig;
use crate::egress::ProxyError;
use crate::egress::blocking::blocking;
use crate::image_store::{self, ImageKind};
use crate::program::StaticProgram;
use sandbox_files::{FileLock, Replacement, create_folder};
use sandbox_podman::{BuildRequest, Engine};

/// The path of the program in the image.
pub(crate) const PROGRAM: &str = "/sandbox-proxy";

/// The id of an image of `binary` that was built for this state directory; builds it if it is
/// missing.
///
/// A tag proves nothing: a loaded archive can have any. So the id of the built image is stored,
/// which no other image can have, and layers that the engine has from elsewhere are not used. The
/// image has no timestamps, so that the same program gives the same image in every state directory,
/// and none takes another's tag.
pub(in crate::egress) async fn ensure_image(
    engine: &Engine,
    config: &SandboxConfig,
    binary: StaticProgram,
) -> Result<String, ProxyError> {
    let prefix = &config.prefix;
    let tag = image_store::tag(prefix, ImageKind::Proxy, &binary.sha256);
    let record = config.state_dir.join("proxy-images").join(format!("{prefix}-{}", binary.sha256));
    if let Some(id) = built(engine, &record).await? {
        return Ok(id);
    }
    let path = config.state_dir.join("locks").join(format!("{prefix}-proxy-image.lock"));
    let _turn = FileLock::exclusive(&path).await.map_err(ProxyError::file("lock", &path))?;
    if let Some(id) = built(engine, &record).await? {
        return Ok(id);
    }
    let dockerfile = dockerfile(prefix);
    let archive = move || context(&dockerfile, &binary).map_err(ProxyError::file("archive", "sandbox-proxy"));
    let tar = blocking(archive).await?;
    let request = BuildRequest {
        no_cache: true,
        single_layer: true,
        timeless: true,
        ..BuildRequest::new(&*tag, tar, BTreeMap::new())
    };
    let id = engine.build(request, &mut |line: &str| tracing::debug!(line, "proxy image")).await?;
    let image = engine.image(&id).await?;
    let id = image.ok_or(ProxyError::ImageVanished { tag })?.id;
    let written = record
        .parent()
        .map_or(Ok(()), |folder| create_folder(folder, 0o700))
        .and_then(|()| Replacement::private().write(&record, id.as_bytes()));
    written.map_err(ProxyError::file("write", &record))?;
    Ok(id)
}

/// The id stored in `record`, if the engine still has that image.
async fn built(engine: &Engine, record: &Path) -> Result<Option<String>, ProxyError> {
    let id = match fs::read_to_string(record) {
        Ok(id) if id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit()) => id,
        Ok(_) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(ProxyError::file("read", record)(error)),
    };
    Ok(engine.image(&id).await?.map(|image| image.id))
}

/// The image id of the program that would be used.
pub(crate) async fn image_of(engine: &Engine, config: &SandboxConfig) -> Result<String, ProxyError> {
    let found = config.clone();
    let binary = blocking(move || Ok(StaticProgram::proxy(&found)?)).await?;
    ensure_image(engine, config, binary).await
}

/// The labels are in one line: labels of a request are a line each in an image's history, in an
/// order that podman 4 randomizes.
fn dockerfile(prefix: &str) -> String {
    let labels = image_store::labels(prefix, ImageKind::Proxy, None);
    let labels: Vec<_> = labels.iter().map(|(name, value)| format!("\"{name}\"=\"{value}\"")).collect();
    let labels = labels.join(" ");
    format!("FROM scratch\nLABEL {labels}\nCOPY sandbox-proxy {PROGRAM}\nENTRYPOINT [\"{PROGRAM}\"]\n")
}

/// Blocks.
fn context(dockerfile: &str, binary: &StaticProgram) -> io::Result<Bytes> {
    let binary = binary.content()?;
    let mut builder = tar::Builder::new(Vec::with_capacity(binary.len() + 4096));
    for (name, mode, content) in
        [("Dockerfile", 0o644, dockerfile.as_bytes()), ("sandbox-proxy", 0o755, &binary)]
    {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(mode);
        header.set_mtime(0);
        builder.append_data(&mut header, name, content)?;
    }
    Ok(builder.into_inner()?.into())
}

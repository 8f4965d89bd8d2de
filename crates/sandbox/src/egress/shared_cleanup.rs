//! Removes the objects that all instances of a prefix share, when none of them needs them any more.

use std::io;
use std::path::PathBuf;

use crate::config::SandboxConfig;
use crate::image_store;
use crate::instance;
use crate::labels::Labels;
use crate::reap::others_alive;
use sandbox_files::FileLock;
use sandbox_podman::Engine;

use super::ProxyError;
use super::network::egress_name;

/// The file on which each user of the egress network holds a shared lock.
pub(super) fn lock_path(config: &SandboxConfig) -> PathBuf {
    config.state_dir.join("locks").join(format!("{}.lock", egress_name(&config.prefix)))
}

/// The folder of the trust files of all images.
pub(super) fn trust_folder(config: &SandboxConfig) -> PathBuf {
    config.state_dir.join("trust-files")
}

/// Removes the egress network if it exists and no instance uses it: neither one with this state
/// directory, with or without objects, nor one with another state directory and objects with the
/// same prefix. Returns its name if it was removed.
pub(crate) async fn remove_unused_network(
    engine: &Engine,
    config: &SandboxConfig,
    own: &Labels,
) -> Result<Option<String>, ProxyError> {
    let name = egress_name(own.owner());
    if !engine.network_exists(&name).await? {
        return Ok(None);
    }
    let Some(_alone) = alone(engine, config, own).await? else { return Ok(None) };
    engine.remove_network(&name).await?;
    Ok(Some(name))
}

/// The lock on the shared objects, if no instance uses them. A dead proxy that is still to be removed
/// uses them too.
async fn alone(
    engine: &Engine,
    config: &SandboxConfig,
    own: &Labels,
) -> Result<Option<FileLock>, ProxyError> {
    let path = lock_path(config);
    let alone = FileLock::try_exclusive(&path).map_err(ProxyError::file("lock", &path))?;
    let is_used = !instance::removals(&config.state_dir).is_empty() || others_alive(engine, own).await?;
    Ok(alone.filter(|_| !is_used))
}

/// Removes the egress network, the images of proxies and the trust files, unless an instance uses
/// them, as above. Returns whether they were removed.
pub(crate) async fn remove_shared(
    engine: &Engine,
    config: &SandboxConfig,
    own: &Labels,
) -> Result<bool, ProxyError> {
    let Some(_alone) = alone(engine, config, own).await? else { return Ok(false) };
    engine.remove_network(&egress_name(own.owner())).await?;
    image_store::remove_proxies(engine, own.owner()).await?;
    let trust = trust_folder(config);
    match std::fs::remove_dir_all(&trust) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(ProxyError::file("remove", &trust)(error))
        }
        _ => Ok(true),
    }
}

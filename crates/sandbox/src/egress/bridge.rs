//! The names of the sandbox's bridges. They are chosen here, because a killed service leaves
//! bridges without labels, and only the name identifies their owner.

use std::path::Path;

use sandbox_podman::{Engine, EngineError};
use sha2::{Digest as _, Sha256};

/// The prefix of each name. The kernel accepts 15 bytes: this, four for the engine, and eight for
/// the bridge.
const OURS: &str = "sbx";

/// A name for the bridge of a new network of `engine`.
pub(super) fn fresh_name(engine: &Engine) -> String {
    name_behind(engine.socket())
}

/// The sandbox's bridges on the engine's host that belong to no network: leftovers of a killed
/// service. `None` where the host's interfaces are not visible.
pub(crate) async fn stray_bridges(engine: &Engine) -> Result<Option<Vec<String>>, EngineError> {
    engine.stray_bridges(&prefix(engine.socket())).await
}

fn name_behind(socket: &Path) -> String {
    format!("{}{:08x}", prefix(socket), rand::random::<u32>())
}

/// The prefix of the bridges of the engine behind `socket`. Another engine on the same host has
/// another socket, and other bridges.
fn prefix(socket: &Path) -> String {
    let real = socket.canonicalize();
    let path = real.as_deref().unwrap_or(socket);
    let [first, second, ..] = <[u8; 32]>::from(Sha256::digest(path.as_os_str().as_encoded_bytes()));
    format!("{OURS}{first:02x}{second:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bridge_name_is_valid_and_unique_to_the_engine() {
        let socket = Path::new("/run/podman/podman.sock");
        let (name, other) = (name_behind(socket), name_behind(socket));
        assert_eq!((name.len(), other.len()), (15, 15));
        assert!(name.starts_with(OURS) && name.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        assert_eq!(name.get(..7), other.get(..7));
        assert!(name.starts_with(&prefix(socket)));
        assert!(!name.starts_with(&prefix(Path::new("/run/user/1000/podman/podman.sock"))));
    }

    #[test]
    fn prefix_of_a_socket_is_the_same_for_every_path_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("podman.sock");
        std::fs::write(&socket, "").unwrap();
        let link = folder.path().join("link.sock");
        std::os::unix::fs::symlink(&socket, &link).unwrap();
        assert_eq!(prefix(&link), prefix(&socket));
    }
}

//! The names of our bridges. We choose them: a service that is killed leaves bridges that carry no
//! label, and only the name says whose they were.

use std::path::Path;

use sandbox_podman::{Engine, EngineError};
use sha2::{Digest as _, Sha256};

/// What each name begins with. The kernel takes 15 bytes: this, four of the engine, and eight of
/// the bridge.
const OURS: &str = "sbx";

/// A name for the bridge of a new network of `engine`.
pub(super) fn fresh_name(engine: &Engine) -> String {
    name_behind(engine.socket())
}

/// The bridges of ours that are on the engine's host and belong to no network: what a service that
/// was killed left. `None` where the host's interfaces cannot be seen.
pub(crate) async fn stray_bridges(engine: &Engine) -> Result<Option<Vec<String>>, EngineError> {
    engine.stray_bridges(&beginning(engine.socket())).await
}

fn name_behind(socket: &Path) -> String {
    format!("{}{:08x}", beginning(socket), rand::random::<u32>())
}

/// What the names of all bridges of the engine behind `socket` begin with. Another engine on the
/// same host has another socket, and its bridges are none of ours.
fn beginning(socket: &Path) -> String {
    let real = socket.canonicalize();
    let path = real.as_deref().unwrap_or(socket);
    let [first, second, ..] = <[u8; 32]>::from(Sha256::digest(path.as_os_str().as_encoded_bytes()));
    format!("{OURS}{first:02x}{second:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_that_the_kernel_takes_and_no_other_engine_has() {
        let socket = Path::new("/run/podman/podman.sock");
        let (name, other) = (name_behind(socket), name_behind(socket));
        assert_eq!((name.len(), other.len()), (15, 15));
        assert!(name.starts_with(OURS) && name.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        assert_eq!(name.get(..7), other.get(..7));
        assert!(name.starts_with(&beginning(socket)));
        assert!(!name.starts_with(&beginning(Path::new("/run/user/1000/podman/podman.sock"))));
    }

    #[test]
    fn a_socket_has_one_beginning_whatever_path_leads_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("podman.sock");
        std::fs::write(&socket, "").unwrap();
        let link = folder.path().join("link.sock");
        std::os::unix::fs::symlink(&socket, &link).unwrap();
        assert_eq!(beginning(&link), beginning(&socket));
    }
}

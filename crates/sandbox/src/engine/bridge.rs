//! The bridges of our networks. We choose their names: a service that is killed leaves bridges that carry no label, and only the name tells
//! whose they were.

use std::collections::BTreeSet;
use std::path::Path;

use http::Method;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use tokio::net::UnixStream;

use super::connection::{CALL_DEADLINE, Engine};
use super::error::EngineError;
use super::libpod::Call;

/// What each name begins with. The kernel takes 15 bytes: this, four of the engine, and eight of the bridge.
const OURS: &str = "sbx";

/// A name for the bridge of a network of the engine behind `socket`.
pub(super) fn fresh_name(socket: &Path) -> String {
    format!("{}{:08x}", beginning(socket), rand::random::<u32>())
}

/// What the names of all bridges of the engine behind `socket` begin with. Another engine on the same host has another socket, and its
/// bridges are none of ours.
fn beginning(socket: &Path) -> String {
    let real = socket.canonicalize();
    let path = real.as_deref().unwrap_or(socket);
    let [first, second, ..] = <[u8; 32]>::from(Sha256::digest(path.as_os_str().as_encoded_bytes()));
    format!("{OURS}{first:02x}{second:02x}")
}

impl Engine {
    /// The bridges of ours that are on the engine's host and belong to no network: what a service that was killed left. `None` where the
    /// host's interfaces cannot be seen.
    pub(crate) async fn stray_bridges(&self) -> Result<Option<Vec<String>>, EngineError> {
        let Some(before) = self.bridges().await else {
            return Ok(None);
        };
        let networks = self.network_bridges().await?;
        // One that came or went meanwhile had its network.
        let Some(after) = self.bridges().await else {
            return Ok(None);
        };
        let stays = before
            .intersection(&after)
            .filter(|name| !networks.contains(*name));
        Ok(Some(stays.cloned().collect()))
    }

    /// Our bridges on the engine's host. The process that listens on the socket is in the engine's network, unless it is not root's: such
    /// an engine has its bridges in a network of their own. Each thread is asked: podman leaves the one that made a container's
    /// network in there, and that may be the first.
    async fn bridges(&self) -> Option<BTreeSet<String>> {
        let socket = self.libpod().socket();
        let service = UnixStream::connect(socket).await.ok()?.peer_cred().ok()?;
        let service = (service.uid() == 0).then(|| service.pid())??;
        let threads = std::fs::read_dir(format!("/proc/{service}/task")).ok()?;
        let tables: Vec<String> = threads
            .filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("net/dev")).ok())
            .collect();
        let beginning = beginning(socket);
        (!tables.is_empty()).then(|| tables.iter().flat_map(|table| named(table, &beginning)).collect())
    }

    /// The bridges of all networks of the engine.
    async fn network_bridges(&self) -> Result<BTreeSet<String>, EngineError> {
        #[derive(Deserialize)]
        struct Listed {
            #[serde(default)]
            network_interface: String,
        }
        let call = Call {
            operation: "list networks of",
            object: "the engine",
            method: Method::GET,
            path: "/networks/json".to_owned(),
            body: None,
            deadline: Some(CALL_DEADLINE),
        };
        let found: Option<Vec<Listed>> = self.libpod().json(call).await?;
        let networks = found.unwrap_or_default().into_iter();
        Ok(networks.map(|network| network.network_interface).collect())
    }
}

/// The interfaces in the kernel's table whose names begin with `beginning`.
fn named(table: &str, beginning: &str) -> BTreeSet<String> {
    let names = table
        .lines()
        .filter_map(|line| Some(line.split_once(':')?.0.trim()));
    names
        .filter(|name| name.starts_with(beginning))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_that_the_kernel_takes_and_no_other_engine_has() {
        let socket = Path::new("/run/podman/podman.sock");
        let (name, other) = (fresh_name(socket), fresh_name(socket));
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

    #[test]
    fn interfaces_are_told_from_the_titles_of_the_table() {
        let table = "Inter-|   Receive\n face |bytes\n    lo: 0 0\nsbx1a2b00000001: 5 6\n veth0: 1 2\nsbx1a2c00000002: 7 8\n";
        assert_eq!(
            named(table, "sbx1a2b"),
            BTreeSet::from(["sbx1a2b00000001".to_owned()])
        );
        assert!(named("", "sbx").is_empty());
    }
}

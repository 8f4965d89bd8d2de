//! Finds a podman that the user already runs.

use super::http::{Socket, ping};

/// The first socket on which podman responds, of `CONTAINER_HOST`, `DOCKER_HOST`, the user's own
/// and the system's; with podman's version.
pub(crate) fn find_running() -> Option<(Socket, String)> {
    candidates().into_iter().find_map(|socket| ping(&socket).map(|version| (socket, version)))
}

fn candidates() -> Vec<Socket> {
    let named = ["CONTAINER_HOST", "DOCKER_HOST"]
        .map(|name| std::env::var_os(name).and_then(|v| v.into_string().ok()));
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").and_then(|v| v.into_string().ok());
    named
        .into_iter()
        .flatten()
        .chain(runtime.map(|folder| format!("{folder}/podman/podman.sock")))
        .chain(["/run/podman/podman.sock".to_owned()])
        .filter_map(|text| Socket::parse(&text))
        .collect()
}

//! The Debian system of the Slurm clusters that tests start: a controller, and nodes with podman.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::debian::Debian;

const SYSTEM: Debian = Debian {
    suite: "bookworm",
    packages: &[
        "slurmctld",
        "slurmd",
        "slurm-client",
        "munge",
        "podman",
        "crun",
        "netavark",
        "aardvark-dns",
        "catatonit",
        "uidmap",
        "slirp4netns",
        "iptables",
        "iproute2",
        "ca-certificates",
        "busybox-static",
        "git",
        "procps",
    ],
};

/// The system, built once, with the folders on which a machine mounts: its disk, the file system
/// that all machines share, and its former root.
pub(crate) fn root() -> Result<PathBuf> {
    let root = SYSTEM.folder("slurm")?;
    for name in ["local", "cluster", ".old"] {
        let folder = root.join(name);
        fs::create_dir_all(&folder).with_context(|| format!("failed to create {}", folder.display()))?;
    }
    Ok(root)
}

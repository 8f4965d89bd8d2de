//! The file that the engine reads the profile from.
//!
//! `profile.json` permits what podman's own profile does, but for what makes namespaces and mounts, and for the kernel's key rings, which
//! no namespace separates: with podman's, everybody can make a user namespace, and has every capability in it, which lays much of the
//! kernel open. With the capability `SYS_ADMIN` all of that is permitted again, as it is by podman's.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::container::ContainerError;
use crate::image::hex;

const PROFILE: &str = include_str!("profile.json");

/// The profile below `state_dir`, named after its content, written unless it is there. Blocks.
pub(crate) fn write(state_dir: &Path) -> Result<PathBuf, ContainerError> {
    let folder = state_dir.join("seccomp");
    let digest = Sha256::digest(PROFILE);
    let name = hex(digest.first_chunk::<16>().map_or(&[], |bytes| bytes));
    let path = folder.join(format!("{name}.json"));
    if fs::read_to_string(&path).is_ok_and(|there| there == PROFILE) {
        return Ok(path);
    }
    match replace(&folder, &path) {
        Ok(()) => Ok(path),
        Err(source) => Err(ContainerError::SandboxFile { path, source }),
    }
}

/// Whoever writes the same at the same time writes the same bytes.
fn replace(folder: &Path, path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
    let unfinished = folder.join(format!("{:016x}", rand::random::<u64>()));
    fs::write(&unfinished, PROFILE)?;
    fs::set_permissions(&unfinished, fs::Permissions::from_mode(0o444))?;
    fs::rename(&unfinished, path)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Whether a rule without conditions, or with `capability` alone, permits `call`.
    fn permits(call: &str, capability: Option<&str>) -> bool {
        let profile: Value = serde_json::from_str(PROFILE).unwrap();
        profile["syscalls"].as_array().unwrap().iter().any(|rule| {
            let names = rule["names"].as_array().unwrap();
            let caps = &rule["includes"]["caps"];
            let is_free = rule["includes"].is_null() && rule["args"].is_null();
            let has = capability.is_some_and(|name| {
                caps.as_array()
                    .is_some_and(|caps| caps.iter().any(|cap| cap == name))
            });
            rule["action"] == "SCMP_ACT_ALLOW" && names.iter().any(|name| name == call) && (is_free || has)
        })
    }

    #[test]
    fn what_makes_namespaces_and_mounts_needs_the_capability() {
        for call in [
            "unshare",
            "clone",
            "clone3",
            "setns",
            "mount",
            "move_mount",
            "fsopen",
            "pivot_root",
            "umount2",
        ] {
            assert!(!permits(call, None), "{call}");
            assert!(permits(call, Some("CAP_SYS_ADMIN")), "{call}");
        }
        for call in ["keyctl", "add_key", "userfaultfd", "kexec_load"] {
            assert!(
                !permits(call, None) && !permits(call, Some("CAP_SYS_ADMIN")),
                "{call}"
            );
        }
        for call in [
            "read",
            "execve",
            "fork",
            "vfork",
            "futex",
            "epoll_pwait2",
            "ptrace",
        ] {
            assert!(permits(call, None), "{call}");
        }
    }

    #[test]
    fn the_file_is_written_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = write(dir.path()).unwrap();
        let inode = |path: &Path| std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).unwrap());
        let first = inode(&path);
        assert_eq!(inode(&write(dir.path()).unwrap()), first);
        assert_eq!(fs::read_to_string(&path).unwrap(), PROFILE);
    }
}

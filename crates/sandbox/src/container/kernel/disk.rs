//! The maximum size of a container's root file system, as the kernel reports it.
//!
//! On btrfs a container's root is a subvolume, whose quota is in `/sys/fs/btrfs`. XFS with project
//! quotas reports the quota as the size of the file system, and an overlay reports the size of its
//! upper layer.

use std::fs;
use std::path::Path;

use super::mountinfo::KernelMount;

/// The bit of a group's `limit_flags` that puts `max_referenced` in force.
const LIMITS_REFERENCED: u64 = 1;

/// The maximum bytes of the root file system of the process `pid`. `None`: unbounded or unknown.
/// `host` is the root folder with `/proc` and `/sys`.
pub(in crate::container) fn disk_bound(host: &Path, pid: u32, mounts: &[KernelMount]) -> Option<u64> {
    // The last mount at a path is the visible one.
    let root = mounts.iter().rfind(|mount| mount.target == "/")?;
    if root.file_system == "btrfs" { quota(host, root) } else { size(&host.join(format!("proc/{pid}/root"))) }
}

fn size(folder: &Path) -> Option<u64> {
    let system = rustix::fs::statvfs(folder).ok()?;
    system.f_blocks.checked_mul(system.f_frsize)
}

/// The quota of the mounted subvolume.
fn quota(host: &Path, mount: &KernelMount) -> Option<u64> {
    let subvolume: u64 = mount.option("subvolid")?.parse().ok()?;
    let source = host.join(mount.source.trim_start_matches('/'));
    // Names of the device mapper are links to the kernel's device names.
    let device = fs::canonicalize(&source).unwrap_or(source);
    let systems = fs::read_dir(host.join("sys/fs/btrfs")).ok()?;
    let system = systems
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|system| device.file_name().is_some_and(|name| system.join("devices").join(name).exists()))?;
    // Without quotas there are no groups.
    let group = system.join(format!("qgroups/0_{subvolume}"));
    let number = |name| fs::read_to_string(group.join(name)).ok()?.trim().parse::<u64>().ok();
    let is_limited = number("limit_flags")? & LIMITS_REFERENCED != 0;
    is_limited.then(|| number("max_referenced")).flatten()
}

#[cfg(test)]
mod tests {
    use super::super::mountinfo::parse;
    use super::*;

    const BTRFS: &str = "166 90 0:45 /s/btrfs/subvolumes/bd / rw,relatime - btrfs /dev/loop7 rw,space_cache=v2,subvolid=259,subvol=/s\n";

    /// A host with a btrfs on `/dev/loop7` whose subvolume 259 has a group with these files.
    fn host(files: &[(&str, &str)]) -> tempfile::TempDir {
        let host = tempfile::tempdir().unwrap();
        let systems = host.path().join("sys/fs/btrfs");
        for folder in ["features", "1a/devices", "2b/devices/loop7", "2b/qgroups/0_259"] {
            fs::create_dir_all(systems.join(folder)).unwrap();
        }
        for (name, text) in files {
            fs::write(systems.join("2b/qgroups/0_259").join(name), text).unwrap();
        }
        host
    }

    #[test]
    fn subvolume_is_bounded_by_the_limit_in_force() {
        let limited: &[_] = &[("limit_flags", "1\n"), ("max_referenced", "62914560\n")];
        let other = BTRFS.replace("loop7", "loop8");
        let unlimited = BTRFS.replace("subvolid=259", "subvolid=260");
        for (files, mount, expected) in [
            (limited, BTRFS, Some(62_914_560)),
            (&[("limit_flags", "0\n"), ("max_referenced", "0\n")], BTRFS, None),
            (&[("limit_flags", "2\n"), ("max_referenced", "9\n")], BTRFS, None),
            (&[("limit_flags", "x\n")], BTRFS, None),
            (limited, other.as_str(), None),
            (limited, unlimited.as_str(), None),
        ] {
            let host = host(files);
            let mounts = parse(mount).unwrap();
            assert_eq!(disk_bound(host.path(), 7, &mounts), expected, "{files:?} {mount}");
        }
    }

    #[test]
    fn other_file_systems_are_bounded_by_their_size() {
        let host = tempfile::tempdir().unwrap();
        let mounts = parse("1 2 0:45 / / rw - overlay overlay rw\n").unwrap();
        assert_eq!(disk_bound(host.path(), 7, &mounts), None);
        fs::create_dir_all(host.path().join("proc/7/root")).unwrap();
        assert_eq!(disk_bound(host.path(), 7, &mounts), size(host.path()));
        assert!(size(host.path()).is_some());
        assert_eq!(disk_bound(host.path(), 7, &[]), None);
    }
}

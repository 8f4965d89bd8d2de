//! The mounts and masked paths of a container.

use std::collections::BTreeSet;

use crate::container::kernel::{KernelFacts, KernelMount};
use crate::container::overlay;
use crate::container::plan::ContainerPlan;
use sandbox_podman::{Inspection, MountFacts};

use super::difference::Differences;

pub(super) fn compare(found: &mut Differences, plan: &ContainerPlan, is: &Inspection) {
    // An engine does not report an overlay before it mounts it.
    let is_set_up = is.state.status != "created";
    let is = &is.mounts;
    let planned: BTreeSet<(String, String, bool)> = plan
        .mounts
        .iter()
        .filter(|mount| is_set_up || mount.copy_dir().is_none())
        .map(|mount| (overlay::source(mount), clean(mount.container_path()), !mount.read_only()))
        .collect();
    let bound: BTreeSet<(String, String, bool)> = is
        .iter()
        .filter(|mount| mount.kind == "bind")
        .map(|mount| (overlay::mounted_source(mount), clean(&mount.destination), mount.writable))
        .collect();
    for (source, target, writable) in planned.difference(&bound) {
        found.0.push(format!("mounts: `{source}` is not at `{target}` with writing {writable}"));
    }
    for (source, target, writable) in bound.difference(&planned) {
        found.0.push(format!(
            "mounts: `{source}` is at `{target}` with writing {writable}, which was not planned"
        ));
    }
    for mount in is.iter().filter(|mount| mount.kind != "bind" && !is_of_image(mount)) {
        found.0.push(format!(
            "mounts: a {} `{}` at `{}` was not planned",
            mount.kind, mount.name, mount.destination
        ));
    }
}

/// An anonymous volume, which an image declares; it is removed with the container.
fn is_of_image(mount: &MountFacts) -> bool {
    mount.kind == "volume"
        && mount.name.len() == 64
        && mount.name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

pub(super) fn clean(path: &str) -> String {
    path.trim_end_matches('/').to_owned()
}

pub(super) fn kernel(found: &mut Differences, plan: &ContainerPlan, kernel: &KernelFacts) {
    // The last mount at a path is the visible one.
    let at = |target: &str| kernel.mounts.iter().rfind(|mount| mount.target == target);
    let writable = |target: &str| at(target).is_some_and(|mount| !mount.is_read_only());
    found.compare(
        "read-only root in the kernel",
        plan.isolation.read_only_root,
        at("/").is_some_and(KernelMount::is_read_only),
    );
    // Paths that an engine protects in every container unless asked otherwise.
    for protected in ["/proc/sys", "/sys"] {
        found.require(!writable(protected) && at(protected).is_some(), || {
            format!("mounts in the kernel: `{protected}` is writable")
        });
    }
    for mount in plan.mounts.iter().filter(|mount| mount.read_only()) {
        let target = clean(mount.container_path());
        found.require(!writable(&target) && at(&target).is_some(), || {
            format!("mounts in the kernel: `{target}` is writable")
        });
    }
    for mount in plan.mounts.iter().filter(|mount| mount.copy_dir().is_none()) {
        // A path may lead elsewhere after a folder was replaced; the engine resolved it after the
        // check.
        let target = mount.container_path();
        found.require(kernel.roots.get(target).copied() == mount.identity(), || {
            format!(
                "mounts in the kernel: `{}` is not the file that `{}` was at the check",
                clean(target),
                mount.host_path().display()
            )
        });
    }
    for mount in plan.mounts.iter().filter(|mount| mount.copy_dir().is_some()) {
        let target = clean(mount.container_path());
        let right = at(&target).is_some_and(|is| overlay::is_overlay_of(is, mount));
        found.require(right, || {
            format!("mounts in the kernel: `{target}` is not the {}", overlay::source(mount))
        });
    }
    for path in &plan.isolation.masked_paths {
        // An empty file system without size, or the null device. A path that is missing in the
        // image is not masked.
        let hidden = at(path).is_some_and(|mount| mount.size() == Some(0) || mount.root == "/null");
        let absent = kernel.absent.contains(path);
        found.require(hidden || absent, || format!("masked paths: `{path}` is visible"));
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{INSPECTIONS, MOUNTS, differences, kernel, mounts, plan};
    use super::*;
    use crate::container::kernel::parse;

    #[test]
    fn mount_weaker_than_planned_is_reported() {
        for (from, to, named) in [
            ("size=1024k,mode=700", "mode=700", "size of `/scratch`:"),
            ("size=1024k,mode=700", "size=10240k,mode=700", "size of `/scratch`:"),
            ("size=1024k,mode=700", "size=1024k", "mode of `/scratch`:"),
            ("/scratch rw,nosuid,nodev,noexec", "/scratch rw,nosuid,nodev", "noexec of `/scratch`:"),
            ("/scratch rw,nosuid,nodev", "/scratch rw,nodev", "nosuid of `/scratch`:"),
            ("/ /scratch rw", "/ /elsewhere rw", "in-memory files: nothing is at"),
            ("shm rw,size=65536k", "shm rw,size=9999999k", "shared memory in the kernel:"),
            (
                "/dev rw,nosuid - tmpfs tmpfs rw,size=65536k,",
                "/dev rw,nosuid - tmpfs tmpfs rw,",
                "in-memory files: those at `/dev`",
            ),
            ("/ /srv ro", "/ /elsewhere ro", "masked paths: `/srv`"),
            (
                "/ /srv ro,relatime - tmpfs tmpfs rw,size=0k",
                "/ /srv ro - tmpfs tmpfs rw,size=4k",
                "masked paths: `/srv`",
            ),
            ("/sys /proc/sys ro", "/sys /proc/sys rw", "mounts in the kernel: `/proc/sys`"),
            ("/sys /proc/sys ro", "/sys /proc/other ro", "mounts in the kernel: `/proc/sys`"),
            ("/ /sys ro", "/ /sys rw", "mounts in the kernel: `/sys`"),
            ("/etc/hosts ro", "/etc/hosts rw", "mounts in the kernel: `/etc/hosts`"),
            (
                "/null /run/.containerenv ro",
                "/null /elsewhere ro",
                "in-memory files: those at `/run/.containerenv`",
            ),
            ("/data ro", "/data rw", "mounts in the kernel: `/data`"),
            ("/ / rw", "/ / ro", "read-only root in the kernel:"),
        ] {
            let found =
                differences(&plan(), serde_json::from_str(INSPECTIONS[1]).unwrap(), &mounts(from, to));
            assert!(found.iter().any(|text| text.starts_with(named)), "{from} -> {to}: {found:?}");
        }
    }

    #[test]
    fn mount_of_another_file_than_the_checked_one_is_reported() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let identity = |folder: &tempfile::TempDir| {
            sandbox_files::host_path::Identity::of(std::fs::File::open(folder.path()).unwrap()).unwrap()
        };
        let mut plan = plan();
        let checked = plan.mounts.remove(1).of(identity(&one));
        let target = checked.container_path().to_owned();
        plan.mounts.insert(1, checked);
        for (mounted, good) in [(Some(&one), true), (Some(&other), false), (None, false)] {
            let roots = mounted.map(|folder| (target.clone(), identity(folder)));
            let kernel = KernelFacts {
                mounts: parse(MOUNTS[1]).unwrap(),
                roots: roots.into_iter().collect(),
                ..kernel()
            };
            let found = differences(&plan, serde_json::from_str(INSPECTIONS[1]).unwrap(), &kernel);
            assert_eq!(found.is_empty(), good, "{found:?}");
        }
    }

    #[test]
    fn later_mount_over_a_good_one_is_reported() {
        let over = "196 170 0:55 /sys /proc/sys rw,relatime - proc proc rw\n";
        let kernel = KernelFacts { mounts: parse(&format!("{}{over}", MOUNTS[1])).unwrap(), ..kernel() };
        let found = differences(&plan(), serde_json::from_str(INSPECTIONS[1]).unwrap(), &kernel);
        assert!(matches!(found.as_slice(), [only] if only.contains("/proc/sys")), "{found:?}");
    }
}

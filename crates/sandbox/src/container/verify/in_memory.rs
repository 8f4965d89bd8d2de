//! The in-memory files of a container, all of which must have a bound.

use std::collections::{BTreeMap, BTreeSet};

use crate::container::kernel::{KernelFacts, KernelMount};
use crate::container::plan::{ContainerPlan, Networks};
use crate::spec::Tmpfs;
use sandbox_podman::BindFacts;

use super::difference::Differences;
use super::mounts::clean;

const SHM: &str = "/dev/shm";

pub(super) fn compare(found: &mut Differences, plan: &ContainerPlan, host: &BindFacts) {
    let planned: BTreeSet<String> = plan.isolation.tmpfs.iter().map(|tmpfs| clean(&tmpfs.path)).collect();
    let is: BTreeSet<String> = host.tmpfs.keys().map(|path| clean(path)).collect();
    found.compare("in-memory files", &planned, &is);
    if plan.isolation.shm_size > 0 {
        let size = i64::try_from(plan.isolation.shm_size).unwrap_or(i64::MAX);
        found.compare("shared memory", size, host.shm_size);
    }
}

pub(super) fn kernel(found: &mut Differences, plan: &ContainerPlan, kernel: &KernelFacts) {
    for tmpfs in &plan.isolation.tmpfs {
        let path = clean(&tmpfs.path);
        // The last mount at a path is the visible one.
        let mount = kernel.mounts.iter().rfind(|mount| mount.target == path);
        match mount {
            Some(mount) => as_planned(found, tmpfs, mount),
            None => found.0.push(format!("in-memory files: nothing is at `{path}`")),
        }
    }
    shared_memory(found, plan.isolation.shm_size, kernel);
    let bound: BTreeSet<String> = plan.mounts.iter().map(|mount| clean(mount.container_path())).collect();
    for mount in last_ones(&kernel.mounts) {
        // A mounted part of a file system is a file of the engine, such as `/etc/hostname`, which
        // is on the host's `/run`. Files of the engine's own network are its responsibility. A
        // device has no content: a rootless engine mounts the host's.
        let whole = mount.root == "/";
        let exempt = bound.contains(&mount.target)
            || kernel.nodes.contains_key(&mount.target)
            || (plan.network.networks == Networks::Default && mount.target == "/etc/resolv.conf");
        let unbounded =
            mount.file_system == "tmpfs" && !mount.is_read_only() && !(whole && mount.size().is_some());
        found.require(exempt || !unbounded, || {
            format!("in-memory files: those at `{}` have no bound", mount.target)
        });
    }
}

/// The visible mounts: the last one at each path.
fn last_ones(mounts: &[KernelMount]) -> impl Iterator<Item = &KernelMount> {
    let last: BTreeMap<&str, &KernelMount> =
        mounts.iter().map(|mount| (mount.target.as_str(), mount)).collect();
    last.into_values()
}

fn as_planned(found: &mut Differences, tmpfs: &Tmpfs, mount: &KernelMount) {
    let path = &mount.target;
    found.compare(&format!("file system at `{path}`"), "tmpfs", mount.file_system.as_str());
    // The kernel rounds up to whole pages.
    let good =
        mount.size().is_some_and(|size| (tmpfs.size..tmpfs.size.saturating_add(64 << 10)).contains(&size));
    found.require(good, || format!("size of `{path}`: planned {}, is {:?}", tmpfs.size, mount.size()));
    // The kernel does not report the default.
    let mode = mount.option("mode").map_or(Some(0o1777), |mode| u16::from_str_radix(mode, 8).ok());
    found.compare(&format!("mode of `{path}`"), Some(tmpfs.mode), mode);
    for (flag, planned) in [("noexec", !tmpfs.exec), ("nosuid", true), ("nodev", true), ("ro", false)] {
        found.compare(&format!("{flag} of `{path}`"), planned, mount.flags.contains(flag));
    }
}

fn shared_memory(found: &mut Differences, planned: u64, kernel: &KernelFacts) {
    let mount = kernel.mounts.iter().rfind(|mount| mount.target == SHM);
    let Some(mount) = mount else {
        found.require(planned == 0, || format!("shared memory: nothing is at `{SHM}`"));
        return;
    };
    let good = planned > 0
        && mount.size().is_some_and(|size| (planned..planned.saturating_add(64 << 10)).contains(&size));
    found.require(good, || format!("shared memory in the kernel: planned {planned}, is {:?}", mount.size()));
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::fixture::{self, MOUNTS};
    use super::*;
    use crate::container::kernel::{Node, parse};

    #[test]
    fn file_of_the_host_below_dev_is_reported() {
        // If the host is a container itself, its `/dev` is in memory.
        let line = "166 155 0:6 /null /dev/null rw,nosuid,noexec - tmpfs tmpfs rw,mode=755\n";
        let facts = |nodes| KernelFacts {
            mounts: parse(&format!("{}{line}", MOUNTS[1])).unwrap(),
            nodes,
            ..fixture::kernel()
        };
        let device = BTreeMap::from([("/dev/null".to_owned(), Node::character((1, 3)))]);
        for (facts, good) in [(facts(device), true), (facts(BTreeMap::new()), false)] {
            let mut found = Differences::default();
            kernel(&mut found, &fixture::plan(), &facts);
            let named = found.0.iter().any(|text| text.contains("`/dev/null` have no bound"));
            assert_eq!(named, !good, "{:?}", found.0);
        }
    }
}

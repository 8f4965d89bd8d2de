//! The confinement of a container: capabilities, system calls, namespaces, devices.

use std::collections::BTreeSet;

use crate::container::kernel::{KernelFacts, Node};
use crate::container::plan::ContainerPlan;
use crate::spec::{Capability, Device, Seccomp, UserNamespace};
use sandbox_podman::{BindFacts, Inspection};

use super::difference::Differences;
use super::mounts::clean;

/// The path at which a runtime places the container's terminal.
const CONSOLE: &str = "/dev/console";

pub(super) fn compare(found: &mut Differences, plan: &ContainerPlan, is: &Inspection) {
    let host = &is.host_config;
    let keeps = planned_capabilities(plan);
    found.compare("capabilities", &keeps, &is.effective_caps.iter().cloned().collect());
    found.compare("bounding capabilities", &keeps, &is.bounding_caps.iter().cloned().collect());
    found.compare("privileged", false, host.privileged);
    found.compare("read-only root", plan.isolation.read_only_root, host.readonly_rootfs);
    security_options(found, plan, host);
    if let Some(planned) = &plan.isolation.apparmor {
        found.compare("AppArmor profile", planned.as_str(), is.apparmor_profile.as_str());
    }
    namespaces(found, plan, host);
    found.compare("automatic removal", false, host.auto_remove);
    found.compare("published ports", false, host.publish_all_ports || !host.port_bindings.is_empty());
    if plan.isolation.devices.is_empty() {
        found.compare("devices", 0, host.devices.len());
    }
    found.compare("additional groups", 0, host.group_add.len());
    found.compare("volumes from other containers", 0, host.volumes_from.len());
    found.compare("additional hosts", 0, host.extra_hosts.len());
    found.compare("log", plan.detachment.log_driver(), host.log_config.driver.as_str());
    // The engine reports the bound rounded to four digits, so only its absence is detectable.
    let unbounded = matches!(host.log_config.bound.as_str(), "" | "0B");
    found.require(plan.detachment.log_limit.is_none() || !unbounded, || {
        "log: planned with a limit, is without one".to_owned()
    });
}

/// Any other option in this list removes a protection.
fn security_options(found: &mut Differences, plan: &ContainerPlan, host: &BindFacts) {
    let mut planned = BTreeSet::new();
    if plan.isolation.no_new_privileges {
        planned.insert("no-new-privileges".to_owned());
    }
    let is: BTreeSet<String> = host.security_opt.iter().cloned().collect();
    found.compare("security options", &planned, &is);
}

fn namespaces(found: &mut Differences, plan: &ContainerPlan, host: &BindFacts) {
    for (name, mode) in [("process", &host.pid_mode), ("IPC", &host.ipc_mode), ("host name", &host.uts_mode)]
    {
        let own = matches!(mode.as_str(), "private" | "shareable" | "none" | "");
        found.require(own, || format!("{name} namespace: is {mode:?}"));
    }
    // A container without its own is in the engine's; podman 5 reports none before the container is
    // set up.
    let apart = matches!(host.userns_mode.as_str(), "" | "private");
    found.require(apart, || format!("user namespace: is {:?}", host.userns_mode));
    if let UserNamespace::Private { first, size } = plan.isolation.user_namespace {
        let planned = vec![format!("0:{first}:{size}")];
        let is = host.id_mappings.as_ref();
        found.compare("user ids", Some(&planned), is.map(|maps| &maps.uid_map));
        found.compare("group ids", Some(&planned), is.map(|maps| &maps.gid_map));
    }
}

/// The devices of a container that is set up: only then does an engine know CDI devices. With a
/// user namespace of the container's own, devices are mounts, and engines do not report them.
pub(super) fn devices(found: &mut Differences, plan: &ContainerPlan, host: &BindFacts, kernel: &KernelFacts) {
    let is_mounted = |target: &str| {
        let mut mounts = kernel.mounts.iter();
        mounts.any(|mount| mount.target == target && mount.root != "/")
    };
    let are_mounts = are_mounts(kernel);
    let mut described = 0;
    let mut nodes = 0;
    for device in &plan.isolation.devices {
        match device {
            Device::Node { host: path, container } => {
                let known = host.devices.iter().any(|is| {
                    std::path::Path::new(&is.path_on_host) == path && is.path_in_container == *container
                });
                nodes += usize::from(known);
                found.require(known || are_mounts && is_mounted(container), || {
                    format!("devices: `{}` is not at `{container}`", path.display())
                });
            }
            Device::Cdi(_) => described += 1,
        }
    }
    let more = host.devices.len().saturating_sub(nodes);
    let right = if described > 0 { are_mounts || more >= described } else { more == 0 };
    found.require(right, || {
        format!("devices: planned {nodes} nodes and {described} described ones, is {more} in addition to the nodes")
    });
}

/// Checks the filter that the runtime was asked to load; the engine does not report which profile
/// it took.
fn filter(found: &mut Differences, plan: &ContainerPlan, kernel: &KernelFacts) {
    let wrong = match (&plan.isolation.seccomp, &kernel.filter) {
        (Seccomp::Unconfined, None) | (Seccomp::Default, Some(_)) => None,
        (Seccomp::Unconfined, Some(_)) => Some("planned none, is one".to_owned()),
        (_, None) => Some("there is none".to_owned()),
        (Seccomp::Sandbox | Seccomp::Profile(_), Some(is)) => match &kernel.profile {
            Some(Ok(profile)) => {
                let right = is.is_made_from(profile, &planned_capabilities(plan));
                (!right).then(|| "is not the planned one".to_owned())
            }
            Some(Err(problem)) => Some(format!("the profile cannot be read to compare it: {problem}")),
            None => Some("there is no profile to compare it with".to_owned()),
        },
    };
    if let Some(wrong) = wrong {
        found.0.push(format!("seccomp filter: {wrong}"));
    }
}

/// In the notation of engines and profiles.
fn planned_capabilities(plan: &ContainerPlan) -> BTreeSet<String> {
    plan.capabilities().iter().map(|capability| format!("CAP_{capability}")).collect()
}

/// Each planned device is the host's, and no other was mounted.
fn nodes(found: &mut Differences, plan: &ContainerPlan, kernel: &KernelFacts) {
    let devices = &plan.isolation.devices;
    for (host, container) in devices.iter().filter_map(Device::node_paths) {
        let (planned, is) = (kernel.planned_nodes.get(container), kernel.nodes.get(container));
        found.require(is.is_some() && is == planned, || {
            let host = host.display();
            format!("devices in the kernel: `{container}` is not `{host}` of the host")
        });
    }
    // Files at a mount are compared with the mounts.
    let is_mount = |target: &str| plan.mounts.iter().any(|mount| clean(mount.container_path()) == target);
    let is_planned = |target: &str| kernel.planned_nodes.contains_key(target) || is_mount(target);
    let nodes = kernel.nodes.iter();
    let more: Vec<_> = nodes
        .filter(|(target, node)| !is_planned(target) && !node.is_usual_at(target))
        .filter(|(target, node)| !(plan.terminal.is_some() && is_own_terminal(kernel, target, **node)))
        .map(|(target, _)| target.as_str())
        .collect();
    let described = devices.iter().filter(|device| device.node_paths().is_none());
    // An engine with the host's users creates nodes instead of mounting them, and reports them.
    let right = match described.count() {
        0 => more.is_empty(),
        planned => more.len() >= planned || !are_mounts(kernel),
    };
    found.require(right, || {
        format!("devices in the kernel: in addition to the planned nodes it has {more:?}")
    });
}

/// Whether `node` at `target` is the first pseudo-terminal of the container's own, which is then
/// its console.
fn is_own_terminal(kernel: &KernelFacts, target: &str, node: Node) -> bool {
    let at = |target: &str| kernel.mounts.iter().rfind(|mount| mount.target == target);
    let (Some(console), Some(own)) = (at(CONSOLE), at("/dev/pts")) else { return false };
    let is_of_own = own.file_system == "devpts" && console.device == own.device && console.root == "/0";
    target == CONSOLE && is_of_own && node.is_terminal(0)
}

/// Whether devices are mounts: only the host's root creates nodes.
fn are_mounts(kernel: &KernelFacts) -> bool {
    kernel.users.iter().any(|&(_, outside, _)| outside != 0)
}

pub(super) fn kernel(found: &mut Differences, plan: &ContainerPlan, kernel: &KernelFacts) {
    let isolation = &plan.isolation;
    filter(found, plan, kernel);
    if let Some(planned) = &isolation.apparmor {
        let is = kernel.apparmor.as_deref();
        found.compare("AppArmor profile of the runtime", Some(planned.as_str()), is);
    }
    nodes(found, plan, kernel);
    let keeps: BTreeSet<String> =
        plan.capabilities().iter().map(|capability| capability.name().to_owned()).collect();
    found.compare("capabilities in the kernel", &keeps, &Capability::names_of(kernel.bounding).collect());
    found.compare("no-new-privileges in the kernel", isolation.no_new_privileges, kernel.no_new_privileges);
    found.compare("namespaces shared with the host", &BTreeSet::new(), &kernel.shared_namespaces);
    if let UserNamespace::Private { first, size } = isolation.user_namespace {
        let planned = vec![(0, first, size)];
        found.compare("user ids in the kernel", &planned, &kernel.users);
        found.compare("group ids in the kernel", &planned, &kernel.groups);
    }
    // The image maps names to numbers.
    if let Some(number) = isolation.user.as_deref().and_then(number_of) {
        let outside = outside(&kernel.users, number);
        found.compare("user in the kernel", outside, Some(kernel.user));
    }
}

fn number_of(user: &str) -> Option<u32> {
    match user.split(':').next()? {
        "root" => Some(0),
        number => number.parse().ok(),
    }
}

/// The host's number of a user of the container.
fn outside(map: &[(u32, u32, u32)], inside: u32) -> Option<u32> {
    map.iter().find_map(|&(first, outside, size)| {
        let offset = inside.checked_sub(first)?;
        (offset < size).then(|| outside.checked_add(offset))?
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::Value;
    use serde_json::json;

    use super::super::fixture::{self, INSPECTIONS, MOUNTS, changed, differences, isolation, kernel, plan};
    use super::*;
    use crate::container::kernel::parse;
    use crate::spec::Isolation;
    use sandbox_podman::TerminalSize;

    #[test]
    fn private_users_are_compared_with_the_kernels_map() {
        let plan = ContainerPlan {
            isolation: Isolation {
                user_namespace: UserNamespace::Private { first: 200_000, size: 65_536 },
                user: Some("1000:1000".to_owned()),
                capabilities: BTreeSet::new(),
                ..isolation()
            },
            ..plan()
        };
        let mapped = json!({"UidMap": ["0:200000:65536"], "GidMap": ["0:200000:65536"]});
        let facts = KernelFacts {
            bounding: 0,
            user: 201_000,
            users: vec![(0, 200_000, 65_536)],
            groups: vec![(0, 200_000, 65_536)],
            ..kernel()
        };
        let answer = |mode: &str, maps: &Value| {
            let mut answer = changed(INSPECTIONS[1], "/HostConfig/IDMappings", maps.clone());
            for (field, value) in [
                ("/HostConfig/UsernsMode", json!(mode)),
                ("/Config/User", json!("1000:1000")),
                ("/EffectiveCaps", json!(null)),
                ("/BoundingCaps", json!(null)),
            ] {
                *answer.pointer_mut(field).unwrap() = value;
            }
            answer
        };
        let found = differences(&plan, answer("private", &mapped), &facts);
        assert!(found.is_empty(), "{found:?}");
        // Podman 5 accepts `keep-id` but does not apply it.
        let ignored = differences(&plan, answer("keep-id", &json!(null)), &kernel());
        for named in ["user namespace:", "user ids:", "user ids in the kernel:", "user in the kernel:"] {
            assert!(ignored.iter().any(|text| text.starts_with(named)), "{named} {ignored:?}");
        }
    }

    #[test]
    fn missing_or_other_seccomp_filter_is_refused() {
        let (right, wrong) = (fixture::filter("read"), fixture::filter("mount"));
        let unread = || Some(Err("/p.json: permission denied".to_owned()));
        let profile = || Seccomp::Profile("/p.json".into());
        for (planned, is, read, good) in [
            (profile(), Some(&right), Some(Ok(right.clone())), true),
            (profile(), Some(&wrong), Some(Ok(right.clone())), false),
            (profile(), None, Some(Ok(right.clone())), false),
            (profile(), Some(&right), unread(), false),
            (profile(), Some(&right), None, false),
            (Seccomp::Sandbox, Some(&right), None, false),
            (Seccomp::Default, Some(&wrong), None, true),
            (Seccomp::Default, None, None, false),
            (Seccomp::Unconfined, None, None, true),
            (Seccomp::Unconfined, Some(&right), None, false),
        ] {
            let plan = ContainerPlan { isolation: Isolation { seccomp: planned, ..isolation() }, ..plan() };
            let facts = KernelFacts { filter: is.cloned(), profile: read, ..kernel() };
            let mut found = Differences::default();
            super::filter(&mut found, &plan, &facts);
            assert_eq!(found.0.is_empty(), good, "{:?} {:?}", plan.isolation.seccomp, found.0);
        }
    }

    #[test]
    fn apparmor_profile_that_engine_or_runtime_differ_in_is_refused() {
        let planned = |name: &str| ContainerPlan {
            isolation: Isolation { apparmor: Some(name.parse().unwrap()), ..isolation() },
            ..plan()
        };
        let asked = |name: &str| KernelFacts { apparmor: Some(name.to_owned()), ..kernel() };
        for (plan, inspected, facts, named) in [
            (planned("mine"), "mine", asked("mine"), None),
            (planned("mine"), "", asked("mine"), Some("AppArmor profile:")),
            (planned("mine"), "mine", asked("other"), Some("AppArmor profile of the runtime:")),
            (planned("mine"), "mine", kernel(), Some("AppArmor profile of the runtime:")),
            // The engine's choice.
            (plan(), "containers-default", asked("containers-default"), None),
        ] {
            let answer = changed(INSPECTIONS[1], "/AppArmorProfile", json!(inspected));
            let found = differences(&plan, answer, &facts);
            let as_expected = match (found.as_slice(), named) {
                ([], None) => true,
                ([only], Some(named)) => only.starts_with(named),
                _ => false,
            };
            assert!(as_expected, "{found:?}");
        }
    }

    #[test]
    fn unplanned_device_is_reported() {
        let (null, kvm) = (Node::character((1, 3)), Node::character((10, 232)));
        for (target, node, good) in [
            ("/dev/null", null, true),
            ("/srv", null, true),
            ("/rw", kvm, true),
            ("/dev/kvm", kvm, false),
            ("/dev/null", kvm, false),
        ] {
            let facts = KernelFacts { nodes: BTreeMap::from([(target.to_owned(), node)]), ..kernel() };
            let mut found = Differences::default();
            nodes(&mut found, &plan(), &facts);
            assert_eq!(found.0.is_empty(), good, "{:?}", found.0);
        }
    }

    #[test]
    fn console_other_than_the_containers_own_terminal_is_reported() {
        let size = TerminalSize { columns: 80, rows: 24 };
        let with = ContainerPlan { terminal: Some(size), ..plan() };
        let mount = |device: &str, part: &str, kind: &str| {
            let line = format!("\n72 230 {device} {part} /dev/console rw,relatime - {kind} {kind} rw");
            parse(&format!("{}{line}", MOUNTS[1].trim_end())).unwrap()
        };
        let own = mount("0:72", "/0", "devpts");
        let (terminal, other) = (Node::character((136, 0)), Node::character((136, 1)));
        for (plan, mounts, node, good) in [
            (&with, &own, terminal, true),
            (&plan(), &own, terminal, false),
            (&with, &own, other, false),
            (&with, &own, Node::character((5, 1)), false),
            // The host's.
            (&with, &mount("0:24", "/0", "devpts"), terminal, false),
            (&with, &mount("0:72", "/1", "devpts"), terminal, false),
            (&with, &parse(MOUNTS[1]).unwrap(), terminal, false),
        ] {
            let nodes_there = BTreeMap::from([(CONSOLE.to_owned(), node)]);
            let facts = KernelFacts { nodes: nodes_there, mounts: mounts.clone(), ..kernel() };
            let mut found = Differences::default();
            nodes(&mut found, plan, &facts);
            assert_eq!(found.0.is_empty(), good, "{:?}", found.0);
        }
    }

    #[test]
    fn other_profiles_devices_and_runtimes_are_compared() {
        let filtered = ContainerPlan {
            isolation: Isolation {
                seccomp: Seccomp::Profile("/p.json".into()),
                devices: vec![Device::node("/dev/kvm"), Device::Cdi("v/c=n".to_owned())],
                ..isolation()
            },
            ..plan()
        };
        let node = json!({"PathOnHost": "/dev/kvm", "PathInContainer": "/dev/kvm"});
        let described = json!({"PathOnHost": "/dev/x", "PathInContainer": "/dev/x"});
        let kvm = Node::character((10, 232));
        let planned = BTreeMap::from([("/dev/kvm".to_owned(), kvm)]);
        let unmapped = KernelFacts { nodes: planned.clone(), planned_nodes: planned.clone(), ..kernel() };
        // A rootless engine mounts devices and reports none.
        let line = "166 155 0:6 /kvm /dev/kvm rw,nosuid,noexec - devtmpfs devtmpfs rw\n";
        let mapped = |nodes: &[(&str, Node)]| KernelFacts {
            users: vec![(0, 1000, 1)],
            mounts: parse(&format!("{}{line}", MOUNTS[1])).unwrap(),
            nodes: nodes.iter().map(|&(path, node)| (path.to_owned(), node)).collect(),
            ..unmapped.clone()
        };
        let (null, zero) = (Node::character((1, 3)), Node::character((1, 5)));
        let usual = [("/dev/null", null), ("/dev/zero", zero), ("/run/.containerenv", null)];
        let right = mapped(&[("/dev/kvm", kvm), ("/dev/x", zero)]);
        let alone = mapped(&[&usual[..], &[("/dev/kvm", kvm)]].concat());
        let another = mapped(&[("/dev/kvm", null), ("/dev/x", zero)]);
        let bare = KernelFacts { users: vec![(0, 1000, 1)], ..kernel() };
        let made = KernelFacts { nodes: BTreeMap::from([("/dev/kvm".to_owned(), null)]), ..unmapped.clone() };
        for (devices, facts, good) in [
            (json!([node, described]), &unmapped, true),
            (json!([node]), &unmapped, false),
            (json!([described]), &unmapped, false),
            (json!([]), &unmapped, false),
            (json!([node, described]), &made, false),
            (json!([]), &right, true),
            (json!([]), &alone, false),
            (json!([]), &another, false),
            (json!([]), &bare, false),
        ] {
            let answer = changed(INSPECTIONS[1], "/HostConfig/Devices", devices);
            let found = differences(&filtered, answer, facts);
            let named = found.iter().any(|text| text.starts_with("devices"));
            assert_eq!(named, !good, "{found:?}");
        }
    }
}

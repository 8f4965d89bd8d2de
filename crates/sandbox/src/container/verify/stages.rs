//! The two stages at which a container is compared with its plan.

use crate::container::kernel::KernelFacts;
use crate::container::plan::ContainerPlan;
use sandbox_podman::{ImageFacts, Inspection};

use super::difference::Differences;
use super::{confinement, in_memory, limits, mounts, network, process};

/// Runtimes that give a container a kernel of its own: the host's kernel then reports the runtime,
/// not the container. Only the network is still the host's.
const OWN_KERNEL: [&str; 2] = ["runsc", "krun"];

/// Whether the host's kernel reports the container's runtime instead of the container.
pub(in crate::container) fn has_own_kernel(is: &Inspection) -> bool {
    OWN_KERNEL.contains(&is.runtime_name())
}

/// The differences of a created container from its plan. Empty if there are none.
pub(in crate::container) fn created(
    plan: &ContainerPlan,
    image: &ImageFacts,
    is: &Inspection,
) -> Vec<String> {
    let mut found = Differences::default();
    process::compare(&mut found, plan, image, is);
    confinement::compare(&mut found, plan, is);
    limits::compare(&mut found, plan, &is.host_config);
    mounts::compare(&mut found, plan, is);
    in_memory::compare(&mut found, plan, &is.host_config);
    network::compare(&mut found, plan, is);
    found.0
}

/// The differences of a container that is set up from its plan, as the engine and the kernel report
/// it.
pub(in crate::container) fn attached(
    plan: &ContainerPlan,
    image: &ImageFacts,
    is: &Inspection,
    kernel: &KernelFacts,
) -> Vec<String> {
    let mut found = Differences(created(plan, image, is));
    found.compare("state", "initialized", is.state.status.as_str());
    confinement::devices(&mut found, plan, &is.host_config, kernel);
    network::addresses(&mut found, plan, is);
    if has_own_kernel(is) {
        own_kernel(&mut found, plan, is, kernel);
        return found.0;
    }
    confinement::kernel(&mut found, plan, kernel);
    limits::kernel(&mut found, plan, kernel);
    mounts::kernel(&mut found, plan, kernel);
    in_memory::kernel(&mut found, plan, kernel);
    network::kernel(&mut found, plan, kernel);
    found.0
}

/// `runsc` ignores sysctls, so that a container would have IPv6, and a proxy would forward, unless
/// its engine has a hook that sets them.
fn own_kernel(found: &mut Differences, plan: &ContainerPlan, is: &Inspection, kernel: &KernelFacts) {
    let before = found.0.len();
    network::kernel(found, plan, kernel);
    found
        .require(!kernel.shared_namespaces.contains("net"), || "network namespace: is the host's".to_owned());
    if found.0.len() > before {
        found.0.push(format!(
            "the runtime `{}` ignored that: `sandbox doctor` reports what its engine needs",
            is.runtime_name()
        ));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::collections::BTreeSet;

    use serde_json::Value;
    use serde_json::json;

    use super::super::fixture::{INSPECTIONS, MOUNTS, changed, differences, filter, kernel, plan};
    use super::*;
    use crate::container::kernel::parse;
    use crate::spec::UlimitKind;

    #[test]
    fn containers_of_both_engines_are_accepted() {
        for (inspection, mounts) in INSPECTIONS.into_iter().zip(MOUNTS) {
            let kernel = KernelFacts { mounts: parse(mounts).unwrap(), ..kernel() };
            let found = differences(&plan(), serde_json::from_str(inspection).unwrap(), &kernel);
            assert!(found.is_empty(), "{found:?}");
        }
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a flat table")]
    fn field_weakened_by_an_engine_is_reported() {
        let unplanned_mount = json!([
            {"Type": "bind", "Source": "/srv/data", "Destination": "/data", "RW": false},
            {"Type": "bind", "Source": "/srv/data", "Destination": "/rw", "RW": true},
            {"Type": "bind", "Source": "/state/hosts/0f", "Destination": "/etc/hosts", "RW": false},
            {"Type": "bind", "Source": "/state/hosts/1f", "Destination": "/etc/hostname", "RW": false},
            {"Type": "bind", "Source": "/", "Destination": "/host", "RW": true},
        ]);
        let named_volume = json!([
            {"Type": "bind", "Source": "/srv/data", "Destination": "/data", "RW": false},
            {"Type": "bind", "Source": "/srv/data", "Destination": "/rw", "RW": true},
            {"Type": "bind", "Source": "/state/hosts/0f", "Destination": "/etc/hosts", "RW": false},
            {"Type": "bind", "Source": "/state/hosts/1f", "Destination": "/etc/hostname", "RW": false},
            {"Type": "volume", "Name": "shared", "Source": "/x", "Destination": "/v", "RW": true},
        ]);
        let weakened = [
            ("/Image", json!("00".repeat(32)), "image:"),
            ("/Path", json!("/bin/sh"), ""),
            ("/Args", json!(["--", "sh"]), "command line:"),
            ("/Args", json!(["sleep", "100"]), "command line:"),
            ("/Args", json!(["--", "sleep", "100", "x"]), "command line:"),
            ("/State/Status", json!("running"), "state:"),
            ("/EffectiveCaps", json!(["CAP_SYS_ADMIN"]), "capabilities:"),
            ("/EffectiveCaps", json!(null), "capabilities:"),
            ("/BoundingCaps", json!(["CAP_NET_ADMIN"]), "bounding capabilities:"),
            ("/Mounts", json!([]), "mounts:"),
            ("/Mounts", unplanned_mount, "mounts: `/` is at `/host`"),
            ("/Mounts", named_volume, "mounts: a volume `shared`"),
            ("/Mounts/0/RW", json!(true), "mounts:"),
            ("/Mounts/0/Source", json!("/srv"), "mounts:"),
            ("/Mounts/0/Destination", json!("/other"), "mounts:"),
            ("/NetworkSettings/Networks", json!({}), "networks:"),
            (
                "/NetworkSettings/Networks/podman",
                json!({"IPAddress": "", "GlobalIPv6Address": ""}),
                "networks:",
            ),
            (
                "/NetworkSettings/Networks/sandbox-conv-x/IPAddress",
                json!("10.199.0.4"),
                "address on `sandbox-conv-x`:",
            ),
            ("/NetworkSettings/Networks/sandbox-conv-x/IPAddress", json!(""), "address on `sandbox-conv-x`:"),
            ("/NetworkSettings/Networks/sandbox-conv-x/GlobalIPv6Address", json!("fd00::3"), "IPv6 address:"),
            ("/Config/User", json!("1000"), "user:"),
            ("/Config/WorkingDir", json!("/"), "working directory:"),
            ("/Config/Tty", json!(true), "terminal:"),
            ("/Config/OpenStdin", json!(false), "stdin:"),
            ("/Config/Env", json!(["FOO=bar"]), "environment: `FOO` is not"),
            (
                "/Config/Env",
                json!(["FOO=bar baz", "HTTP_PROXY=http://u:p@x"]),
                "environment: `HTTP_PROXY` was not planned",
            ),
            ("/Config/Labels/sandbox.role", json!("probe"), "label sandbox.role:"),
            ("/Config/Labels", json!({}), "label sandbox.context:"),
            ("/HostConfig/NetworkMode", json!("host"), "network:"),
            ("/HostConfig/PidMode", json!("host"), "process namespace:"),
            ("/HostConfig/IpcMode", json!("host"), "IPC namespace:"),
            ("/HostConfig/UTSMode", json!("host"), "host name namespace:"),
            ("/HostConfig/UsernsMode", json!("host"), "user namespace:"),
            ("/HostConfig/PidMode", json!("container:0f"), "process namespace:"),
            ("/HostConfig/Privileged", json!(true), "privileged:"),
            ("/HostConfig/ReadonlyRootfs", json!(true), "read-only root:"),
            ("/HostConfig/Init", json!(false), "init:"),
            ("/HostConfig/AutoRemove", json!(true), "automatic removal:"),
            ("/HostConfig/PublishAllPorts", json!(true), "published ports:"),
            ("/HostConfig/PortBindings", json!({"80/tcp": []}), "published ports:"),
            ("/HostConfig/SecurityOpt", json!([]), "security options:"),
            (
                "/HostConfig/SecurityOpt",
                json!(["no-new-privileges", "seccomp=unconfined"]),
                "security options:",
            ),
            (
                "/HostConfig/Devices",
                json!([{"PathOnHost": "/dev/sda", "PathInContainer": "/dev/sda"}]),
                "devices:",
            ),
            ("/HostConfig/GroupAdd", json!(["0"]), "additional groups:"),
            ("/HostConfig/VolumesFrom", json!(["x"]), "volumes from other containers:"),
            ("/HostConfig/ExtraHosts", json!(["a:1.2.3.4"]), "additional hosts:"),
            ("/HostConfig/Dns", json!([]), "name servers:"),
            ("/HostConfig/Dns", json!(["10.199.0.2", "1.1.1.1"]), "name servers:"),
            ("/HostConfig/LogConfig/Type", json!("k8s-file"), "log:"),
            ("/HostConfig/Memory", json!(0), "memory:"),
            ("/HostConfig/MemorySwap", json!(-1), "memory with swap:"),
            ("/HostConfig/NanoCpus", json!(0), "processors:"),
            ("/HostConfig/PidsLimit", json!(2048), "processes:"),
            ("/Config/Hostname", json!("0f0f0f0f0f0f"), "host name:"),
            ("/Config/StopSignal", json!(9), "stop signal:"),
            ("/Config/StopSignal", json!("SIGKILL"), "stop signal:"),
            ("/HostConfig/Tmpfs", json!({}), "in-memory files:"),
            ("/HostConfig/Tmpfs", json!({"/scratch": "rw", "/tmp": "rw"}), "in-memory files:"),
            ("/HostConfig/ShmSize", json!(1_u64 << 40), "shared memory:"),
            ("/HostConfig/Ulimits", json!([]), "limit core:"),
            ("/HostConfig/Ulimits", json!([{"Name": "RLIMIT_CORE", "Soft": 0, "Hard": -1}]), "limit core:"),
        ];
        for inspection in INSPECTIONS {
            for (field, value, named) in &weakened {
                let found = differences(&plan(), changed(inspection, field, value.clone()), &kernel());
                if named.is_empty() {
                    // The engine's PID 1 has a path of the engine's choice.
                    assert!(found.is_empty(), "{field}: {found:?}");
                } else {
                    assert!(found.iter().any(|text| text.starts_with(named)), "{field} = {value}: {found:?}");
                }
            }
        }
    }

    #[test]
    fn weakness_in_the_kernel_is_reported() {
        let shared = BTreeSet::from(["net"]);
        for (facts, named) in [
            (KernelFacts { bounding: 0xeb | 1 << 12, ..kernel() }, "capabilities in the kernel:"),
            (KernelFacts { bounding: 0, ..kernel() }, "capabilities in the kernel:"),
            (KernelFacts { no_new_privileges: false, ..kernel() }, "no-new-privileges in the kernel:"),
            (
                KernelFacts { limits: BTreeMap::from([(UlimitKind::Core, (Some(0), None))]), ..kernel() },
                "limit core in the kernel:",
            ),
            (KernelFacts { absent: BTreeSet::new(), ..kernel() }, "masked paths: `/not-in-the-image`"),
            (KernelFacts { filter: None, ..kernel() }, "seccomp filter:"),
            (KernelFacts { filter: Some(filter("mount")), ..kernel() }, "seccomp filter:"),
            (KernelFacts { has_ipv6: true, ..kernel() }, "IPv6 addresses:"),
            (KernelFacts { forwards_ipv4: true, ..kernel() }, "forwarding:"),
            (KernelFacts { shared_namespaces: shared, ..kernel() }, "namespaces shared with the host:"),
        ] {
            let [inspection, _] = INSPECTIONS;
            let found = differences(&plan(), serde_json::from_str(inspection).unwrap(), &facts);
            assert!(matches!(found.as_slice(), [only] if only.starts_with(named)), "{found:?}");
        }
    }

    #[test]
    fn facts_of_a_runtime_with_its_own_kernel_are_not_compared() {
        let strange =
            KernelFacts { bounding: u64::MAX, no_new_privileges: false, mounts: Vec::new(), ..kernel() };
        for (runtime, compared) in [("/usr/bin/runsc", false), ("crun", true), ("/opt/other", true)] {
            let answer = changed(INSPECTIONS[1], "/OCIRuntime", json!(runtime));
            assert_eq!(!differences(&plan(), answer, &strange).is_empty(), compared, "{runtime}");
        }
    }

    #[test]
    fn network_of_a_runtime_with_its_own_kernel_is_compared() {
        let ipv6 = KernelFacts { has_ipv6: true, ..kernel() };
        let forwards = KernelFacts { forwards_ipv4: true, ..kernel() };
        let shared = KernelFacts { shared_namespaces: BTreeSet::from(["net", "pid"]), ..kernel() };
        for (facts, named) in
            [(ipv6, "IPv6 addresses:"), (forwards, "forwarding:"), (shared, "network namespace:")]
        {
            let answer = changed(INSPECTIONS[1], "/OCIRuntime", json!("/usr/bin/runsc"));
            let found = differences(&plan(), answer, &facts);
            assert!(
                matches!(found.as_slice(), [first, hint] if first.starts_with(named) && hint.contains("sandbox doctor")),
                "{found:?}"
            );
        }
    }

    #[test]
    fn field_that_an_engine_leaves_out_is_an_error() {
        for field in [
            "/EffectiveCaps",
            "/BoundingCaps",
            "/Mounts",
            "/Image",
            "/State/Pid",
            "/Config/Env",
            "/HostConfig/Privileged",
            "/HostConfig/SecurityOpt",
            "/HostConfig/PidMode",
            "/HostConfig/NetworkMode",
            "/HostConfig/Devices",
            "/HostConfig/ReadonlyRootfs",
            "/HostConfig/PidsLimit",
            "/HostConfig/Tmpfs",
            "/HostConfig/ShmSize",
            "/HostConfig/Ulimits",
            "/Config/Hostname",
            "/Config/StopSignal",
            "/OCIRuntime",
        ] {
            for inspection in INSPECTIONS {
                let mut answer: Value = serde_json::from_str(inspection).unwrap();
                let (parent, name) = field.rsplit_once('/').unwrap();
                answer.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(name).unwrap();
                assert!(serde_json::from_value::<Inspection>(answer).is_err(), "{field}");
            }
        }
    }

    #[test]
    fn unplanned_settings_are_the_engines_choice() {
        let plan = ContainerPlan { pids: None, ..plan() };
        for (field, value) in [
            ("/HostConfig/PidsLimit", json!(0)),
            ("/HostConfig/PidsLimit", json!(4096)),
            ("/HostConfig/UsernsMode", json!("private")),
            ("/HostConfig/IpcMode", json!("private")),
        ] {
            let [inspection, _] = INSPECTIONS;
            let found = differences(&plan, changed(inspection, field, value), &kernel());
            assert!(found.is_empty(), "{field}: {found:?}");
        }
    }
}

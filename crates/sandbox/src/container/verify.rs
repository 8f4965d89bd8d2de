//! Compares what the engine made with the plan: podman's Docker-compatible API ignores fields silently, and which ones depends on
//! its version.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::path::Path;

use crate::engine::{BindFacts, ImageFacts, Inspection, MountFacts};

use super::capability;
use super::kernel::KernelFacts;
use super::plan::{ContainerPlan, PlannedNetwork};

/// Variables that the engine adds to every container.
const ENGINE_VARIABLES: [&str; 5] = ["HOME", "HOSTNAME", "PATH", "TERM", "container"];

/// How a created container differs from its plan. Empty: it is as planned.
pub(super) fn created(plan: &ContainerPlan, image: &ImageFacts, is: &Inspection) -> Vec<String> {
    let mut found = Differences::default();
    process(&mut found, plan, image, is);
    confinement(&mut found, plan, is);
    limits(&mut found, plan, &is.host_config);
    mounts(&mut found, plan, &is.mounts);
    networks(&mut found, plan, is);
    found.0
}

/// How a container that stands differs from its plan, as the engine and the kernel tell.
pub(super) fn attached(
    plan: &ContainerPlan,
    image: &ImageFacts,
    is: &Inspection,
    kernel: &KernelFacts,
) -> Vec<String> {
    let mut found = Differences(created(plan, image, is));
    found.compare("state", "initialized", is.state.status.as_str());
    addresses(&mut found, plan, is);
    let keeps: BTreeSet<String> = plan
        .hardening
        .capabilities
        .iter()
        .map(|&name| name.to_owned())
        .collect();
    found.compare(
        "capabilities in the kernel",
        &keeps,
        &capability::names(kernel.bounding).into_iter().collect(),
    );
    found.compare(
        "no-new-privileges in the kernel",
        plan.hardening.no_new_privileges,
        kernel.no_new_privileges,
    );
    found.compare(
        "namespaces shared with the host",
        &BTreeSet::new(),
        &kernel.shared_namespaces,
    );
    if plan.network == PlannedNetwork::None {
        found.compare(
            "interfaces",
            &BTreeSet::from(["lo".to_owned()]),
            &kernel.interfaces,
        );
    }
    if has_no_ipv6(plan) {
        found.compare("IPv6 addresses", false, kernel.has_ipv6);
    }
    if plan
        .sysctls
        .get("net.ipv4.ip_forward")
        .is_some_and(|value| value == "0")
    {
        found.compare("forwarding", false, kernel.forwards_ipv4);
    }
    found.0
}

/// The program that a plan runs, with its arguments and without the engine's own PID 1.
pub(super) fn command_line(plan: &ContainerPlan, image: &ImageFacts) -> Vec<String> {
    let entrypoint = plan.entrypoint.as_ref().unwrap_or(&image.entrypoint);
    // An entry point of the plan's makes the image's command meaningless.
    let command = if plan.command.is_empty() && plan.entrypoint.is_none() {
        &image.command
    } else {
        &plan.command
    };
    entrypoint.iter().chain(command).cloned().collect()
}

#[derive(Default)]
struct Differences(Vec<String>);

impl Differences {
    /// The value that was planned, and the one that is. Never for values of environment variables.
    fn compare<T: PartialEq + Debug + Copy>(&mut self, field: &str, planned: T, is: T) {
        if planned != is {
            self.0.push(format!("{field}: planned {planned:?}, is {is:?}"));
        }
    }

    fn require(&mut self, good: bool, problem: impl FnOnce() -> String) {
        if !good {
            self.0.push(problem());
        }
    }
}

fn process(found: &mut Differences, plan: &ContainerPlan, image: &ImageFacts, is: &Inspection) {
    found.compare("image", image.id.as_str(), is.image.as_str());
    let user = plan.hardening.user.unwrap_or(&image.user);
    found.compare("user", user, is.config.user.as_str());
    let of_image = if image.working_dir.is_empty() {
        "/"
    } else {
        &image.working_dir
    };
    let working_dir = plan.working_dir.as_deref().unwrap_or(of_image);
    found.compare(
        "working directory",
        Path::new(working_dir),
        Path::new(&is.config.working_dir),
    );
    found.compare("terminal", false, is.config.tty);
    found.compare("stdin", plan.stdin, is.config.open_stdin);
    for (name, value) in plan.labels.to_map() {
        found.compare(
            &format!("label {name}"),
            Some(value.as_str()),
            is.config.labels.get(&name).map(String::as_str),
        );
    }
    command(found, plan, image, is);
    environment(found, plan, image, is);
}

fn command(found: &mut Differences, plan: &ContainerPlan, image: &ImageFacts, is: &Inspection) {
    found.compare("init", plan.hardening.init, is.host_config.init);
    let whole: Vec<&str> = std::iter::once(&is.path)
        .chain(&is.args)
        .map(String::as_str)
        .collect();
    let own = match whole.as_slice() {
        [_, "--", rest @ ..] if plan.hardening.init => rest,
        whole => whole,
    };
    let planned = command_line(plan, image);
    // A single word is told as both the path and the argument.
    let own = match own {
        [path, argument] if path == argument && planned.len() == 1 => std::slice::from_ref(path),
        own => own,
    };
    // Arguments may hold what the caller would not have in a log.
    found.require(own == planned, || {
        format!("command line: not the {} words that were planned", planned.len())
    });
}

/// What is planned is there; what is not planned comes from the image, or is what the engine always sets.
fn environment(found: &mut Differences, plan: &ContainerPlan, image: &ImageFacts, is: &Inspection) {
    let variables: BTreeMap<&str, &str> = is
        .config
        .env
        .iter()
        .map(|variable| variable.split_once('=').unwrap_or((variable, "")))
        .collect();
    for (name, value) in plan.env.variables() {
        found.require(variables.get(name.as_str()) == Some(&value.as_str()), || {
            format!("environment: `{name}` is not what was planned")
        });
    }
    for (name, value) in variables {
        let planned = plan.env.variables().contains_key(name) || ENGINE_VARIABLES.contains(&name);
        let of_image = image
            .env
            .variables()
            .get(name)
            .is_some_and(|known| known == value);
        found.require(planned || of_image, || {
            format!("environment: `{name}` was not planned")
        });
    }
}

fn confinement(found: &mut Differences, plan: &ContainerPlan, is: &Inspection) {
    let host = &is.host_config;
    let keeps: BTreeSet<String> = plan
        .hardening
        .capabilities
        .iter()
        .map(|name| format!("CAP_{name}"))
        .collect();
    found.compare(
        "capabilities",
        &keeps,
        &is.effective_caps.iter().cloned().collect(),
    );
    found.compare(
        "bounding capabilities",
        &keeps,
        &is.bounding_caps.iter().cloned().collect(),
    );
    found.compare("privileged", false, host.privileged);
    found.compare(
        "read-only root",
        plan.hardening.read_only_root,
        host.readonly_rootfs,
    );
    // Anything else in this list takes a protection away.
    let options: &[&str] = if plan.hardening.no_new_privileges {
        &["no-new-privileges"]
    } else {
        &[]
    };
    found.require(host.security_opt == options, || {
        format!(
            "security options: planned {options:?}, is {:?}",
            host.security_opt
        )
    });
    for (name, mode) in [
        ("process", &host.pid_mode),
        ("IPC", &host.ipc_mode),
        ("host name", &host.uts_mode),
    ] {
        let own = matches!(mode.as_str(), "private" | "shareable" | "");
        found.require(own, || format!("{name} namespace: is {mode:?}"));
    }
    // Without one of its own, a container is in the engine's.
    let apart = matches!(host.userns_mode.as_str(), "" | "private");
    found.require(apart, || format!("user namespace: is {:?}", host.userns_mode));
    found.compare("removes itself", false, host.auto_remove);
    found.compare(
        "publishes ports",
        false,
        host.publish_all_ports || !host.port_bindings.is_empty(),
    );
    found.compare("devices", 0, host.devices.len());
    found.compare("more groups", 0, host.group_add.len());
    found.compare("volumes of others", 0, host.volumes_from.len());
    found.compare("more hosts", 0, host.extra_hosts.len());
    found.compare("log", "none", host.log_config.driver.as_str());
}

fn limits(found: &mut Differences, plan: &ContainerPlan, host: &BindFacts) {
    let memory = plan
        .memory
        .map_or(0, |bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
    found.compare("memory", memory, host.memory);
    found.compare("memory with swap", memory, host.memory_swap);
    found.compare("processors", plan.nano_cpus.unwrap_or(0), host.nano_cpus);
    // Without a limit of ours, the engine's own stays.
    if let Some(pids) = plan.pids {
        found.compare("processes", i64::from(pids), host.pids_limit);
    }
}

fn mounts(found: &mut Differences, plan: &ContainerPlan, is: &[MountFacts]) {
    let planned: BTreeSet<(String, String, bool)> = plan
        .mounts
        .iter()
        .map(|mount| {
            (
                mount.host_path().to_string_lossy().into_owned(),
                clean(mount.container_path()),
                !mount.read_only(),
            )
        })
        .collect();
    let bound: BTreeSet<(String, String, bool)> = is
        .iter()
        .filter(|mount| mount.kind == "bind")
        .map(|mount| (mount.source.clone(), clean(&mount.destination), mount.writable))
        .collect();
    for (source, target, writable) in planned.difference(&bound) {
        found.0.push(format!(
            "mounts: `{source}` is not at `{target}` with writing {writable}"
        ));
    }
    for (source, target, writable) in bound.difference(&planned) {
        found.0.push(format!(
            "mounts: `{source}` is at `{target}` with writing {writable}, which was not planned"
        ));
    }
    for mount in is
        .iter()
        .filter(|mount| mount.kind != "bind" && !is_of_image(mount))
    {
        found.0.push(format!(
            "mounts: a {} `{}` at `{}` was not planned",
            mount.kind, mount.name, mount.destination
        ));
    }
}

/// A volume without a name of its own, which an image declares; it is removed with the container.
fn is_of_image(mount: &MountFacts) -> bool {
    mount.kind == "volume"
        && mount.name.len() == 64
        && mount.name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn clean(path: &str) -> String {
    path.trim_end_matches('/').to_owned()
}

fn networks(found: &mut Differences, plan: &ContainerPlan, is: &Inspection) {
    let host = &is.host_config;
    let names: BTreeSet<&str> = is.network_settings.networks.keys().map(String::as_str).collect();
    match &plan.network {
        PlannedNetwork::None => {
            found.compare("network", "none", host.network_mode.as_str());
            // Podman 5 calls the lack of a network one.
            found.require(names.iter().all(|&name| name == "none"), || {
                format!("networks: planned none, is {names:?}")
            });
        }
        PlannedNetwork::Default => {
            let apart = matches!(
                host.network_mode.split(':').next(),
                Some("bridge" | "slirp4netns" | "pasta")
            );
            found.require(apart, || format!("network: is {:?}", host.network_mode));
        }
        PlannedNetwork::Attached(attachments) => {
            found.compare("network", "bridge", host.network_mode.as_str());
            let planned: BTreeSet<&str> = attachments
                .iter()
                .map(|attachment| attachment.network.as_str())
                .collect();
            found.compare("networks", &planned, &names);
        }
    }
    let dns: Vec<String> = plan.dns.iter().map(ToString::to_string).collect();
    found.compare("name servers", &dns, &host.dns);
}

fn addresses(found: &mut Differences, plan: &ContainerPlan, is: &Inspection) {
    let PlannedNetwork::Attached(attachments) = &plan.network else {
        return;
    };
    for attachment in attachments {
        let Some(place) = is.network_settings.networks.get(&attachment.network) else {
            continue;
        };
        let right = match attachment.address {
            Some(planned) => place.address == Some(planned),
            None => place.address.is_some(),
        };
        found.require(right, || {
            let (network, planned, is) = (&attachment.network, attachment.address, place.address);
            format!("address on `{network}`: planned {planned:?}, is {is:?}")
        });
        found.compare("IPv6 address", "", place.ipv6_address.as_str());
    }
}

fn has_no_ipv6(plan: &ContainerPlan) -> bool {
    plan.sysctls
        .get("net.ipv6.conf.all.disable_ipv6")
        .is_some_and(|value| value == "1")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::Hardening;
    use super::super::plan::Attachment;
    use super::*;
    use crate::reap::Labels;
    use crate::spec::{ContainerEnv, Mount};

    /// What both tested engines said about containers made from [`plan`]: podman 4.3.1 and 5.4.2, after the attach.
    const INSPECTIONS: [&str; 2] = [
        include_str!("fixtures/podman-4.3.1.json"),
        include_str!("fixtures/podman-5.4.2.json"),
    ];

    fn plan() -> ContainerPlan {
        let labels = [
            ("sandbox.owner", "sandbox"),
            ("sandbox.instance", "2d2d2d2d2d2d2d2d"),
            ("sandbox.context", "conversation-42"),
            ("sandbox.role", "task"),
            ("sandbox.lock", "/state/instances/2d2d2d2d2d2d2d2d.lock"),
        ];
        let sysctls = [
            ("net.ipv6.conf.all.disable_ipv6", "1"),
            ("net.ipv6.conf.default.disable_ipv6", "1"),
            ("net.ipv4.ip_forward", "0"),
        ];
        let owned =
            |pairs: &[(&str, &str)]| pairs.iter().map(|&(a, b)| (a.to_owned(), b.to_owned())).collect();
        ContainerPlan {
            name: "sandbox-task-x".to_owned(),
            image: "localhost/base:1".to_owned(),
            entrypoint: None,
            command: vec!["sleep".to_owned(), "100".to_owned()],
            env: ContainerEnv::default().with("FOO", "bar baz"),
            working_dir: Some("/tmp".to_owned()),
            mounts: vec![
                Mount::read_only_at("/srv/data", "/data/"),
                Mount::read_write("/srv/data", "/rw"),
            ],
            network: PlannedNetwork::Attached(vec![Attachment {
                network: "sandbox-conv-x".to_owned(),
                address: Some([10, 199, 0, 3].into()),
            }]),
            dns: Some([10, 199, 0, 2].into()),
            sysctls: owned(&sysctls),
            hardening: Hardening::agent(),
            memory: Some(64 << 20),
            nano_cpus: Some(500_000_000),
            pids: Some(64),
            labels: Labels::from_map(&owned(&labels)).unwrap(),
            stdin: true,
        }
    }

    fn image() -> ImageFacts {
        ImageFacts {
            id: "1e".repeat(32),
            created: std::time::UNIX_EPOCH,
            labels: BTreeMap::new(),
            entrypoint: Vec::new(),
            command: vec!["/bin/bash".to_owned()],
            env: ContainerEnv::default(),
            working_dir: String::new(),
            user: String::new(),
            architecture: "amd64".to_owned(),
        }
    }

    fn kernel() -> KernelFacts {
        KernelFacts {
            bounding: 0xeb,
            no_new_privileges: true,
            interfaces: ["eth0", "lo"].map(str::to_owned).into(),
            has_ipv6: false,
            forwards_ipv4: false,
            shared_namespaces: BTreeSet::new(),
        }
    }

    fn differences(plan: &ContainerPlan, inspection: Value, kernel: &KernelFacts) -> Vec<String> {
        attached(
            plan,
            &image(),
            &serde_json::from_value(inspection).unwrap(),
            kernel,
        )
    }

    #[test]
    fn what_both_engines_made_of_the_plan_is_accepted() {
        for inspection in INSPECTIONS {
            let found = differences(&plan(), serde_json::from_str(inspection).unwrap(), &kernel());
            assert!(found.is_empty(), "{found:?}");
        }
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a flat table")]
    fn each_field_that_an_engine_weakens_is_named() {
        let unplanned_mount = json!([
            {"Type": "bind", "Source": "/srv/data", "Destination": "/data", "RW": false},
            {"Type": "bind", "Source": "/srv/data", "Destination": "/rw", "RW": true},
            {"Type": "bind", "Source": "/", "Destination": "/host", "RW": true},
        ]);
        let named_volume = json!([
            {"Type": "bind", "Source": "/srv/data", "Destination": "/data", "RW": false},
            {"Type": "bind", "Source": "/srv/data", "Destination": "/rw", "RW": true},
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
            (
                "/BoundingCaps",
                json!(["CAP_NET_ADMIN"]),
                "bounding capabilities:",
            ),
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
            (
                "/NetworkSettings/Networks/sandbox-conv-x/IPAddress",
                json!(""),
                "address on `sandbox-conv-x`:",
            ),
            (
                "/NetworkSettings/Networks/sandbox-conv-x/GlobalIPv6Address",
                json!("fd00::3"),
                "IPv6 address:",
            ),
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
            (
                "/Config/Labels/sandbox.role",
                json!("probe"),
                "label sandbox.role:",
            ),
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
            ("/HostConfig/AutoRemove", json!(true), "removes itself:"),
            ("/HostConfig/PublishAllPorts", json!(true), "publishes ports:"),
            (
                "/HostConfig/PortBindings",
                json!({"80/tcp": []}),
                "publishes ports:",
            ),
            ("/HostConfig/SecurityOpt", json!([]), "security options:"),
            (
                "/HostConfig/SecurityOpt",
                json!(["no-new-privileges", "seccomp=unconfined"]),
                "security options:",
            ),
            (
                "/HostConfig/Devices",
                json!([{"PathOnHost": "/dev/sda"}]),
                "devices:",
            ),
            ("/HostConfig/GroupAdd", json!(["0"]), "more groups:"),
            ("/HostConfig/VolumesFrom", json!(["x"]), "volumes of others:"),
            ("/HostConfig/ExtraHosts", json!(["a:1.2.3.4"]), "more hosts:"),
            ("/HostConfig/Dns", json!([]), "name servers:"),
            (
                "/HostConfig/Dns",
                json!(["10.199.0.2", "1.1.1.1"]),
                "name servers:",
            ),
            ("/HostConfig/LogConfig/Type", json!("k8s-file"), "log:"),
            ("/HostConfig/Memory", json!(0), "memory:"),
            ("/HostConfig/MemorySwap", json!(-1), "memory with swap:"),
            ("/HostConfig/NanoCpus", json!(0), "processors:"),
            ("/HostConfig/PidsLimit", json!(2048), "processes:"),
        ];
        for inspection in INSPECTIONS {
            for (field, value, named) in &weakened {
                let found = differences(&plan(), changed(inspection, field, value.clone()), &kernel());
                if named.is_empty() {
                    // The engine's PID 1 has a path of the engine's choice.
                    assert!(found.is_empty(), "{field}: {found:?}");
                } else {
                    assert!(
                        found.iter().any(|text| text.starts_with(named)),
                        "{field} = {value}: {found:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn each_weakness_in_the_kernel_is_named() {
        let shared = BTreeSet::from(["net"]);
        for (facts, named) in [
            (
                KernelFacts {
                    bounding: 0xeb | 1 << 12,
                    ..kernel()
                },
                "capabilities in the kernel:",
            ),
            (
                KernelFacts {
                    bounding: 0,
                    ..kernel()
                },
                "capabilities in the kernel:",
            ),
            (
                KernelFacts {
                    no_new_privileges: false,
                    ..kernel()
                },
                "no-new-privileges in the kernel:",
            ),
            (
                KernelFacts {
                    has_ipv6: true,
                    ..kernel()
                },
                "IPv6 addresses:",
            ),
            (
                KernelFacts {
                    forwards_ipv4: true,
                    ..kernel()
                },
                "forwarding:",
            ),
            (
                KernelFacts {
                    shared_namespaces: shared,
                    ..kernel()
                },
                "namespaces shared with the host:",
            ),
        ] {
            let [inspection, _] = INSPECTIONS;
            let found = differences(&plan(), serde_json::from_str(inspection).unwrap(), &facts);
            assert!(
                matches!(found.as_slice(), [only] if only.starts_with(named)),
                "{found:?}"
            );
        }
    }

    #[test]
    fn a_container_without_a_network_has_loopback_only() {
        let plan = ContainerPlan {
            network: PlannedNetwork::None,
            dns: None,
            ..plan()
        };
        let lone = KernelFacts {
            interfaces: BTreeSet::from(["lo".to_owned()]),
            ..kernel()
        };
        for networks in [
            json!({}),
            json!(null),
            json!({"none": {"IPAddress": "", "GlobalIPv6Address": ""}}),
        ] {
            let [inspection, _] = INSPECTIONS;
            let mut answer = changed(inspection, "/NetworkSettings/Networks", networks);
            *answer.pointer_mut("/HostConfig/NetworkMode").unwrap() = json!("none");
            *answer.pointer_mut("/HostConfig/Dns").unwrap() = json!([]);
            assert_eq!(differences(&plan, answer.clone(), &lone), [""; 0]);
            let found = differences(&plan, answer, &kernel());
            assert!(
                matches!(found.as_slice(), [only] if only.starts_with("interfaces:")),
                "{found:?}"
            );
        }
    }

    #[test]
    fn a_field_that_an_engine_leaves_out_is_no_answer() {
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
        ] {
            for inspection in INSPECTIONS {
                let mut answer: Value = serde_json::from_str(inspection).unwrap();
                let (parent, name) = field.rsplit_once('/').unwrap();
                answer
                    .pointer_mut(parent)
                    .unwrap()
                    .as_object_mut()
                    .unwrap()
                    .remove(name)
                    .unwrap();
                assert!(serde_json::from_value::<Inspection>(answer).is_err(), "{field}");
            }
        }
    }

    #[test]
    fn values_of_variables_are_never_told() {
        let secret = plan().env.with("TOKEN", "hunter2");
        let plan = ContainerPlan {
            env: secret,
            ..plan()
        };
        let [inspection, _] = INSPECTIONS;
        for env in [json!(["TOKEN=hunter3"]), json!(["OTHER=hunter3"])] {
            let answer = changed(inspection, "/Config/Env", env);
            let text = format!(
                "{plan:?} {answer:?}",
                answer = serde_json::from_value::<Inspection>(answer.clone()).unwrap()
            );
            let found = differences(&plan, answer, &kernel()).join("\n");
            assert!(found.contains("`TOKEN`"), "{found}");
            assert!(
                !found.contains("hunter") && !text.contains("hunter"),
                "{found} {text}"
            );
        }
    }

    #[test]
    fn what_is_not_planned_is_the_engines_choice() {
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

    #[test]
    fn a_command_of_one_word_is_told_twice() {
        let hardening = Hardening {
            init: false,
            ..Hardening::agent()
        };
        let plan = ContainerPlan {
            command: vec!["/proxy".to_owned()],
            hardening,
            ..plan()
        };
        let [inspection, _] = INSPECTIONS;
        for (args, good) in [
            (json!(["/proxy"]), true),
            (json!([]), true),
            (json!(["/other"]), false),
        ] {
            let mut answer = changed(inspection, "/Args", args);
            *answer.pointer_mut("/Path").unwrap() = json!("/proxy");
            *answer.pointer_mut("/HostConfig/Init").unwrap() = json!(false);
            assert_eq!(differences(&plan, answer, &kernel()).is_empty(), good);
        }
    }

    #[test]
    fn the_image_fills_in_what_the_plan_leaves_open() {
        let image = ImageFacts {
            entrypoint: vec!["/entry".to_owned()],
            ..image()
        };
        for (entrypoint, command, expected) in [
            (None, vec![], vec!["/entry", "/bin/bash"]),
            (None, vec!["ls"], vec!["/entry", "ls"]),
            (Some(vec!["/own"]), vec![], vec!["/own"]),
            (Some(vec!["/own"]), vec!["ls"], vec!["/own", "ls"]),
        ] {
            let owned = |words: Vec<&str>| words.into_iter().map(str::to_owned).collect::<Vec<_>>();
            let plan = ContainerPlan {
                entrypoint: entrypoint.map(owned),
                command: owned(command),
                ..plan()
            };
            assert_eq!(command_line(&plan, &image), expected);
        }
    }

    /// The inspection with the value at `field` (a JSON pointer, whose last step may be new) changed.
    fn changed(inspection: &str, field: &str, value: Value) -> Value {
        let mut answer: Value = serde_json::from_str(inspection).unwrap();
        let (parent, name) = field.rsplit_once('/').unwrap();
        match answer.pointer_mut(parent).unwrap() {
            Value::Array(list) => {
                let index: usize = name.parse().unwrap();
                list[index] = value;
            }
            parent => {
                parent.as_object_mut().unwrap().insert(name.to_owned(), value);
            }
        }
        answer
    }
}

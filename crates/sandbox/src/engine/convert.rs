//! From a plan to what the engine's API calls its parts.

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;

use bollard::models::{
    ContainerCreateBody, EndpointIpamConfig, EndpointSettings, HealthConfig, HostConfig, HostConfigLogConfig,
    Mount as ApiMount, MountBindOptions, MountBindOptionsPropagationEnum, MountType, NetworkingConfig,
};

use crate::container::{Attachment, ContainerPlan, Detachment, PlannedNetwork};
use crate::spec::{Mount, Sharing};
use sandbox_workspace::overlay_folders;

use super::confine;

/// The body of the call that creates `plan`.
pub(super) fn container(plan: &ContainerPlan) -> ContainerCreateBody {
    let env = plan
        .env
        .variables()
        .iter()
        .map(|(name, value)| format!("{name}={value}"));
    ContainerCreateBody {
        image: Some(plan.image.clone()),
        entrypoint: plan.entrypoint.clone(),
        cmd: (!plan.command.is_empty()).then(|| plan.command.clone()),
        env: Some(env.collect()),
        working_dir: plan.working_dir.clone(),
        user: plan.isolation.user.clone(),
        hostname: Some(plan.isolation.hostname.clone()),
        stop_signal: Some(format!("SIG{}", plan.isolation.stop_signal.name())),
        labels: Some(plan.labels.to_map().into_iter().collect()),
        open_stdin: Some(plan.stdin),
        stdin_once: Some(plan.stdin),
        attach_stdin: Some(plan.stdin),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        tty: Some(false),
        // Podman 5 waits this long before it kills on a forced removal. Whoever stops a container of ours waits on this side.
        stop_timeout: Some(0),
        // What the image would have the engine run beside the task.
        healthcheck: Some(HealthConfig {
            test: Some(vec!["NONE".to_owned()]),
            ..HealthConfig::default()
        }),
        host_config: Some(host(plan)),
        networking_config: networking(&plan.network),
        ..ContainerCreateBody::default()
    }
}

fn host(plan: &ContainerPlan) -> HostConfig {
    let bytes = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    HostConfig {
        network_mode: Some(network_mode(&plan.network)),
        mounts: Some(
            plan.mounts
                .iter()
                .filter(|mount| mount.copy_dir().is_none() && label(plan, mount).is_none())
                .map(bind)
                .collect(),
        ),
        binds: Some(binds(plan)),
        memory: plan.memory.map(bytes),
        // Without a word of ours, podman gives as much swap as memory.
        memory_swap: plan.memory_with_swap().map(bytes),
        nano_cpus: plan.nano_cpus,
        pids_limit: plan.pids.map(i64::from),
        storage_opt: plan
            .disk
            .map(|bytes| HashMap::from([("size".to_owned(), bytes.to_string())])),
        dns: plan.dns.map(|server| vec![server.to_string()]),
        sysctls: Some(plan.sysctls.clone().into_iter().collect()),
        log_config: Some(log(&plan.detachment)),
        annotations: some(&plan.detachment.annotations),
        ..confine::host(&plan.isolation)
    }
}

fn network_mode(network: &PlannedNetwork) -> String {
    match network {
        PlannedNetwork::None => "none".to_owned(),
        PlannedNetwork::Default => "default".to_owned(),
        PlannedNetwork::Attached(attachments) => attachments
            .first()
            .map_or_else(|| "none".to_owned(), |first| first.network.clone()),
    }
}

fn networking(network: &PlannedNetwork) -> Option<NetworkingConfig> {
    let PlannedNetwork::Attached(attachments) = network else {
        return None;
    };
    let endpoints = attachments
        .iter()
        .map(|Attachment { network, address }| (network.clone(), endpoint(*address)));
    Some(NetworkingConfig {
        endpoints_config: Some(endpoints.collect::<HashMap<_, _>>()),
    })
}

/// Output goes to whoever is attached; a driver would write it to the host's disk, so it has a bound or there is none.
fn log(detachment: &Detachment) -> HostConfigLogConfig {
    let bound = |bytes: u64| HashMap::from([("max-size".to_owned(), bytes.to_string())]);
    HostConfigLogConfig {
        typ: Some(detachment.log_driver().to_owned()),
        config: detachment.log_limit.map(bound),
    }
}

fn some(annotations: &BTreeMap<String, String>) -> Option<HashMap<String, String>> {
    (!annotations.is_empty()).then(|| annotations.clone().into_iter().collect())
}

fn endpoint(address: Option<Ipv4Addr>) -> EndpointSettings {
    EndpointSettings {
        ipam_config: address.map(|address| EndpointIpamConfig {
            ipv4_address: Some(address.to_string()),
            ..EndpointIpamConfig::default()
        }),
        ..EndpointSettings::default()
    }
}

fn label(plan: &ContainerPlan, mount: &Mount) -> Option<Sharing> {
    plan.detachment.sharing.get(mount.container_path()).copied()
}

/// What only the short form of a mount can say.
fn binds(plan: &ContainerPlan) -> Vec<String> {
    let mut binds = labelled(plan);
    binds.extend(plan.mounts.iter().filter_map(overlay));
    binds
}

/// The mounts that get a label: the API has no field for it but the short form of a mount, in which a path cannot hold a colon.
fn labelled(plan: &ContainerPlan) -> Vec<String> {
    let short = |mount: &Mount| {
        let access = if mount.read_only() { "ro" } else { "rw" };
        Some(format!(
            "{}:{}:{access},{},rprivate",
            mount.host_path().to_string_lossy(),
            mount.container_path(),
            label(plan, mount)?.relabel()
        ))
    };
    plan.mounts.iter().filter_map(short).collect()
}

fn bind(mount: &Mount) -> ApiMount {
    ApiMount {
        typ: Some(MountType::BIND),
        source: Some(mount.host_path().to_string_lossy().into_owned()),
        target: Some(mount.container_path().to_owned()),
        read_only: Some(mount.read_only()),
        bind_options: Some(MountBindOptions {
            // What the container mounts stays in it, and what the host mounts later does not appear in it.
            propagation: Some(MountBindOptionsPropagationEnum::RPRIVATE),
            ..MountBindOptions::default()
        }),
        ..ApiMount::default()
    }
}

/// What only this older form of a mount can say, on both of podman's tested versions: an overlay with folders of ours.
fn overlay(mount: &Mount) -> Option<String> {
    let (upper, work) = overlay_folders(mount.copy_dir()?);
    Some(format!(
        "{}:{}:O,upperdir={},workdir={}",
        mount.host_path().display(),
        mount.container_path(),
        upper.display(),
        work.display()
    ))
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;
    use crate::reap::{InstanceLock, Labels};
    use crate::spec::{ContainerEnv, Isolation};

    /// A plan for tests that need any.
    pub(crate) fn a_plan() -> ContainerPlan {
        plan(PlannedNetwork::None, Isolation::agent())
    }

    fn plan(network: PlannedNetwork, isolation: Isolation) -> ContainerPlan {
        let state = tempfile::tempdir().unwrap();
        ContainerPlan {
            name: "n".to_owned(),
            image: "localhost/base:1".to_owned(),
            entrypoint: None,
            command: Vec::new(),
            env: ContainerEnv::default().with("A", "b=c"),
            working_dir: None,
            mounts: vec![Mount::read_only_at("/srv/a:b", "/data")],
            network,
            dns: None,
            sysctls: BTreeMap::from([("net.ipv4.ip_forward".to_owned(), "0".to_owned())]),
            isolation,
            memory: None,
            nano_cpus: None,
            pids: None,
            disk: None,
            labels: Labels::new("sandbox", &InstanceLock::acquire(state.path()).unwrap(), "c"),
            stdin: false,
            detachment: Detachment::default(),
        }
    }

    fn body(plan: &ContainerPlan) -> serde_json::Value {
        serde_json::to_value(container(plan)).unwrap()
    }

    #[test]
    fn a_task_gets_what_its_plan_says() {
        let network = PlannedNetwork::Attached(vec![
            Attachment {
                network: "inner".to_owned(),
                address: Some([10, 199, 0, 3].into()),
            },
            Attachment {
                network: "outer".to_owned(),
                address: None,
            },
        ]);
        let plan = ContainerPlan {
            memory: Some(64 << 20),
            nano_cpus: Some(5),
            pids: Some(7),
            dns: Some([10, 199, 0, 2].into()),
            stdin: true,
            ..plan(network, Isolation::agent())
        };
        let body = body(&plan);
        for (field, expected) in [
            ("/Env", json!(["A=b=c"])),
            ("/OpenStdin", json!(true)),
            ("/StdinOnce", json!(true)),
            ("/StopTimeout", json!(0)),
            ("/StopSignal", json!("SIGTERM")),
            ("/Hostname", json!("sandbox")),
            ("/Healthcheck/Test", json!(["NONE"])),
            ("/Labels/sandbox.role", json!("task")),
            ("/HostConfig/NetworkMode", json!("inner")),
            ("/HostConfig/CapDrop", json!(["ALL"])),
            (
                "/HostConfig/CapAdd",
                json!(["CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID"]),
            ),
            (
                "/HostConfig/SecurityOpt",
                json!(["no-new-privileges", "mask=/run/.containerenv"]),
            ),
            ("/HostConfig/LogConfig/Type", json!("none")),
            ("/HostConfig/Memory", json!(64 << 20)),
            ("/HostConfig/MemorySwap", json!(64 << 20)),
            ("/HostConfig/NanoCpus", json!(5)),
            ("/HostConfig/PidsLimit", json!(7)),
            ("/HostConfig/Dns", json!(["10.199.0.2"])),
            ("/HostConfig/Init", json!(true)),
            ("/HostConfig/Sysctls", json!({"net.ipv4.ip_forward": "0"})),
            ("/HostConfig/Mounts/0/Source", json!("/srv/a:b")),
            ("/HostConfig/Mounts/0/ReadOnly", json!(true)),
            ("/HostConfig/Mounts/0/BindOptions/Propagation", json!("rprivate")),
            (
                "/NetworkingConfig/EndpointsConfig/inner/IPAMConfig/IPv4Address",
                json!("10.199.0.3"),
            ),
            ("/NetworkingConfig/EndpointsConfig/outer", json!({})),
        ] {
            assert_eq!(body.pointer(field), Some(&expected), "{field}");
        }
        assert_eq!(
            body.pointer("/HostConfig/AutoRemove"),
            None,
            "podman 4 loses exit codes with it"
        );
    }

    #[test]
    fn a_copy_is_an_overlay_and_no_plain_mount() {
        let mut plan = plan(PlannedNetwork::None, Isolation::agent());
        plan.mounts = vec![Mount::copy_on_write("/srv/app", "/workspace", "/state/copy")];
        let body = body(&plan);
        let bind = "/srv/app:/workspace:O,upperdir=/state/copy/upper,workdir=/state/copy/work";
        assert_eq!(body.pointer("/HostConfig/Binds"), Some(&json!([bind])));
        assert_eq!(body.pointer("/HostConfig/Mounts"), Some(&json!([])));
    }

    #[test]
    fn a_detached_run_keeps_a_bounded_log_and_labels_its_volumes() {
        let mut plan = plan(PlannedNetwork::None, Isolation::agent());
        plan.mounts = vec![
            Mount::read_only_at("/srv/a:b", "/own"),
            Mount::read_only_at("/srv/a", "/a"),
            Mount::read_write("/srv/b", "/b"),
        ];
        plan.detachment = Detachment {
            log_limit: Some(65536),
            annotations: BTreeMap::from([("krun.cpus".to_owned(), "2".to_owned())]),
            sharing: BTreeMap::from([
                ("/a".to_owned(), Sharing::Private),
                ("/b".to_owned(), Sharing::Shared),
            ]),
        };
        let body = body(&plan);
        for (field, expected) in [
            ("/HostConfig/LogConfig/Type", json!("k8s-file")),
            ("/HostConfig/LogConfig/Config", json!({"max-size": "65536"})),
            ("/HostConfig/Annotations", json!({"krun.cpus": "2"})),
            (
                "/HostConfig/Binds",
                json!(["/srv/a:/a:ro,Z,rprivate", "/srv/b:/b:rw,z,rprivate"]),
            ),
            ("/HostConfig/Mounts/0/Source", json!("/srv/a:b")),
        ] {
            assert_eq!(body.pointer(field), Some(&expected), "{field}");
        }
        assert_eq!(body.pointer("/HostConfig/Mounts/1"), None);
    }

    #[test]
    fn without_a_network_nothing_is_attached() {
        let body = body(&plan(PlannedNetwork::None, Isolation::proxy()));
        assert_eq!(body.pointer("/HostConfig/NetworkMode"), Some(&json!("none")));
        assert_eq!(body.pointer("/NetworkingConfig"), None);
        assert_eq!(body.pointer("/HostConfig/CapAdd"), Some(&json!([])));
        assert_eq!(body.pointer("/HostConfig/ReadonlyRootfs"), Some(&json!(true)));
        assert_eq!(body.pointer("/User"), Some(&json!("65534:65534")));
        assert_eq!(body.pointer("/Cmd"), None, "the image's");
    }

    #[test]
    fn an_empty_list_of_networks_is_none_and_not_the_default() {
        assert_eq!(network_mode(&PlannedNetwork::Attached(Vec::new())), "none");
        assert_eq!(network_mode(&PlannedNetwork::Default), "default");
    }
}

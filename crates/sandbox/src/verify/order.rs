//! The input of the program in the container.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use sandbox_inside::{Check, Order, ProcessLimit, Scratch};

use crate::context::Shared;
use crate::egress;
use crate::program::INSIDE;
use crate::spec::{
    ByteSize, Capability, Device, InvalidSpec, Isolation, Launch, Mount, Network, with_git_settings,
};
use sandbox_podman::ImageFacts;

use super::VerifySpec;
use crate::error::{SandboxError, VerifyError};

/// Namespaces that no container shares with the host.
const NAMESPACES: [&str; 5] = ["ipc", "mnt", "net", "pid", "uts"];
/// Variables that the engine sets in every container.
const ENGINE_VARIABLES: [&str; 5] = ["HOME", "HOSTNAME", "PATH", "TERM", "container"];

/// The order for those of `checks` that run inside. Blocks on `/proc`.
pub(super) fn order(
    shared: &Shared,
    spec: &VerifySpec,
    launch: &Launch,
    image: &ImageFacts,
    checks: &[Check],
) -> Result<Order, SandboxError> {
    let (isolation, limits) = &spec.guaranteed;
    let has_proxy = matches!(spec.network, Network::Sandboxed(_));
    let isolation = isolation.clone().resolved(&image.user, &spec.mounts);
    Ok(Order {
        checks: checks.iter().copied().filter(|check| !check.is_of_the_host()).collect(),
        user: isolation.user.clone(),
        capabilities: Capability::bits(&isolation.capabilities),
        read_only_root: isolation.read_only_root,
        scratch: scratch(&isolation),
        shm_size: isolation.shm_size,
        limits: process_limits(&isolation),
        memory: limits.memory.map(ByteSize::bytes),
        processes: limits.pids,
        hostname: isolation.hostname.clone(),
        hosts: isolation.hosts.iter().map(|entry| entry.name.clone()).collect(),
        devices: isolation.devices.iter().filter_map(device).collect(),
        writable: writable(&spec.mounts),
        owned: owned(has_proxy),
        engine_socket: shared.config().engine.socket().display().to_string(),
        variables: variables(launch, image)?,
        namespaces: namespaces().map_err(VerifyError::Namespaces)?,
        has_proxy,
    })
}

fn scratch(isolation: &Isolation) -> Vec<Scratch> {
    isolation
        .tmpfs
        .iter()
        .map(|tmpfs| Scratch { path: tmpfs.path.clone(), size: tmpfs.size, exec: tmpfs.exec })
        .collect()
}

fn process_limits(isolation: &Isolation) -> Vec<ProcessLimit> {
    isolation
        .ulimits
        .iter()
        .map(|limit| ProcessLimit {
            title: limit.kind.title().to_owned(),
            soft: limit.soft,
            hard: limit.hard,
        })
        .collect()
}

/// A CDI device may be anywhere: only device nodes have a known path.
fn device(device: &Device) -> Option<String> {
    match device {
        Device::Node { container, .. } => Some(container.clone()),
        Device::Cdi(_) => None,
    }
}

fn writable(mounts: &[Mount]) -> BTreeSet<String> {
    mounts.iter().filter(|mount| !mount.read_only()).map(|mount| mount.container_path().to_owned()).collect()
}

fn owned(has_proxy: bool) -> BTreeSet<String> {
    let trust = has_proxy.then_some(egress::TRUST_FOLDER);
    [INSIDE, Launch::HOSTS_FILE].into_iter().chain(trust).map(str::to_owned).collect()
}

fn variables(launch: &Launch, image: &ImageFacts) -> Result<BTreeSet<String>, InvalidSpec> {
    // The last one is the gate's, if there is one.
    let git_settings = launch.git_settings().into_iter().chain([Default::default()]).collect();
    let env = with_git_settings(&launch.env, git_settings)?;
    let ours = ENGINE_VARIABLES.into_iter().chain(egress::trust_variables()).chain([egress::GATE_TOKEN]);
    let named = env.variables().keys().chain(image.env.keys()).cloned();
    Ok(named.chain(ours.map(str::to_owned)).collect())
}

fn namespaces() -> std::io::Result<BTreeMap<String, String>> {
    NAMESPACES
        .into_iter()
        .map(|name| {
            let link = fs::read_link(format!("/proc/self/ns/{name}"))?;
            Ok((name.to_owned(), link.to_string_lossy().into_owned()))
        })
        .collect()
}

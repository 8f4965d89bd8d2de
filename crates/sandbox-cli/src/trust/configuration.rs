//! The rights that a configuration gives a run.

use std::path::Path;

use sandbox::{Agent, ByteSize, ResourceLimits};

use super::Rights;
use super::amount::{size, time};
use super::credentials::credential_rights;
use super::image::existing_image;
use crate::config::{BuildFile, ConfigFile, SshFile, UpstreamFile, WorkspaceMode};
use crate::printer::quoted;

/// What a configuration gives a task, beyond what it has anyway or below that. `user` is the user's
/// own file, and `is_inside` says whether a path of the host lies in the work tree.
pub(crate) fn configuration_rights(
    file: &ConfigFile,
    user: &ConfigFile,
    is_inside: impl Fn(&Path) -> bool,
) -> Rights {
    let mut rights = Rights::default();
    machine(file, &mut rights);
    upstream(&file.upstream, &mut rights);
    image(file, &is_inside, &mut rights);
    workspace(file, user, &mut rights);
    for mount in &file.mounts {
        let access = if mount.read_only() { "read" } else { "read and write" };
        let (from, to) = (path(mount.host_path()), quoted(mount.container_path()));
        if is_inside(mount.host_path()) {
            rights.tell(format!("{access} {from} of the work tree at {to} too"));
        } else {
            rights.ask(format!("{access} {from} of this machine, at {to}"));
        }
    }
    variables(file, &mut rights);
    credential_rights(&file.credentials, &mut rights);
    for line in file.ssh.iter().flat_map(SshFile::rights) {
        rights.ask(line);
    }
    limits(file.resource_limits, user.resource_limits, &mut rights);
    rights
}

fn machine(file: &ConfigFile, rights: &mut Rights) {
    if file.network_sandbox == Some(false) {
        rights.ask("turn the network sandbox off: reach whatever this machine reaches, without a log");
    }
    if let Some(engine) = &file.engine {
        rights.ask(format!("use the engine {}", quoted(&engine.to_string())));
    }
    if let Some(prefix) = &file.prefix {
        rights.tell(format!("use objects of the engine whose names begin with {}", quoted(prefix)));
    }
    if let Some(agent) = &file.agent {
        rights.tell(format!("start {} as the agent", quoted(agent.name())));
    }
    for service in &file.host_services {
        rights.ask(format!("connect to this machine's service {service}"));
    }
    for name in &file.gate {
        rights.ask(format!(
            "fetch from the repository {} of your gate, and push to it as the policy allows",
            quoted(name)
        ));
    }
}

fn upstream(upstream: &UpstreamFile, rights: &mut Rights) {
    if let Some(dns) = upstream.dns {
        rights.ask(format!("look names up at {dns}"));
    }
    for network in &upstream.allow_addresses {
        rights.ask(format!("reach the private network {}", network.0));
    }
    if let Some(roots) = &upstream.extra_roots {
        rights.ask(format!("trust the certificate authorities in {}", path(roots)));
    }
}

fn image(file: &ConfigFile, is_inside: impl Fn(&Path) -> bool, rights: &mut Rights) {
    // Whoever is to run it asks; other commands do not look at it.
    if let Some(image) = &file.image {
        rights.tell(existing_image(image));
    }
    for (what, place) in [("with the Dockerfile", &file.dockerfile), ("of the files in", &file.context)] {
        let Some(place) = place else { continue };
        if is_inside(place) {
            rights.tell(format!("build the image {what} {}", path(place)));
        } else {
            rights.ask(format!("build the image {what} {} of this machine", path(place)));
        }
    }
    match &file.build {
        Some(BuildFile::Network(_)) => {
            rights.ask("build images outside of the sandbox, on this machine's network");
        }
        Some(BuildFile::Allowlist(place)) => {
            rights.ask(format!("let image builds reach what {} allows", path(place)));
        }
        None => {}
    }
}

fn workspace(file: &ConfigFile, user: &ConfigFile, rights: &mut Rights) {
    match file.workspace {
        Some(WorkspaceMode::Direct) => {
            rights.ask("let agents work on the work tree itself instead of on a copy");
        }
        Some(WorkspaceMode::Auto) if user.workspace == Some(WorkspaceMode::Copy) => {
            rights.ask("work on a copy, and apply what is safe at the end, which your own settings do not");
        }
        Some(WorkspaceMode::Auto) => rights.tell("work on a copy, and apply what is safe at the end"),
        Some(WorkspaceMode::Copy) => rights.tell("work on a copy, and apply nothing by itself"),
        None => {}
    }
    if file.protect_workspace == Some(false) {
        rights.ask("write what programs of this machine run on their own (git hooks, .envrc, .claude)");
    }
    for path in &file.protected_paths {
        rights.tell(format!("keep off {}", quoted(&path.0)));
    }
}

fn variables(file: &ConfigFile, rights: &mut Rights) {
    for (name, setting) in &file.env {
        if let Some(variable) = setting.variable_name() {
            let renamed = if variable == name { String::new() } else { format!(", as {}", quoted(name)) };
            rights.ask(format!("read your variable {}{renamed}", quoted(variable)));
        } else if is_key(name) {
            // The owner of the key that a task has may read all that it sends with it.
            rights.ask(format!(
                "give the task {} of the project's own instead of yours, with the digest {}",
                quoted(name),
                setting.digest()
            ));
        } else {
            rights.tell(format!(
                "set the variable {} to a text with the digest {}",
                quoted(name),
                setting.digest()
            ));
        }
    }
    for name in file.pass_env.keys() {
        rights.ask(format!("read your variable {}", quoted(name)));
    }
}

/// Whether an agent reads its key from the variable `name`.
fn is_key(name: &str) -> bool {
    let agents = Agent::NAMES.iter().filter_map(|agent| agent.parse::<Agent>().ok());
    agents.into_iter().any(|agent| agent.credentials().any(|(variable, _)| variable == name))
}

/// Limits are said whether they are there or not: a limit that goes away is a right that is new.
fn limits(own: ResourceLimits, user: ResourceLimits, rights: &mut Rights) {
    let mut absent = Vec::new();
    let mut limit = |name: &'static str, line: Option<Limit>| match line {
        Some(Limit::Raised(line)) => rights.ask(line),
        Some(Limit::Kept(line)) => rights.tell(line),
        Some(Limit::User) => {}
        None => absent.push(name),
    };
    let bytes = |size: ByteSize| size.bytes();
    let (own_memory, user_memory) = (own.memory.map(bytes), user.memory.map(bytes));
    limit("memory", Limit::of(own_memory, user_memory, |most| format!("{} of memory", size(most))));
    let (own_disk, user_disk) = (own.disk.map(bytes), user.disk.map(bytes));
    limit("disk", Limit::of(own_disk, user_disk, |most| format!("{} of disk", size(most))));
    limit("processors", Limit::of(own.cpus, user.cpus, |most| format!("{most} processors")));
    limit("processes", Limit::of(own.pids, user.pids, |most| format!("{most} processes")));
    limit("time", Limit::of(own.timeout, user.timeout, |most| format!("{} of time", time(most.as_secs()))));
    if !absent.is_empty() {
        rights.tell(format!("use unlimited {}", absent.join(", ")));
    }
}

/// What is to say of a limit.
enum Limit {
    /// It is higher than that of the user's own file.
    Raised(String),
    Kept(String),
    /// There is none but the user's own.
    User,
}

impl Limit {
    fn of<T: PartialOrd + Copy>(own: Option<T>, user: Option<T>, show: impl Fn(T) -> String) -> Option<Self> {
        match (own, user) {
            (Some(own), Some(user)) if own > user => {
                Some(Self::Raised(format!("use up to {}, above your own limit of {}", show(own), show(user))))
            }
            (Some(own), _) => Some(Self::Kept(format!("use at most {}", show(own)))),
            (None, Some(_)) => Some(Self::User),
            (None, None) => None,
        }
    }
}

fn path(path: &Path) -> String {
    quoted(&path.display().to_string())
}

#[cfg(test)]
mod tests;

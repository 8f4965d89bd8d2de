//! The rights that a configuration gives a run.

use std::path::Path;

use sandbox::{Agent, ByteSize, ResourceLimits};

use super::Rights;
use super::amount::{size, time};
use super::credentials::credential_rights;
use super::image::existing_image;
use crate::config::{BuildFile, ConfigFile, SshFile, UpstreamFile, WorkspaceMode};
use crate::printer::quoted;

/// The rights that a configuration gives a task, compared with the defaults. `user` is the user's
/// own file, and `is_inside` returns whether a path of the host is in the work tree.
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
            rights.ask(format!("{access} {from} of the host, at {to}"));
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
        rights.ask("turn the network sandbox off: use the host's network access, without a log");
    }
    if let Some(engine) = &file.engine {
        rights.ask(format!("use the engine {}", quoted(&engine.to_string())));
    }
    if let Some(prefix) = &file.prefix {
        rights.tell(format!("use engine objects with the prefix {}", quoted(prefix)));
    }
    if let Some(agent) = &file.agent {
        rights.tell(format!("start {} as the agent", quoted(agent.name())));
    }
    if let Some(command) = &file.ask {
        rights.ask(command.right());
    }
    for service in &file.host_services {
        rights.ask(format!("connect to the host's service {service}"));
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
        rights.ask(format!("resolve names at {dns}"));
    }
    for network in &upstream.allow_addresses {
        rights.ask(format!("reach the private network {}", network.0));
    }
    if let Some(roots) = &upstream.extra_roots {
        rights.ask(format!("trust the certificate authorities in {}", path(roots)));
    }
}

fn image(file: &ConfigFile, is_inside: impl Fn(&Path) -> bool, rights: &mut Rights) {
    // Commands that run it review it; others ignore it.
    if let Some(image) = &file.image {
        rights.tell(existing_image(image));
    }
    for (what, place) in [("with the Dockerfile", &file.dockerfile), ("of the files in", &file.context)] {
        let Some(place) = place else { continue };
        if is_inside(place) {
            rights.tell(format!("build the image {what} {}", path(place)));
        } else {
            rights.ask(format!("build the image {what} {} of the host", path(place)));
        }
    }
    match &file.build {
        Some(BuildFile::Network(_)) => {
            rights.ask("build images outside of the sandbox, on the host's network");
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
        rights.ask("write files that host tools execute implicitly (git hooks, .envrc, .claude)");
    }
    for path in &file.protected_paths {
        rights.tell(format!("not write to {}", quoted(&path.0)));
    }
}

fn variables(file: &ConfigFile, rights: &mut Rights) {
    for (name, setting) in &file.env {
        if let Some(variable) = setting.variable_name() {
            let renamed = if variable == name { String::new() } else { format!(", as {}", quoted(name)) };
            rights.ask(format!("read your variable {}{renamed}", quoted(variable)));
        } else if is_key(name) {
            // The owner of a task's key may be able to read everything that is sent with it.
            rights.ask(format!(
                "give the task {} of the project instead of yours, with the digest {}",
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

/// Missing limits are listed too: removing a limit adds a right.
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

/// The line of a limit.
enum Limit {
    /// Higher than the limit in the user's own file.
    Raised(String),
    Kept(String),
    /// Only the user's own file has one.
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

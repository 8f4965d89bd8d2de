//! What a project's files ask for, in sentences for whoever is to trust them. What is harmless is not among them.

use std::path::Path;

use allowlist::{Allowlist, VendorTool};
use sandbox::{Agent, ImageSource, Network};

use crate::config::WorkspaceMode;
use crate::config::{BuildFile, ConfigFile, LoginEntry, Source, SshFile, UpstreamFile};

/// Hosts that are named one by one; more are counted.
const MOST_NAMED: usize = 12;

/// What a configuration asks for beyond what a task has anyway. `is_inside` says whether a path of the host lies in the work tree.
pub(crate) fn configuration_requests(file: &ConfigFile, is_inside: impl Fn(&Path) -> bool) -> Vec<String> {
    let mut requests = Vec::new();
    if file.network_sandbox == Some(false) {
        requests.push(
            "turn the network sandbox off: reach whatever this machine reaches, without a log".to_owned(),
        );
    }
    if matches!(file.build, Some(BuildFile::Network(_))) {
        requests.push("build images outside of the sandbox, on this machine's network".to_owned());
    }
    if file.workspace.protect == Some(false) {
        requests.push(
            "write what programs of this machine run on their own (git hooks, .envrc, .claude)".to_owned(),
        );
    }
    if file.workspace.mode == Some(WorkspaceMode::Direct) {
        requests.push("let agents work on the work tree itself instead of on a copy".to_owned());
    }
    for path in [&file.dockerfile, &file.context].into_iter().flatten() {
        if !is_inside(path) {
            requests.push(format!("build an image from `{}` of this machine", path.display()));
        }
    }
    if let Some(engine) = &file.engine {
        requests.push(format!("use the engine {engine}"));
    }
    requests.extend(upstream_requests(&file.upstream));
    requests.extend(
        file.services.iter().map(|service| format!("connect to the service {service} of this machine")),
    );
    let repositories = list(file.gate.iter().map(|(name, _)| name.as_str()));
    if !repositories.is_empty() {
        requests.push(format!(
            "fetch from your gate's repositories {repositories}, and push to them as the policy allows"
        ));
    }
    for (mount, _) in &file.mounts {
        if !is_inside(mount.host_path()) {
            let access = if mount.read_only() { "read" } else { "read and write" };
            requests.push(format!(
                "{access} `{}` of this machine, at {}",
                mount.host_path().display(),
                mount.container_path()
            ));
        }
    }
    let passed = file
        .env
        .values()
        .filter_map(|setting| setting.variable_name())
        .chain(file.pass_env.keys().map(String::as_str));
    let passed = list(passed);
    if !passed.is_empty() {
        requests.push(format!("read your variables {passed}"));
    }
    // The owner of the key that a task has may read all that it sends with it.
    let own = file.env.iter().filter(|(name, setting)| setting.variable_name().is_none() && is_key(name));
    let own = whole_list(own.map(|(name, _)| name.as_str()));
    if !own.is_empty() {
        requests.push(format!("give the task {own} of the project's own instead of yours"));
    }
    requests.extend(file.credentials.masked.iter().map(|entry| {
        let name = entry.value.variable_name().unwrap_or(&entry.variable);
        let scopes = whole_list(entry.injection.scopes.iter().map(ToString::to_string));
        match entry.value.kept() {
            Some(kept) => format!("{}, for the secret {name} in requests to {scopes}", **kept),
            None => format!("use the secret {name} for requests to {scopes}"),
        }
    }));
    requests.extend(file.credentials.logins.iter().map(LoginEntry::request));
    requests.extend(file.ssh.iter().flat_map(SshFile::requests));
    requests.extend(file.credentials.signing.iter().map(|entry| {
        let scopes = whole_list(entry.scopes.iter().map(ToString::to_string));
        let kept = entry.sources().filter_map(Source::kept).map(|kept| format!("{}, ", **kept));
        format!("{}sign requests to {scopes} with the key {}", kept.collect::<String>(), entry.name)
    }));
    requests
}

/// Whether an agent reads its key from the variable `name`.
fn is_key(name: &str) -> bool {
    let agents = Agent::NAMES.iter().filter_map(|agent| agent.parse::<Agent>().ok());
    agents.into_iter().any(|agent| agent.credentials().any(|(variable, _)| variable == name))
}

fn upstream_requests(upstream: &UpstreamFile) -> Vec<String> {
    let mut requests = Vec::new();
    if let Some(dns) = upstream.dns {
        requests.push(format!("look names up at {dns}"));
    }
    if !upstream.allow_addresses.is_empty() {
        let networks = list(upstream.allow_addresses.iter().map(ToString::to_string));
        requests.push(format!("reach the private networks {networks}"));
    }
    if let Some(roots) = &upstream.extra_roots {
        requests.push(format!("trust the certificate authorities in `{}`", roots.display()));
    }
    requests
}

/// What a policy asks for; nothing where it permits nothing.
pub(crate) fn policy_request(policy: &Allowlist) -> Option<String> {
    let hosts = list(policy.rules().iter().map(|rule| rule.host().to_string()));
    // With a limit they reach nothing beyond these hosts.
    let tools = list(policy.vendor_tools().unlimited().map(VendorTool::as_str));
    if hosts.is_empty() {
        None
    } else if tools.is_empty() {
        Some(format!("reach {hosts}"))
    } else {
        Some(format!("reach {hosts}, and through tools of a model's vendor ({tools}) whatever these reach"))
    }
}

/// What the allowlist of image builds asks for; nothing where it permits nothing.
pub(crate) fn build_policy_request(network: &Network) -> Option<String> {
    match network {
        Network::Sandboxed(config) => {
            policy_request(config.allowlist()).map(|request| format!("{request} from image builds"))
        }
        _ => None,
    }
}

/// What an image asks for; nothing where the engine has it already.
pub(crate) fn build_request(image: &ImageSource) -> Option<String> {
    match image {
        ImageSource::Build { context_files, .. } => Some(match context_files.len() {
            0 => "build an image from it".to_owned(),
            1 => "build an image from it and 1 file beside it".to_owned(),
            count => format!("build an image from it and {count} files beside it"),
        }),
        ImageSource::Existing(_) => None,
    }
}

/// All of them: a host that gets a secret must not hide behind others.
fn whole_list(names: impl IntoIterator<Item = impl Into<String>>) -> String {
    sorted(names).join(", ")
}

fn sorted(names: impl IntoIterator<Item = impl Into<String>>) -> Vec<String> {
    let mut names: Vec<String> = names.into_iter().map(Into::into).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn list(names: impl IntoIterator<Item = impl Into<String>>) -> String {
    let mut names = sorted(names);
    let more = names.len().saturating_sub(MOST_NAMED);
    names.truncate(MOST_NAMED);
    let listed = names.join(", ");
    if more == 0 { listed } else { format!("{listed} and {more} more") }
}

//! `sandbox.yaml`: the one place that knows what a valid one is.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ipnet::IpNet;
use located_yaml::Node;
use sandbox::host_path::{Found, Resolver};
use sandbox::{ByteSize, EngineAddress, Mount, ResourceLimits, SandboxConfig};

use super::build::{BuildFile, build};
use super::conflict;
use super::credentials::{CredentialsFile, masked_secrets, signing_credentials};
use super::location::{InvalidFile, Location};
use super::reader::{Place, Source};
use super::setting::Setting;
use super::text::read_text;
use super::workspace::{self, WorkspaceFile};
use crate::failure::Failure;

/// What `sandbox.yaml` says. Paths are absolute; what is absent is not decided yet.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ConfigFile {
    pub(crate) engine: Option<EngineAddress>,
    pub(crate) prefix: Option<String>,
    pub(crate) image: Option<String>,
    pub(crate) dockerfile: Option<PathBuf>,
    pub(crate) context: Option<PathBuf>,
    pub(crate) build: Option<BuildFile>,
    pub(crate) env: BTreeMap<String, Setting>,
    /// Names of variables, with their places.
    pub(crate) pass_env: BTreeMap<String, Location>,
    pub(crate) credentials: CredentialsFile,
    pub(crate) network_sandbox: Option<bool>,
    pub(crate) upstream: UpstreamFile,
    pub(crate) resource_limits: ResourceLimits,
    /// With their places.
    pub(crate) mounts: Vec<(Mount, Location)>,
    pub(crate) workspace: WorkspaceFile,
}

/// The part `upstream`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct UpstreamFile {
    pub(crate) dns: Option<SocketAddr>,
    pub(crate) extra_roots: Option<PathBuf>,
    pub(crate) allow_addresses: Vec<IpNet>,
}

pub(super) const KEYS: [&str; 17] = [
    "engine",
    "prefix",
    "image",
    "dockerfile",
    "context",
    "build",
    "env",
    "pass_env",
    "masked_secrets",
    "signing_credentials",
    "network_sandbox",
    "upstream",
    "resource_limits",
    "mounts",
    "workspace",
    "protect_workspace",
    "protected_paths",
];
pub(super) const UPSTREAM_KEYS: [&str; 3] = ["dns", "extra_roots", "allow_addresses"];
pub(super) const LIMIT_KEYS: [&str; 5] = ["memory", "cpus", "pids_limit", "disk", "timeout"];

impl ConfigFile {
    /// Reads the file at `path`, which errors call `label`; `None` when it is not there. Gives its text and what it was found to be as well.
    pub(crate) fn read(
        resolver: &Resolver,
        path: &Path,
        label: &str,
    ) -> Result<Option<(Self, Found, String)>, Failure> {
        let Some((found, text)) = read_text(resolver, path, label)? else {
            return Ok(None);
        };
        let folder = path.parent().unwrap_or(Path::new("/"));
        let file = Self::parse(&text, label, folder)?;
        Ok(Some((file, found, text)))
    }

    /// Reads a document; `folder` is what relative paths are relative to.
    pub(super) fn parse(text: &str, file: &str, folder: &Path) -> Result<Self, InvalidFile> {
        let node = match located_yaml::parse(text) {
            Ok(Node::Null) => Node::Map(Vec::new()),
            Ok(node) => node,
            Err(fault) => {
                return Err(InvalidFile::new(
                    &Location::new(file, fault.position),
                    fault.message,
                ));
            }
        };
        let read = Self::build(&Place::root(&node, &Source::new(file, text)), folder)?;
        conflict::refuse(&read)?;
        Ok(read)
    }

    fn build(root: &Place<'_>, folder: &Path) -> Result<Self, InvalidFile> {
        let mut file = Self::default();
        root.entries("a configuration is a mapping", &KEYS, |key, name, value| {
            let path = |place: &Place<'_>| Ok(folder.join(place.text(&format!("`{name}` is a path"))?));
            match name {
                "engine" => {
                    let text = value.text("`engine` is a text such as unix:///run/podman/podman.sock")?;
                    file.engine = Some(text.parse().map_err(|error: sandbox::InvalidConfig| value.problem(error.to_string()))?);
                }
                "prefix" => file.prefix = Some(prefix(value)?),
                "image" => file.image = Some(value.text("`image` is the name of an image")?.to_owned()),
                "dockerfile" => file.dockerfile = Some(path(value)?),
                "context" => file.context = Some(path(value)?),
                "build" => file.build = Some(build(value, folder)?),
                "env" => file.env = variables(value)?,
                "pass_env" => {
                    let shape = "`pass_env` is a list of names of variables, as in [TERM, LANG]";
                    let named = value.items(shape, |item| Ok((item.variable_name()?.to_owned(), item.location())))?;
                    file.pass_env = named.into_iter().collect();
                }
                "masked_secrets" => file.credentials.masked = masked_secrets(value)?,
                "signing_credentials" => file.credentials.signing = signing_credentials(value)?,
                "network_sandbox" => {
                    file.network_sandbox = Some(value.boolean("`network_sandbox` is true or false")?);
                }
                "upstream" => file.upstream = upstream(value, folder)?,
                "resource_limits" => file.resource_limits = limits(value)?,
                "workspace" => file.workspace.mode = Some(workspace::mode(value)?),
                "protect_workspace" => {
                    file.workspace.protect = Some(value.boolean("`protect_workspace` is true or false")?);
                }
                "protected_paths" => file.workspace.protected_paths = workspace::protected_paths(value)?,
                _ => file.mounts = mounts(value, folder)?,
            }
            match (&file.image, &file.dockerfile, &file.context) {
                (Some(_), Some(_), _) | (Some(_), _, Some(_)) => {
                    Err(key.problem("`image` names an image that is there, `dockerfile` and `context` one to build: keep one way"))
                }
                _ => Ok(()),
            }
        })?;
        Ok(file)
    }
}

fn prefix(place: &Place<'_>) -> Result<String, InvalidFile> {
    let text = place.text("`prefix` is a text")?;
    SandboxConfig::validate_prefix(text).map_err(|error| place.problem(error.to_string()))?;
    Ok(text.to_owned())
}

fn variables(place: &Place<'_>) -> Result<BTreeMap<String, Setting>, InvalidFile> {
    let mut variables = BTreeMap::new();
    place.any_entries("`env` is a mapping of names to texts", |key, _, value| {
        let setting = value.setting("the value of a variable is a text")?;
        variables.insert(key.variable_name()?.to_owned(), setting);
        Ok(())
    })?;
    Ok(variables)
}

fn upstream(place: &Place<'_>, folder: &Path) -> Result<UpstreamFile, InvalidFile> {
    let mut upstream = UpstreamFile::default();
    place.entries("`upstream` is a mapping", &UPSTREAM_KEYS, |_, name, value| {
        match name {
            "dns" => {
                upstream.dns =
                    Some(value.parsed("`dns` is an address such as 192.0.2.53 or 192.0.2.53:5353", dns)?);
            }
            "extra_roots" => {
                upstream.extra_roots =
                    Some(folder.join(value.text("`extra_roots` is the path of a PEM file")?));
            }
            _ => {
                let shape = "`allow_addresses` is a list of networks, as in [10.20.0.0/16]";
                upstream.allow_addresses = value.items(shape, |item| {
                    item.parsed("a network is written as in 10.20.0.0/16", network)
                })?;
            }
        }
        Ok(())
    })?;
    Ok(upstream)
}

fn dns(text: &str) -> Option<SocketAddr> {
    text.parse()
        .ok()
        .or_else(|| Some(SocketAddr::new(text.parse().ok()?, 53)))
}

fn network(text: &str) -> Option<IpNet> {
    text.parse()
        .ok()
        .or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
}

fn limits(place: &Place<'_>) -> Result<ResourceLimits, InvalidFile> {
    let mut limits = ResourceLimits::default();
    place.entries("`resource_limits` is a mapping", &LIMIT_KEYS, |_, name, value| {
        match name {
            "memory" => {
                limits.memory = Some(value.parsed("`memory` is a size such as 512m or 4g", bytes)?);
            }
            "cpus" => limits.cpus = Some(value.number("`cpus` is a number such as 2 or 0.5")?),
            "pids_limit" => {
                limits.pids = Some(value.whole_number("`pids_limit` is a whole number of processes")?);
            }
            "disk" => {
                limits.disk = Some(value.parsed("`disk` is a size such as 512m or 10g", bytes)?);
            }
            _ => {
                let seconds = value.whole_number("`timeout` is a whole number of seconds")?;
                limits.timeout = Some(Duration::from_secs(seconds));
            }
        }
        // Those before it are good, so a fault is this one's.
        let fault = |error: sandbox::InvalidSpec| value.problem(format!("`{name}` {}", error.problem()));
        limits.validate().map_err(fault)
    })?;
    Ok(limits)
}

fn bytes(text: &str) -> Option<u64> {
    text.parse().ok().map(ByteSize::bytes)
}

fn mounts(place: &Place<'_>, folder: &Path) -> Result<Vec<(Mount, Location)>, InvalidFile> {
    let shape = "`mounts` is a list, as in [\"../data:/data:ro\"]";
    place.items(shape, |item| {
        let text = item.text("a mount is a text such as \"../data:/data:ro\"")?;
        let mount: Mount = text
            .parse()
            .map_err(|error: sandbox::InvalidSpec| item.problem(error.problem()))?;
        Ok((mount.relative_to(folder), item.location()))
    })
}

#[cfg(test)]
mod tests;

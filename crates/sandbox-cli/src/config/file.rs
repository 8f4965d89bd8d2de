//! `sandbox.yaml`: what it says, checked.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use located_yaml::{InvalidFile, Location, Spanned};
use sandbox::{
    Agent, Cpus, EngineAddress, HostService, InvalidConfig, InvalidSpec, Mount, ResourceLimits,
    SandboxConfig, UnknownAgent,
};

use super::build::BuildFile;
use super::credentials::CredentialsFile;
use super::document::{Document, LimitsDocument, UpstreamDocument};
use super::services::services;
use super::setting::Setting;
use super::ssh::SshFile;
use super::workspace::WorkspaceFile;

/// What `sandbox.yaml` says. Paths are absolute; what is absent is not decided yet.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ConfigFile {
    pub(crate) engine: Option<EngineAddress>,
    pub(crate) prefix: Option<String>,
    pub(crate) image: Option<String>,
    pub(crate) dockerfile: Option<PathBuf>,
    pub(crate) context: Option<PathBuf>,
    pub(crate) build: Option<BuildFile>,
    pub(crate) agent: Option<Agent>,
    pub(crate) env: BTreeMap<String, Setting>,
    /// Names of variables, with their places.
    pub(crate) pass_env: BTreeMap<String, Location>,
    pub(crate) credentials: CredentialsFile,
    pub(crate) ssh: Option<SshFile>,
    pub(crate) network_sandbox: Option<bool>,
    pub(crate) upstream: UpstreamFile,
    pub(crate) services: Vec<HostService>,
    /// Names of repositories, with their places.
    pub(crate) gate: Vec<(String, Location)>,
    pub(crate) resource_limits: ResourceLimits,
    /// With their places.
    pub(crate) mounts: Vec<(Mount, Location)>,
    pub(crate) workspace: WorkspaceFile,
}

/// The part `upstream`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct UpstreamFile {
    pub(crate) dns: Option<SocketAddr>,
    pub(crate) extra_roots: Option<Spanned<PathBuf>>,
    pub(crate) allow_addresses: Vec<IpNet>,
}

impl ConfigFile {
    /// What a document says; `folder` is what relative paths are relative to.
    pub(super) fn check(document: Document, folder: &Path) -> Result<Self, InvalidFile> {
        one_way_to_an_image(&document)?;
        let path = |path: Option<Spanned<PathBuf>>| path.map(|path| folder.join(path.into_inner()));
        let engine = |text: &str| text.parse().map_err(|error: InvalidConfig| error.to_string());
        let prefix = |text: &str| match SandboxConfig::validate_prefix(text) {
            Ok(()) => Ok(text.to_owned()),
            Err(error) => Err(error.to_string()),
        };
        let agent = |text: &str| text.parse().map_err(|error: UnknownAgent| error.to_string());
        let mount = |text: &str| match text.parse::<Mount>() {
            Ok(mount) => Ok(mount.relative_to(folder)),
            Err(error) => Err(error.problem().to_string()),
        };
        let mounts = document.mounts.iter();
        let named = document.pass_env.into_iter();
        Ok(Self {
            engine: optional(document.engine.as_ref(), engine)?,
            prefix: optional(document.prefix.as_ref(), prefix)?,
            image: document.image.map(Spanned::into_inner),
            dockerfile: path(document.dockerfile),
            context: path(document.context),
            build: document.build.map(|build| build.relative_to(folder)),
            agent: optional(document.agent.as_ref(), agent)?,
            env: document.env.into_iter().map(|(name, value)| (name.into(), value)).collect(),
            pass_env: named.map(|name| (name.as_str().to_owned(), name.location().clone())).collect(),
            credentials: CredentialsFile::new(
                document.masked_secrets,
                document.signing_credentials,
                document.logins,
                folder,
            )?,
            ssh: document.ssh.map(SshFile::new).transpose()?,
            network_sandbox: document.network_sandbox,
            upstream: upstream(document.upstream, folder)?,
            services: services(document.services, folder)?,
            gate: document
                .gate
                .into_iter()
                .map(|name| (name.as_str().to_owned(), name.location().clone()))
                .collect(),
            resource_limits: limits(document.resource_limits)?,
            mounts: mounts
                .map(|text| Ok((checked(text, mount)?, text.location().clone())))
                .collect::<Result<_, _>>()?,
            workspace: WorkspaceFile {
                mode: document.workspace,
                protect: document.protect_workspace,
                protected_paths: all(&document.protected_paths, protected_path)?,
            },
        })
    }
}

/// What a text means, or what is wrong with it where it is written.
fn checked<T>(text: &Spanned<String>, parse: impl Fn(&str) -> Result<T, String>) -> Result<T, InvalidFile> {
    parse(text).map_err(|fault| InvalidFile::new(text.location(), fault))
}

fn optional<T>(
    text: Option<&Spanned<String>>,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Option<T>, InvalidFile> {
    text.map(|text| checked(text, parse)).transpose()
}

fn all<T>(
    texts: &[Spanned<String>],
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, InvalidFile> {
    texts.iter().map(|text| checked(text, &parse)).collect()
}

fn one_way_to_an_image(document: &Document) -> Result<(), InvalidFile> {
    let Some(image) = &document.image else {
        return Ok(());
    };
    let paths = [&document.dockerfile, &document.context];
    let other = paths.into_iter().flatten().map(Spanned::location).next();
    other.map_or(Ok(()), |other| {
        let order = |place: &&Location| (place.position().line, place.position().column);
        let later = [image.location(), other].into_iter().max_by_key(order).unwrap_or(other);
        Err(InvalidFile::new(
            later,
            "`image` names an image that is there, `dockerfile` and `context` one to build: keep one way",
        ))
    })
}

fn upstream(document: UpstreamDocument, folder: &Path) -> Result<UpstreamFile, InvalidFile> {
    Ok(UpstreamFile {
        dns: optional(document.dns.as_ref(), dns)?,
        extra_roots: document.extra_roots.map(|path| {
            let location = path.location().clone();
            Spanned::new(folder.join(path.into_inner()), location)
        }),
        allow_addresses: all(&document.allow_addresses, network)?,
    })
}

fn dns(text: &str) -> Result<SocketAddr, String> {
    let address = text.parse().ok();
    address.or_else(|| Some(SocketAddr::new(text.parse().ok()?, 53))).ok_or_else(|| {
        let shown = text.escape_debug();
        format!("`dns` is an address such as 192.0.2.53 or 192.0.2.53:5353, not `{shown}`")
    })
}

fn network(text: &str) -> Result<IpNet, String> {
    let network = text.parse().ok();
    network
        .or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
        .ok_or_else(|| format!("a network is written as in 10.20.0.0/16, not `{}`", text.escape_debug()))
}

fn limits(document: LimitsDocument) -> Result<ResourceLimits, InvalidFile> {
    let mut limits = ResourceLimits::default();
    // Those before it are good, so a fault is that of the limit that was set last.
    let fault = |error: InvalidSpec, name: &str, location: &Location| {
        InvalidFile::new(location, format!("`{name}` {}", error.problem()))
    };
    let check = |limits: &ResourceLimits, name: &str, location: &Location| {
        limits.validate().map_err(|error| fault(error, name, location))
    };
    if let Some(memory) = document.memory {
        limits.memory = Some(memory.0);
        check(&limits, "memory", memory.location())?;
    }
    if let Some(cpus) = document.cpus {
        let count = Cpus::new(*cpus).map_err(|error| fault(error, "cpus", cpus.location()))?;
        limits.cpus = Some(count);
    }
    if let Some(pids) = document.pids_limit {
        limits.pids = Some(*pids);
        check(&limits, "pids_limit", pids.location())?;
    }
    if let Some(disk) = document.disk {
        limits.disk = Some(disk.0);
        check(&limits, "disk", disk.location())?;
    }
    if let Some(timeout) = document.timeout {
        limits.timeout = Some(timeout.0);
        check(&limits, "timeout", timeout.location())?;
    }
    Ok(limits)
}

fn protected_path(text: &str) -> Result<String, String> {
    let plain =
        !text.is_empty() && text.split('/').all(|part| part != ".." && part != ".") && !text.starts_with('/');
    if plain {
        Ok(text.to_owned())
    } else {
        Err("a path is relative to the work tree, without `.` and `..`".to_owned())
    }
}

impl BuildFile {
    fn relative_to(self, folder: &Path) -> Self {
        match self {
            Self::Allowlist(path) => Self::Allowlist(folder.join(path)),
            Self::Network(_) => self,
        }
    }
}

#[cfg(test)]
mod tests;

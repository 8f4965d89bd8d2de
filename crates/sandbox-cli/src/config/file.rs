//! `sandbox.yaml`: the types that read and check it, and from which its JSON Schema is generated.
//!
//! A new key needs a field here, an entry in [`ConfigFile::merged`], a use in `settings`, and a
//! line in docs/configuration.md. If it gives a task a right, it also needs a line in
//! `trust/configuration.rs`.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};
use std::mem;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use ipnet::IpNet;
use located_yaml::{Entries, InvalidFile, Location, Spanned};
use sandbox::{
    Agent, ByteSize, Cpus, EngineAddress, HostService, InvalidSpec, Mount, ResourceLimits, SandboxConfig,
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};

use super::ask::AskCommand;
use super::credentials::{CredentialsFile, LoginDocument, MaskedDocument, SigningDocument};
use super::services::{ServiceDocument, services};
use super::setting::{Setting, VariableName};
use super::ssh::SshFile;
use super::time::duration;

/// Settings of the `sandbox` command for one project. Every key is optional; relative paths are
/// relative to this file.
#[derive(Debug, Clone, Default, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(
    title = ".sandbox/sandbox.yaml",
    extend("allOf" = [{"not": {"required": ["image", "dockerfile"]}}, {"not": {"required": ["image", "context"]}}])
)]
pub(crate) struct ConfigFile {
    /// Podman's socket.
    #[serde(deserialize_with = "parsed")]
    #[schemars(with = "String", regex(pattern = "^unix://"))]
    pub(crate) engine: Option<EngineAddress>,
    /// The prefix of the names of all objects on the engine.
    #[serde(deserialize_with = "prefix")]
    #[schemars(with = "String", regex(pattern = "^[a-z][a-z0-9-]{0,31}$"))]
    pub(crate) prefix: Option<String>,
    /// An existing image of the engine.
    #[schemars(with = "String")]
    pub(crate) image: Option<Spanned<String>>,
    /// The file that the image is built from; default container/Dockerfile.
    #[schemars(with = "String")]
    pub(crate) dockerfile: Option<Spanned<PathBuf>>,
    /// The folder that the Dockerfile copies from; default the Dockerfile's.
    #[schemars(with = "String")]
    pub(crate) context: Option<Spanned<PathBuf>>,
    /// The network access of image builds.
    #[schemars(with = "BuildFile")]
    pub(crate) build: Option<BuildFile>,
    /// The agent of `sandbox agent`; default claude.
    #[serde(deserialize_with = "parsed")]
    #[schemars(with = "String", regex(pattern = "^(claude|codex|gemini|opencode)$"))]
    pub(crate) agent: Option<Agent>,
    /// The program of the host that answers the questions of `--ask`, as in `!command [PROGRAM,
    /// ARGUMENT]`, run without a shell.
    #[schemars(with = "Vec<String>")]
    pub(crate) ask: Option<AskCommand>,
    /// Variables of the task.
    #[serde(deserialize_with = "variables")]
    #[schemars(with = "BTreeMap<String, Setting>")]
    pub(crate) env: BTreeMap<String, Setting>,
    /// Variables that the task gets with their values in the command's environment, if they are
    /// set.
    #[serde(deserialize_with = "variable_names")]
    #[schemars(with = "Vec<String>")]
    pub(crate) pass_env: BTreeMap<String, Location>,
    /// Secrets of which the task gets surrogates, by the task's variable.
    #[schemars(with = "BTreeMap<String, MaskedDocument>")]
    masked_secrets: Entries<VariableName, MaskedDocument>,
    /// Keys of which the task gets surrogates, and with which its requests are signed again, by any
    /// name.
    #[schemars(with = "BTreeMap<String, SigningDocument>")]
    signing_credentials: Entries<String, SigningDocument>,
    /// Logins of agents, by the agent: `claude` or `codex`. The task gets surrogates of them; they
    /// are refreshed on the host.
    #[schemars(with = "BTreeMap<String, LoginDocument>")]
    logins: Entries<String, LoginDocument>,
    // The three fields above, evaluated by `complete`, which empties them.
    #[serde(skip)]
    pub(crate) credentials: CredentialsFile,
    /// SSH keys that git signs commits with; they stay on the host.
    #[schemars(with = "SshFile")]
    pub(crate) ssh: Option<SshFile>,
    /// Whether the task reaches only what network-allowlist.yaml permits.
    #[schemars(with = "bool", extend("default" = true))]
    pub(crate) network_sandbox: Option<bool>,
    /// How the proxy reaches the internet.
    pub(crate) upstream: UpstreamFile,
    /// Services of the host that the task reaches by name, as in `db:5432`.
    #[schemars(with = "BTreeMap<String, ServiceDocument>")]
    services: Entries<String, ServiceDocument>,
    // The services, evaluated by `complete`.
    #[serde(skip)]
    pub(crate) host_services: Vec<HostService>,
    /// Repositories of `sandbox gate` that the task reaches at the host `gate`.
    #[schemars(with = "Vec<String>", inner(regex(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")))]
    pub(crate) gate: Vec<Spanned<String>>,
    /// Bounds on what a task may use.
    #[serde(deserialize_with = "limits")]
    #[schemars(with = "LimitsDocument")]
    pub(crate) resource_limits: ResourceLimits,
    /// Files and folders of the host, as in `../data:/data:ro`.
    #[serde(deserialize_with = "mounts")]
    #[schemars(with = "Vec<String>")]
    pub(crate) mounts: Vec<Spanned<Mount>>,
    /// How a task sees the work tree; default auto for `agent`, direct for `run`.
    #[schemars(with = "WorkspaceMode")]
    pub(crate) workspace: Option<WorkspaceMode>,
    /// Whether files that host tools execute implicitly, such as git's hooks, are protected from
    /// tasks.
    #[schemars(with = "bool", extend("default" = true))]
    pub(crate) protect_workspace: Option<bool>,
    /// Additional protected paths: a name at any depth, or a path in the work tree.
    #[schemars(with = "Vec<String>")]
    pub(crate) protected_paths: Vec<ProtectedPath>,
}

/// The network access of a build's steps.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BuildFile {
    /// The allowlist of image builds; default build-allowlist.yaml. Without it, a build has no
    /// network access.
    Allowlist(PathBuf),
    /// Build outside of the sandbox, on the network of the engine's host.
    Network(BuildNetwork),
}

/// The networks for builds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BuildNetwork {
    /// The network of the engine's host: such a build is not sandboxed.
    Host,
}

/// The part `upstream`.
#[derive(Debug, Clone, Default, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "UpstreamDocument")]
pub(crate) struct UpstreamFile {
    /// The name server, as in 192.0.2.53 or 192.0.2.53:5353; default the host's first.
    #[serde(deserialize_with = "dns")]
    #[schemars(with = "String")]
    pub(crate) dns: Option<SocketAddr>,
    /// A PEM file of certificate authorities that are trusted in addition to the public ones.
    #[schemars(with = "String")]
    pub(crate) extra_roots: Option<Spanned<PathBuf>>,
    /// Private networks that may be reached, as in 10.20.0.0/16.
    #[schemars(with = "Vec<String>")]
    pub(crate) allow_addresses: Vec<PrivateNetwork>,
}

/// A network, as in 10.20.0.0/16, or one address.
#[derive(Debug, Clone, Copy, PartialEq, serde::Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct PrivateNetwork(pub(crate) IpNet);

/// A path in the work tree, relative to it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct ProtectedPath(pub(crate) String);

/// Whether a task works on the work tree itself or on a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WorkspaceMode {
    /// Work on a copy; when the task ends, apply its changes, except for files that host tools
    /// execute implicitly, which are withheld
    Auto,
    /// Work on a copy, and keep the changes for `sandbox diff`, `apply` and `discard`
    Copy,
    /// Mount the work tree itself: new files at protected paths are moved away only when the task
    /// ends, not while it runs, and not when the sandbox is killed
    Direct,
}

impl WorkspaceMode {
    /// As it is written on the command line.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Copy => "copy",
            Self::Direct => "direct",
        }
    }
}

impl ConfigFile {
    /// Completes the document after reading: makes paths absolute and evaluates entries as a whole;
    /// relative paths start at `folder`.
    pub(super) fn complete(mut self, folder: &Path) -> Result<Self, InvalidFile> {
        self.one_way_to_an_image()?;
        let upstream = &mut self.upstream;
        for path in [&mut self.dockerfile, &mut self.context, &mut upstream.extra_roots].into_iter().flatten()
        {
            *path = Spanned::new(folder.join(&**path), path.location().clone());
        }
        if let Some(BuildFile::Allowlist(path)) = &mut self.build {
            *path = folder.join(&*path);
        }
        for mount in &mut self.mounts {
            *mount = Spanned::new((**mount).clone().relative_to(folder), mount.location().clone());
        }
        self.credentials = CredentialsFile::new(
            mem::take(&mut self.masked_secrets),
            mem::take(&mut self.signing_credentials),
            mem::take(&mut self.logins),
            folder,
        )?;
        self.ssh.as_ref().map(SshFile::check).transpose()?;
        self.host_services = services(mem::take(&mut self.services), folder)?;
        Ok(self)
    }

    fn one_way_to_an_image(&self) -> Result<(), InvalidFile> {
        let Some(image) = &self.image else {
            return Ok(());
        };
        let paths = [&self.dockerfile, &self.context];
        let other = paths.into_iter().flatten().map(Spanned::location).next();
        other.map_or(Ok(()), |other| {
            let order = |place: &&Location| (place.position().line, place.position().column);
            let later = [image.location(), other].into_iter().max_by_key(order).unwrap_or(other);
            Err(InvalidFile::new(
                later,
                "`image` names an existing image, `dockerfile` and `context` one to build: use only one of them",
            ))
        })
    }

    /// A key that makes no sense for all projects, or that would weaken each of them without being
    /// visible in it.
    pub(super) fn project_key(&self) -> Option<&'static str> {
        let keys = [
            ("image", self.image.is_some()),
            ("dockerfile", self.dockerfile.is_some()),
            ("context", self.context.is_some()),
            ("build", self.build.is_some()),
            ("network_sandbox", self.network_sandbox.is_some()),
            ("services", !self.host_services.is_empty()),
            ("gate", !self.gate.is_empty()),
            ("mounts", !self.mounts.is_empty()),
            ("protect_workspace", self.protect_workspace.is_some()),
        ];
        keys.into_iter().find(|(_, is_there)| *is_there).map(|(key, _)| key)
    }

    /// The first setting that means something only on this host, with the reason and its place.
    pub(crate) fn bound_to_host(&self) -> Option<(&'static str, &'static str, Option<&Location>)> {
        // Each field is listed, so that a new one is judged.
        let Self {
            // These travel.
            image: _,
            dockerfile: _,
            context: _,
            env: _,
            pass_env: _,
            resource_limits: _,
            // The host that runs it has its own.
            engine: _,
            upstream: _,
            // These have no effect where an image is only named, and a command runs on a copy.
            protected_paths: _,
            prefix: _,
            build: _,
            agent: _,
            workspace: _,
            // These are empty after `complete`.
            masked_secrets: _,
            signing_credentials: _,
            logins: _,
            services: _,
            credentials,
            ask,
            ssh,
            network_sandbox,
            host_services,
            gate,
            mounts,
            protect_workspace,
        } = self;
        let is_there = |is_there: bool| is_there.then_some(None);
        let settings = [
            ("mounts", "has files of this host", mounts.first().map(Spanned::location).map(Some)),
            ("services", "leads to services of this host", is_there(!host_services.is_empty())),
            ("gate", "names repositories of this host", gate.first().map(Spanned::location).map(Some)),
            ("ssh", "signs with keys of this host", ssh.as_ref().map(|ssh| ssh.scope.location()).map(Some)),
            ("ask", "runs a program of this host", ask.as_ref().map(AskCommand::location).map(Some)),
            (
                "logins",
                "is refreshed on this host only",
                credentials.logins.first().map(|login| &login.location).map(Some),
            ),
            ("network_sandbox: false", "turns the policy off", is_there(*network_sandbox == Some(false))),
            (
                "protect_workspace: false",
                "is for the work tree of this host",
                is_there(*protect_workspace == Some(false)),
            ),
        ];
        settings.into_iter().find_map(|(key, why, place)| Some((key, why, place?)))
    }

    /// The same, with `user` as the fallback. Maps are merged by name, lists of protected paths are
    /// concatenated.
    pub(super) fn merged(self, user: Self) -> Self {
        let named: BTreeSet<String> = self.env.keys().chain(self.pass_env.keys()).cloned().collect();
        let is_free = |name: &String| !named.contains(name);
        let (mut env, mut pass_env) = (user.env, user.pass_env);
        env.retain(|name, _| is_free(name));
        pass_env.retain(|name, _| is_free(name));
        env.extend(self.env);
        pass_env.extend(self.pass_env);
        let (own_limits, user_limits) = (self.resource_limits, user.resource_limits);
        let mut limits = own_limits;
        limits.timeout = own_limits.timeout.or(user_limits.timeout);
        limits.memory = own_limits.memory.or(user_limits.memory);
        limits.cpus = own_limits.cpus.or(user_limits.cpus);
        limits.pids = own_limits.pids.or(user_limits.pids);
        limits.disk = own_limits.disk.or(user_limits.disk);
        let (upstream, user_upstream) = (self.upstream, user.upstream);
        let (allowed, user_allowed) = (upstream.allow_addresses, user_upstream.allow_addresses);
        Self {
            engine: self.engine.or(user.engine),
            prefix: self.prefix.or(user.prefix),
            agent: self.agent.or(user.agent),
            ask: self.ask.or(user.ask),
            env,
            pass_env,
            credentials: self.credentials.over(user.credentials),
            ssh: self.ssh.or(user.ssh),
            upstream: UpstreamFile {
                dns: upstream.dns.or(user_upstream.dns),
                extra_roots: upstream.extra_roots.or(user_upstream.extra_roots),
                allow_addresses: if allowed.is_empty() { user_allowed } else { allowed },
            },
            resource_limits: limits,
            workspace: self.workspace.or(user.workspace),
            protected_paths: [self.protected_paths, user.protected_paths].concat(),
            ..self
        }
    }
}

impl TryFrom<String> for PrivateNetwork {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let network = text.parse().ok();
        network.or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from)).map(Self).ok_or_else(|| {
            format!("`{}` is not a valid network; write it as in 10.20.0.0/16", text.escape_debug())
        })
    }
}

impl TryFrom<String> for ProtectedPath {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        let is_plain = |part| part != ".." && part != ".";
        if !text.is_empty() && text.split('/').all(is_plain) && !text.starts_with('/') {
            Ok(Self(text))
        } else {
            Err("a path must be relative to the work tree, without `.` and `..`")
        }
    }
}

fn parsed<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    String::deserialize(deserializer)?.parse().map(Some).map_err(D::Error::custom)
}

fn prefix<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(deserializer)?;
    SandboxConfig::validate_prefix(&text).map_err(D::Error::custom)?;
    Ok(Some(text))
}

fn variables<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, Setting>, D::Error> {
    let named = BTreeMap::<VariableName, Setting>::deserialize(deserializer)?;
    Ok(named.into_iter().map(|(name, value)| (name.into(), value)).collect())
}

fn variable_names<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, Location>, D::Error> {
    let names = Vec::<Spanned<VariableName>>::deserialize(deserializer)?;
    Ok(names.into_iter().map(|name| (name.as_str().to_owned(), name.location().clone())).collect())
}

fn dns<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let address = text.parse().or_else(|_| text.parse().map(|address| SocketAddr::new(address, 53)));
    address.map(Some).map_err(|_| {
        let shown = text.escape_debug();
        D::Error::custom(format!(
            "`dns` must be an address such as 192.0.2.53 or 192.0.2.53:5353, not `{shown}`"
        ))
    })
}

fn mounts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Spanned<Mount>>, D::Error> {
    #[derive(serde::Deserialize)]
    #[serde(try_from = "String")]
    struct Written(Mount);

    impl TryFrom<String> for Written {
        type Error = String;

        fn try_from(text: String) -> Result<Self, String> {
            text.parse().map(Self).map_err(|error: InvalidSpec| error.problem().to_string())
        }
    }

    let mounts = Vec::<Spanned<Written>>::deserialize(deserializer)?.into_iter();
    Ok(mounts.map(|mount| Spanned::new(mount.0.clone(), mount.location().clone())).collect())
}

/// The part `resource_limits`.
#[derive(Default, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct LimitsDocument {
    /// As in 512m or 4g.
    #[serde(deserialize_with = "memory")]
    #[schemars(with = "Size")]
    memory: Option<ByteSize>,
    /// CPUs, as in 1.5.
    #[serde(deserialize_with = "cpus")]
    #[schemars(with = "f64", range(min = 0.01, max = 1024))]
    cpus: Option<Cpus>,
    /// Processes and threads.
    #[serde(deserialize_with = "pids")]
    #[schemars(with = "u32", range(min = 1))]
    pids_limit: Option<u32>,
    /// How much the container may write, as in 10g. Needs storage with quotas.
    #[serde(deserialize_with = "disk")]
    #[schemars(with = "Size")]
    disk: Option<ByteSize>,
    /// As in 90s, 10m or 2h, or a number of seconds.
    #[serde(deserialize_with = "timeout")]
    #[schemars(with = "TimeLimit")]
    timeout: Option<Duration>,
}

fn limits<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ResourceLimits, D::Error> {
    let document = LimitsDocument::deserialize(deserializer)?;
    let mut limits = ResourceLimits::default();
    limits.memory = document.memory;
    limits.cpus = document.cpus;
    limits.pids = document.pids_limit;
    limits.disk = document.disk;
    limits.timeout = document.timeout;
    Ok(limits)
}

fn memory<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ByteSize>, D::Error> {
    let Size(size) = Size::deserialize(deserializer)?;
    valid(size, ResourceLimits::default().memory(size).validate())
}

fn cpus<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Cpus>, D::Error> {
    Cpus::new(f64::deserialize(deserializer)?).map(Some).map_err(|error| in_words(&error))
}

fn pids<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    let count = u32::deserialize(deserializer)?;
    valid(count, ResourceLimits::default().pids(count).validate())
}

fn disk<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ByteSize>, D::Error> {
    let Size(size) = Size::deserialize(deserializer)?;
    valid(size, ResourceLimits::default().disk(size).validate())
}

fn timeout<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let TimeLimit(time) = TimeLimit::deserialize(deserializer)?;
    valid(time, ResourceLimits::default().timeout(time).validate())
}

fn valid<T, E: Error>(value: T, validated: Result<(), InvalidSpec>) -> Result<Option<T>, E> {
    validated.map(|()| Some(value)).map_err(|error| in_words(&error))
}

/// The reader prefixes the name of the key.
fn in_words<E: Error>(error: &InvalidSpec) -> E {
    E::custom(format!(" {}", error.problem()))
}

/// A time, with or without a unit.
#[derive(Clone, Copy)]
struct TimeLimit(Duration);

impl JsonSchema for TimeLimit {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "time_limit".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": ["string", "integer"], "pattern": "^[0-9]+[smhd]?$", "minimum": 1})
    }
}

impl<'de> Deserialize<'de> for TimeLimit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TimeVisitor;

        impl Visitor<'_> for TimeVisitor {
            type Value = TimeLimit;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time such as 90s, 10m or 2h")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<TimeLimit, E> {
                duration(text).map(TimeLimit).map_err(|_| E::invalid_value(Unexpected::Other(text), &self))
            }

            fn visit_i64<E: Error>(self, seconds: i64) -> Result<TimeLimit, E> {
                self.visit_str(&seconds.to_string())
            }
        }

        deserializer.deserialize_any(TimeVisitor)
    }
}

/// A number of bytes, with or without a unit.
#[derive(Clone, Copy)]
struct Size(ByteSize);

impl JsonSchema for Size {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "size".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": ["string", "integer"]})
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SizeVisitor;

        impl Visitor<'_> for SizeVisitor {
            type Value = Size;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size such as 512m or 4g")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Size, E> {
                text.parse().map(Size).map_err(|_| E::invalid_value(Unexpected::Other(text), &self))
            }

            fn visit_i64<E: Error>(self, bytes: i64) -> Result<Size, E> {
                self.visit_str(&bytes.to_string())
            }
        }

        deserializer.deserialize_any(SizeVisitor)
    }
}

#[cfg(test)]
mod tests;

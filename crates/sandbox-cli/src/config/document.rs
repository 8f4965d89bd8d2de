//! `sandbox.yaml` as it is written: the types are the reader and the JSON Schema.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use located_yaml::{Entries, Spanned};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};

use super::build::BuildFile;
use super::credentials::{LoginDocument, MaskedDocument, SigningDocument};
use super::services::ServiceDocument;
use super::setting::{Setting, VariableName};
use super::ssh::SshDocument;
use super::time::duration;
use super::workspace::WorkspaceMode;

/// Settings of the `sandbox` command for one project. Every key may be left out; relative paths are relative to this file.
#[derive(Default, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(
    title = ".sandbox/sandbox.yaml",
    extend("allOf" = [{"not": {"required": ["image", "dockerfile"]}}, {"not": {"required": ["image", "context"]}}])
)]
pub(super) struct Document {
    /// Podman's socket.
    #[schemars(with = "String", regex(pattern = "^unix://"))]
    pub(super) engine: Option<Spanned<String>>,
    /// What the names of all objects on the engine begin with.
    #[schemars(with = "String", regex(pattern = "^[a-z][a-z0-9-]{0,31}$"))]
    pub(super) prefix: Option<Spanned<String>>,
    /// An image that the engine has.
    #[schemars(with = "String")]
    pub(super) image: Option<Spanned<String>>,
    /// The file that the image is built from; default container/Dockerfile.
    #[schemars(with = "String")]
    pub(super) dockerfile: Option<Spanned<PathBuf>>,
    /// The folder that the Dockerfile copies from; default the Dockerfile's.
    #[schemars(with = "String")]
    pub(super) context: Option<Spanned<PathBuf>>,
    /// What image builds may reach.
    #[schemars(with = "BuildFile")]
    pub(super) build: Option<BuildFile>,
    /// The agent of `sandbox agent`; default claude.
    #[schemars(with = "String", regex(pattern = "^(claude|codex|gemini|opencode)$"))]
    pub(super) agent: Option<Spanned<String>>,
    /// Variables of the task.
    #[schemars(with = "BTreeMap<String, Setting>")]
    pub(super) env: BTreeMap<VariableName, Setting>,
    /// Variables that the task gets as they are where the command runs, if they are set.
    #[schemars(with = "Vec<String>")]
    pub(super) pass_env: Vec<Spanned<VariableName>>,
    /// Secrets that the task gets surrogates of, by the task's variable.
    #[schemars(with = "BTreeMap<String, MaskedDocument>")]
    pub(super) masked_secrets: Entries<VariableName, MaskedDocument>,
    /// Keys that the task gets surrogates of, and that its requests are signed with again, by any name.
    #[schemars(with = "BTreeMap<String, SigningDocument>")]
    pub(super) signing_credentials: Entries<String, SigningDocument>,
    /// Logins of agents, by the agent: `claude` or `codex`. The task gets surrogates of them; they are refreshed on this machine.
    #[schemars(with = "BTreeMap<String, LoginDocument>")]
    pub(super) logins: Entries<String, LoginDocument>,
    /// SSH keys that git signs commits with; they stay on this machine.
    #[schemars(with = "SshDocument")]
    pub(super) ssh: Option<SshDocument>,
    /// Whether the task reaches only what network-allowlist.yaml permits.
    #[schemars(with = "bool", extend("default" = true))]
    pub(super) network_sandbox: Option<bool>,
    /// How the proxy reaches the internet.
    pub(super) upstream: UpstreamDocument,
    /// Services of this machine that the task reaches by name, as in `db:5432`.
    #[schemars(with = "BTreeMap<String, ServiceDocument>")]
    pub(super) services: Entries<String, ServiceDocument>,
    /// Repositories of `sandbox gate` that the task reaches at the host `gate`.
    #[schemars(with = "Vec<String>", inner(regex(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")))]
    pub(super) gate: Vec<Spanned<String>>,
    /// Bounds on what a task may use.
    pub(super) resource_limits: LimitsDocument,
    /// Files and folders of this machine, as in `../data:/data:ro`.
    #[schemars(with = "Vec<String>")]
    pub(super) mounts: Vec<Spanned<String>>,
    /// What a task works on; default auto for `agent`, direct for `run`.
    #[schemars(with = "WorkspaceMode")]
    pub(super) workspace: Option<WorkspaceMode>,
    /// Whether tasks are kept from writing what programs of this machine run on their own, such as git's hooks.
    #[schemars(with = "bool", extend("default" = true))]
    pub(super) protect_workspace: Option<bool>,
    /// What is protected in addition: a name at any depth, or a path in the work tree.
    #[schemars(with = "Vec<String>")]
    pub(super) protected_paths: Vec<Spanned<String>>,
}

/// The part `upstream`.
#[derive(Default, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct UpstreamDocument {
    /// The name server, as in 192.0.2.53 or 192.0.2.53:5353; default the host's first.
    #[schemars(with = "String")]
    pub(super) dns: Option<Spanned<String>>,
    /// A PEM file of authorities that are trusted in addition to the web's.
    #[schemars(with = "String")]
    pub(super) extra_roots: Option<Spanned<PathBuf>>,
    /// Networks that may be reached although they are not public, as in 10.20.0.0/16.
    #[schemars(with = "Vec<String>")]
    pub(super) allow_addresses: Vec<Spanned<String>>,
}

/// The part `resource_limits`.
#[derive(Default, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct LimitsDocument {
    /// As in 512m or 4g.
    #[schemars(with = "Size")]
    pub(super) memory: Option<Spanned<Size>>,
    /// Processors, as in 1.5.
    #[schemars(with = "f64", range(min = 0.01, max = 1024))]
    pub(super) cpus: Option<Spanned<f64>>,
    /// Processes and threads.
    #[schemars(with = "u32", range(min = 1))]
    pub(super) pids_limit: Option<Spanned<u32>>,
    /// What the container may write, as in 10g. Needs storage with quotas.
    #[schemars(with = "Size")]
    pub(super) disk: Option<Spanned<Size>>,
    /// As in 90s, 10m or 2h, or a number of seconds.
    #[schemars(with = "TimeLimit")]
    pub(super) timeout: Option<Spanned<TimeLimit>>,
}

/// A time, with or without a unit.
#[derive(Clone, Copy)]
pub(super) struct TimeLimit(pub(super) Duration);

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
pub(super) struct Size(pub(super) sandbox::ByteSize);

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

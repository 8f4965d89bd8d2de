#![doc = include_str!("../README.md")]
//!
//! # Credentials
//!
//! A container does not need to hold a secret to use it.
//! [`prepare_secrets`](credentials::prepare_secrets) creates a surrogate for each: the container
//! gets the surrogates, the task's proxy gets the real values over its stdin and puts them into
//! requests to the hosts that each is scoped to.
//!
//! ```
//! use allowlist::{Allowlist, HostPattern};
//! use sandbox::{ContainerEnv, Network, NetworkSandboxConfig};
//! use sandbox::credentials::{
//!     AwsAccessKey, MaskedSecret, Preset, SecretValue, SecretVariable, SigningCredential, prepare_secrets,
//! };
//!
//! # fn from_vault(name: &str) -> SecretValue {
//! #     SecretValue::new(if name == "aws-id" { "AKIAIOSFODNN7EXAMPLE".to_owned() } else { format!("{name}-0123456789-abcdefghijklmnopqrstuv") })
//! # }
//! # fn example() -> Result<(ContainerEnv, Network), Box<dyn std::error::Error>> {
//! let github: Preset = "github".parse()?;
//! let masked = [MaskedSecret::new("GH_TOKEN", from_vault("github"), github.injection())];
//! let signing = [SigningCredential::aws(AwsAccessKey {
//!     name: "deploy".to_owned(),
//!     access_key_id: SecretVariable::new("AWS_ACCESS_KEY_ID", from_vault("aws-id")),
//!     secret_access_key: SecretVariable::new("AWS_SECRET_ACCESS_KEY", from_vault("aws-key")),
//!     session_token: None,
//!     scopes: vec![HostPattern::new("*.amazonaws.com")?],
//! })];
//! let prepared = prepare_secrets(&masked, &signing)?;
//!
//! let policy = Allowlist::from_yaml("domains: [api.github.com, '*.amazonaws.com']", "policy.yaml")?;
//! // Surrogates last: they override variables that the caller passes through.
//! let env = ContainerEnv::default().with("CI", "true").merge(prepared.env_vars());
//! let network = NetworkSandboxConfig::new(policy).replacements(prepared.into_replacements());
//! let network = Network::Sandboxed(network);
//! # Ok((env, network))
//! # }
//! # example()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Without [`Network::Sandboxed`] there is no proxy: surrogates are sent unchanged, and services
//! reject them. A program that holds real values should disable core dumps, as the `sandbox`
//! command does; the proxy does so by itself.
//!
//! The design and its reasons are in the repository's `ARCHITECTURE.md`, the threat model in
//! `SECURITY.md`.

mod config;
mod container;
mod context;
mod egress;
mod error;
pub mod executor;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod gate;
pub mod image;
mod image_store;
mod instance;
mod labels;
pub mod launcher;
mod program;
mod reap;
pub mod runs;
mod sandbox;
mod socket_folder;
mod spec;
pub mod ssh;
mod stop_switch;
mod task;
mod verify;

pub use config::{EngineAddress, InvalidConfig, SandboxConfig, UpstreamConfig};
pub use container::ContainerError;
pub use error::SandboxError;
pub use instance::{HandedOver, LockError};
pub use program::ProgramError;
pub use sandbox::Sandbox;
pub use sandbox_agents::{Agent, Outcome, UnknownAgent};
pub use sandbox_files::host_path;
pub use sandbox_podman::{Chunk as OutputChunk, EngineError, TerminalSize};
pub use spec::{
    ByteSize, CommandSpec, ContainerEnv, Cpus, HostService, ImageSource, ImageTag, InvalidSpec, Isolation,
    Mount, Network, NetworkSandboxConfig, OnStall, ResourceLimits, TaskSpec,
};
pub use task::{Command, CommandResult, Execution, ExecutionResult, Input, Message, Prompt, Task, Timings};

/// The parts of an [`Isolation`].
pub mod isolation {
    pub use crate::spec::{
        AppArmorProfile, Capability, Device, HostEntry, Runtime, Seccomp, StopSignal, Tmpfs, Ulimit,
        UlimitKind, UserNamespace,
    };
}

/// The log of a task's network activity.
pub mod network {
    pub use crate::egress::{ProxyError, RemoteProxy, ShieldState};
    pub use crate::spec::{Answer, Question};
    pub use sandbox_network_log::{InvalidLogEntry, LogEntries, LogEntry, LogFollower, NetworkLog};
    pub use sandbox_proxy_protocol::{Tokens, Traffic, Verdict};
}

/// The types of [`LogEntry::event`](network::LogEntry::event), as the proxy reports them.
pub mod network_event {
    pub use sandbox_proxy_protocol::{
        BlockReason, DnsAnswer, Event, PolicyChange, PolicyState, PortProtocol, RequestOutcome,
        RequestRecord, Scheme, StreamRecord, TunnelRecord, Verdict,
    };
}

/// Secrets that never enter a container.
pub mod credentials {
    pub use sandbox_credentials::{
        AwsAccessKey, HeaderPattern, Injection, MaskedSecret, PreparedSecrets, Preset, SecretError,
        SecretReplacements, SecretValue, SecretVariable, SigningCredential, decoy, prepare_secrets,
    };
    pub use sandbox_ssh::{HostCommand, SecretSource, SecretSourceError};
}

/// Claude Code sessions.
pub mod session {
    pub use sandbox_session::{
        MissingEvents, ReplyOutline, SessionError, SessionMetadata, SessionOutline, SessionReply,
        SessionStore,
    };
}

/// Work trees that a task may change: their protection, and copies of them.
pub mod workspace {
    pub use sandbox_workspace::{
        Applied, ApplyOptions, Change, ChangeKind, EntryKind, FailedImport, Findings, GitChanges,
        GitIdentity, MainWorkTree, OutsideRepository, OutsideRepositoryError, Protection, RepositoryChanges,
        TamperKind, TamperedPath, TreeFilesError, Versions, WaitingSetting, Withheld, WorkspaceCopy,
        WorkspaceError, git_configurations, git_credentials, ignored_paths, remove_folder, tree_files,
    };
    pub use sandbox_workspace::{
        ImportError, ImportReport, Left, RefChange, RefOutcome, SettingChange, WorkTreeFiles,
    };
}

/// Facts about the engine, and verification of the sandbox's guarantees on it.
pub mod diagnostics {
    pub use crate::egress::Prerequisites;
    pub use crate::error::VerifyError;
    pub use crate::labels::Role;
    pub use crate::reap::{Inventory, InventoryInstance, InventoryObject, ObjectKind, SweepReport};
    pub use crate::verify::{ExpectedProgram, VerifyReport, VerifySpec};
    pub use sandbox_inside::{Category, Check, Finding};
    pub use sandbox_podman::{Capabilities, DiskLimits, EngineFacts, Version};
}

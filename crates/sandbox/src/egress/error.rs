//! Errors of a proxy and of its prerequisites.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::container::ContainerError;
use crate::program::ProgramError;
use sandbox_network_log::LogError;
use sandbox_podman::EngineError;

/// Why a task has no egress. A task never starts without the egress that it requires.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProxyError {
    /// The engine refused, failed or is unreachable.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A container could not be launched, or is not what was requested.
    #[error(transparent)]
    Container(#[from] ContainerError),
    /// A file of the state directory, or a log, could not be used.
    #[error("failed to {operation} `{}`", path.display())]
    File {
        /// The operation that failed.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The file of the root authority exists, but this program did not write it.
    #[error(
        "the root authority in `{}` is unusable: {problem}; remove that file, and the next start creates a new one", path.display()
    )]
    DamagedAuthority {
        /// The file.
        path: PathBuf,
        /// The problem with the file.
        problem: String,
    },
    /// A certificate could not be created.
    #[error("failed to create a certificate")]
    Certificate(#[from] rcgen::Error),
    /// The proxy's program is missing or unusable.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The proxy's image was removed right after it was built.
    #[error(
        "the proxy's image `{tag}` vanished after it was built; does something prune images on this engine?"
    )]
    ImageVanished {
        /// Its tag.
        tag: String,
    },
    /// A change of the policy was requested for a quarantined execution.
    #[error("the execution is quarantined, which is irreversible; stop it and execute again")]
    Quarantined,
    /// Every subnet that was tried is in use.
    #[error("no free subnet in {range} after {tried} attempts; is that range in use on this host?")]
    NoSubnet {
        /// The range.
        range: String,
        /// The number of subnets that were tried.
        tried: usize,
    },
    /// The host has no name server that a container can reach.
    #[error("no usable name server in {looked_at}; set `upstream.dns`")]
    NoResolver {
        /// The files that were read.
        looked_at: String,
    },
    /// The proxy did not start.
    #[error("the egress proxy did not start: {reason}{}", tail(stderr))]
    ProxyStart {
        /// The reason.
        reason: String,
        /// The end of its standard error, escaped; may be empty.
        stderr: String,
    },
    /// The requested duration of the lowered shield is zero or too long.
    #[error("the shield can be down for up to 24 hours, not for {asked:?}")]
    ShieldTime {
        /// The requested duration.
        asked: Duration,
    },
    /// The proxy did not confirm that a change of the policy is in force: whether it is, is
    /// unknown.
    #[error(
        "the egress proxy did not confirm the change within {within:?}; stop the task if it must not continue without it"
    )]
    Unconfirmed {
        /// The time that was waited.
        within: Duration,
    },
    /// A proxy elsewhere cannot have a part of the configuration.
    #[error("{what} needs this host, so a proxy elsewhere cannot have it")]
    NeedsHost {
        /// That part.
        what: &'static str,
    },
    /// The start document of a proxy could not be written.
    #[error("failed to write the start document of a proxy: {0}")]
    StartDocument(String),
    /// The proxy no longer accepts commands.
    #[error("the egress proxy is gone")]
    ProxyGone,
}

impl ProxyError {
    /// For `map_err`: an I/O error with the operation and the file.
    pub(crate) fn file(operation: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { operation, path, source }
    }
}

impl From<LogError> for ProxyError {
    fn from(error: LogError) -> Self {
        Self::file(error.operation, error.path)(error.source)
    }
}

fn tail(stderr: &str) -> String {
    if stderr.is_empty() { String::new() } else { format!("; its stderr: {stderr}") }
}

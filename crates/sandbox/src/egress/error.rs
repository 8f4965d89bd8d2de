//! What can go wrong with a proxy and with what it needs.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::container::ContainerError;
use crate::program::ProgramError;
use sandbox_network_log::LogError;
use sandbox_podman::EngineError;

/// Why there is no egress for a task. A task never starts without one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProxyError {
    /// The engine refused, failed or cannot be reached.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A container could not be launched, or is not what was asked for.
    #[error(transparent)]
    Container(#[from] ContainerError),
    /// A file of the state directory or a log cannot be used.
    #[error("failed to {operation} `{}`", path.display())]
    File {
        /// What was tried.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The file of the root authority is there and is not what this program wrote.
    #[error(
        "the root authority in `{}` is unusable: {problem}; remove that file, a new one is made at the next start", path.display()
    )]
    DamagedAuthority {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A certificate cannot be made.
    #[error("failed to make a certificate")]
    Certificate(#[from] rcgen::Error),
    /// The proxy's program is missing, or cannot be used.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The proxy's image was removed as soon as it was built.
    #[error(
        "the proxy's image `{tag}` vanished after it was built; does something prune images on this engine?"
    )]
    ImageVanished {
        /// Its tag.
        tag: String,
    },
    /// The policy was to be changed of an execution that is cut off.
    #[error("the execution is quarantined, which nothing ends; stop it and execute again")]
    Quarantined,
    /// Every subnet that was tried is in use.
    #[error("no free subnet in {range} after {tried} attempts; is that range in use on this host?")]
    NoSubnet {
        /// The range.
        range: String,
        /// How many subnets were tried.
        tried: usize,
    },
    /// The host names no resolver that a container could ask.
    #[error("no usable name server in {looked_at}; set `upstream.dns`")]
    NoResolver {
        /// The files that were read.
        looked_at: String,
    },
    /// The proxy did not come up.
    #[error("the egress proxy did not start: {reason}{}", tail(stderr))]
    ProxyStart {
        /// What happened.
        reason: String,
        /// The end of its standard error, escaped; may be empty.
        stderr: String,
    },
    /// The shield was to be down for no time, or for longer than it may be.
    #[error("the shield can be down for up to 24 hours, and not for {asked:?}")]
    ShieldTime {
        /// The time that was asked for.
        asked: Duration,
    },
    /// The proxy did not say that a change of the policy is in force: whether it is, is not known.
    #[error(
        "the egress proxy did not confirm the change within {within:?}; stop the task if it must not go on without it"
    )]
    Unconfirmed {
        /// How long it was waited for.
        within: Duration,
    },
    /// The proxy takes no commands any more.
    #[error("the egress proxy is gone")]
    ProxyGone,
}

impl ProxyError {
    /// For `map_err`: an I/O error with what was tried on which file.
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
    if stderr.is_empty() { String::new() } else { format!("; it said: {stderr}") }
}

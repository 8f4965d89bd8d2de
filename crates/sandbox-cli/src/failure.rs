//! The error of a command, and a hint.

use std::error::Error;
use std::fmt;

use sandbox::image::{BuildReach, ImageBuildError};
use sandbox::network::ProxyError;
use sandbox::session::SessionError;
use sandbox::workspace::WorkspaceError;
use sandbox::{ContainerError, ProgramError, SandboxError};

use crate::exit_status::ExitStatus;

/// How to start an engine.
pub(crate) const START_ENGINE: &str = if cfg!(debug_assertions) {
    "start podman's service with `systemctl --user start podman.socket` (as root without \
     `--user`), or with `cargo xtask engine` in a checkout"
} else {
    "start podman's service with `systemctl --user start podman.socket` (as root without `--user`)"
};

/// The error of a command.
#[derive(Debug)]
pub(crate) struct Failure {
    status: ExitStatus,
    error: anyhow::Error,
    hint: Option<String>,
}

impl Failure {
    /// An error with a message of our own.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self::of(anyhow::Error::msg(message.into()))
    }

    /// An invalid command line.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { status: ExitStatus::Usage, ..Self::new(message) }
    }

    /// For `map_err`: adds "failed to" and the operation with its object.
    pub(crate) fn doing<E: Into<anyhow::Error>>(operation: impl fmt::Display) -> impl FnOnce(E) -> Self {
        move |error| Self::of(error.into().context(format!("failed to {operation}")))
    }

    /// Adds a hint.
    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// The exit status.
    pub(crate) fn status(&self) -> ExitStatus {
        self.status
    }

    /// The hint.
    pub(crate) fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The error of type `E` in its chain of causes.
    pub(crate) fn find<E: Error + Send + Sync + 'static>(&self) -> Option<&E> {
        self.error.chain().find_map(|cause| cause.downcast_ref())
    }

    /// Its causes, the nearest first. A cause that is already part of the message before it is
    /// omitted.
    pub(crate) fn causes(&self) -> Vec<String> {
        let mut causes: Vec<String> = Vec::new();
        let mut last = self.error.to_string();
        for cause in self.error.chain().skip(1) {
            let text = cause.to_string();
            if !last.contains(&text) {
                causes.push(text.clone());
            }
            last = text;
        }
        causes
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::of(error.into())
    }
}

impl Failure {
    fn of(error: anyhow::Error) -> Self {
        let cause = error.chain().find_map(|cause| cause.downcast_ref::<SandboxError>());
        let (status, hint) = match cause {
            Some(cause) => (status_of(cause), hint_for(cause)),
            None => (ExitStatus::Infrastructure, None),
        };
        Self { status, error, hint }
    }
}

fn status_of(error: &SandboxError) -> ExitStatus {
    match error {
        SandboxError::Container(ContainerError::ProgramNotFound { .. }) => ExitStatus::NotFound,
        SandboxError::Container(ContainerError::ProgramNotExecutable { .. }) => ExitStatus::NotExecutable,
        _ => ExitStatus::Infrastructure,
    }
}

fn hint_for(error: &SandboxError) -> Option<String> {
    let hint = match error {
        SandboxError::ImageBuild(ImageBuildError::NotFound { .. }) => {
            "`podman images` lists the existing images; `sandbox image build` builds .sandbox/container/Dockerfile; \
             `sandbox image save` where a bundle comes from, and `load` here, bring its image"
        }
        SandboxError::ImageBuild(ImageBuildError::Failed { .. }) if is_pull(error) => {
            "the base image could not be pulled: check its name in `FROM`, and with `podman pull` \
             that its registry is reachable; without a registry, use `podman load`, or name one of \
             `podman images` with --image"
        }
        SandboxError::ImageBuild(ImageBuildError::Failed { reach: BuildReach::Nothing, .. }) => {
            "the build has no network access: allow the hosts it needs, such as `domains: \
             [\"*.debian.org\"]`, in .sandbox/build-allowlist.yaml, or in the file that \
             `build.allowlist` names"
        }
        SandboxError::ImageBuild(ImageBuildError::Failed { reach: BuildReach::Allowed, .. }) => {
            "`sandbox logs` shows the build's refused requests; allow them in \
             .sandbox/build-allowlist.yaml, or in the file that `build.allowlist` names"
        }
        SandboxError::ImageBuild(ImageBuildError::Dockerfile { .. }) => {
            "only RUN steps can be sandboxed; `build: {network: host}` in .sandbox/sandbox.yaml builds outside of the sandbox"
        }
        SandboxError::Session(SessionError::Busy { .. }) => {
            "wait for the other run to end, or use another session folder with --session-dir"
        }
        SandboxError::Workspace(WorkspaceError::Busy { .. }) => {
            "only one run at a time can use the copy of a work tree; with `--workspace direct` \
             several can work on the tree itself"
        }
        SandboxError::Program(ProgramError::Unusable { .. })
        | SandboxError::Proxy(ProxyError::Program(ProgramError::Unusable { .. })) => {
            return Some(PROGRAMS_HINT.to_owned());
        }
        SandboxError::Proxy(ProxyError::NoResolver { .. }) => {
            "write `upstream: {dns: 192.0.2.53}`, with your name server's address, to .sandbox/sandbox.yaml; \
             for a bundle, to your own sandbox.yaml"
        }
        SandboxError::Container(ContainerError::ProgramNotFound { .. }) => {
            "install the program in the image's Dockerfile, or name the file in the container by its full path"
        }
        _ if error.is_engine_unreachable() => {
            return Some(format!(
                "{START_ENGINE}; or correct the socket in --engine, CONTAINER_HOST or `engine`"
            ));
        }
        _ if ["cannot be used for a copy", "stacks no other", "make a view of"]
            .iter()
            .any(|it| mentions(error, it)) =>
        {
            "use `--workspace direct` to work on the tree itself, with its protected paths; for a bundle, set \
             XDG_STATE_HOME to a folder of another file system"
        }
        _ if mentions(error, "catatonit") || mentions(error, "init binary") => {
            "the engine needs an init program: install the package catatonit"
        }
        _ if mentions(error, "netavark") && mentions(error, "unable to execute") => {
            "the engine's networks need nft or iptables: install the packages nftables and iptables"
        }
        _ if mentions(error, "/dev/net/tun") => {
            "a rootless engine needs /dev/net/tun: run `sudo chmod 0666 /dev/net/tun` (and `sudo modprobe tun` if it is missing)"
        }
        SandboxError::Engine(_) | SandboxError::Proxy(ProxyError::Engine(_)) => {
            "`sandbox doctor` checks the engine"
        }
        _ => return None,
    };
    Some(hint.to_owned())
}

const PROGRAMS_HINT: &str = "install the package or the archive again: the programs in libexec/sandbox belong to `sandbox`; after `cargo install`, \
                             `cargo xtask proxy-image` in the checkout builds them, and SANDBOX_PROXY_DIR names their folder";

/// An error with its causes, on one line.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// Whether a build failed before its first step because the base image is missing.
fn is_pull(error: &(dyn Error + 'static)) -> bool {
    ["initializing source docker://", "short-name", "manifest unknown"]
        .iter()
        .any(|text| mentions(error, text))
}

fn mentions(error: &(dyn Error + 'static), text: &str) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if error.to_string().contains(text) {
            return true;
        }
        next = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unrunnable_programs_have_the_exit_codes_of_a_shell() {
        let missing = ContainerError::ProgramNotFound { program: "x".to_owned() };
        let failure = Failure::from(SandboxError::from(missing));
        assert_eq!(failure.status().code(), 127);
        assert!(failure.hint().is_some());
        let forbidden = ContainerError::ProgramNotExecutable { program: "x".to_owned() };
        assert_eq!(Failure::from(SandboxError::from(forbidden)).status().code(), 126);
        assert_eq!(Failure::from(SandboxError::Busy).status().code(), 125);
        assert_eq!(Failure::usage("x").status().code(), 2);
    }

    #[test]
    fn missing_program_has_a_hint() {
        let (name, problem) = ("sandbox-inside", "there is none".to_owned());
        let failure = Failure::from(SandboxError::from(ProgramError::Unusable { name, problem }));
        assert!(failure.hint().is_some_and(|hint| hint.contains("SANDBOX_PROXY_DIR")));
    }

    #[test]
    fn causes_do_not_repeat_the_message() {
        let inner = std::io::Error::other("the disk is full");
        let failure = Failure::doing::<std::io::Error>("write `x`")(inner);
        assert_eq!(failure.to_string(), "failed to write `x`");
        assert_eq!(failure.causes(), ["the disk is full"]);
    }
}

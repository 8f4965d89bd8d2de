//! The engine's address. The only file of the library that reads the environment.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// An invalid configuration, and the fix.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct InvalidConfig(pub(crate) String);

/// The address of the engine: a Unix socket.
///
/// ```
/// let address: sandbox::EngineAddress = "unix:///run/podman/podman.sock".parse()?;
/// assert_eq!(address.socket().to_str(), Some("/run/podman/podman.sock"));
/// # Ok::<(), sandbox::InvalidConfig>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineAddress(PathBuf);

impl EngineAddress {
    /// The socket at `path`.
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The engine as the command `sandbox` finds it: `CONTAINER_HOST`, else `DOCKER_HOST`, else
    /// podman's socket of the user or of the system. `DOCKER_HOST` is used only if it is a Unix
    /// socket, because it usually names Docker.
    ///
    /// # Errors
    ///
    /// When there is none, or `CONTAINER_HOST` is not a Unix socket.
    pub fn discover() -> Result<Self, InvalidConfig> {
        Self::discover_in(|name| std::env::var_os(name), Path::exists).map(|(address, _)| address)
    }

    /// Like [`discover`](Self::discover) in a given environment, with `is_socket` as the check for
    /// sockets. Also returns which source named the engine.
    ///
    /// # Errors
    ///
    /// As for [`discover`](Self::discover).
    pub fn discover_in(
        environment: impl Fn(&str) -> Option<OsString>,
        is_socket: impl Fn(&Path) -> bool,
    ) -> Result<(Self, String), InvalidConfig> {
        let variable = |name| environment(name).filter(|value| !value.is_empty());
        let text = |name| variable(name).map(|value| value.to_string_lossy().into_owned());
        if let Some(text) = text("CONTAINER_HOST") {
            let address = text.parse::<Self>();
            let address = address.map_err(|error| InvalidConfig(format!("CONTAINER_HOST: {error}")))?;
            return Ok((address, "CONTAINER_HOST".to_owned()));
        }
        let docker = text("DOCKER_HOST");
        if let Some(address) = docker.as_ref().and_then(|text| text.parse().ok()) {
            return Ok((address, "DOCKER_HOST".to_owned()));
        }
        let ignored = docker.map_or("", |_| "; DOCKER_HOST is set, but is not a Unix socket");
        let of_the_user = variable("XDG_RUNTIME_DIR").map(|dir| Path::new(&dir).join("podman/podman.sock"));
        let sockets: Vec<_> = of_the_user.into_iter().chain(["/run/podman/podman.sock".into()]).collect();
        if let Some(socket) = sockets.iter().find(|socket| is_socket(socket)) {
            return Ok((Self::unix(socket), format!("the default location{ignored}")));
        }
        let looked: Vec<_> = sockets.iter().map(|socket| socket.to_string_lossy()).collect();
        Err(InvalidConfig(format!(
            "no engine: neither CONTAINER_HOST nor DOCKER_HOST names one, and there is no socket at {}{ignored}",
            looked.join(" or ")
        )))
    }

    /// The socket's path.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.0
    }
}

impl fmt::Display for EngineAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unix://{}", self.0.display())
    }
}

impl FromStr for EngineAddress {
    type Err = InvalidConfig;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let path = text.strip_prefix("unix://").unwrap_or(text);
        if path.starts_with('/') && !path.contains('\0') {
            return Ok(Self(PathBuf::from(path)));
        }
        Err(InvalidConfig(format!(
            "`{}` is not an engine address; write unix:///run/podman/podman.sock (only Unix sockets are supported)",
            text.escape_debug()
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_absolute_unix_sockets_are_addresses() {
        for (text, good) in [
            ("unix:///run/x.sock", true),
            ("/run/x.sock", true),
            ("tcp://127.0.0.1:2375", false),
            ("ssh://host", false),
            ("", false),
            ("x.sock", false),
        ] {
            assert_eq!(text.parse::<EngineAddress>().is_ok(), good, "{text}");
        }
    }

    fn found(environment: &[(&str, &str)], sockets: &[&str]) -> Result<String, String> {
        let variable = |name: &str| {
            let value = environment.iter().find(|(known, _)| *known == name)?.1;
            Some(value.into())
        };
        let is_socket = |path: &Path| sockets.iter().any(|socket| path == Path::new(socket));
        EngineAddress::discover_in(variable, is_socket)
            .map(|(address, _)| address.socket().display().to_string())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn first_usable_source_is_chosen() {
        let usual = ["/run/podman/podman.sock", "/run/user/1/podman/podman.sock"];
        let container = ("CONTAINER_HOST", "unix:///container.sock");
        let docker = ("DOCKER_HOST", "unix:///docker.sock");
        let runtime = ("XDG_RUNTIME_DIR", "/run/user/1");
        for (environment, expected) in [
            (&[container, docker, runtime][..], "/container.sock"),
            (&[("CONTAINER_HOST", ""), docker], "/docker.sock"),
            (&[("DOCKER_HOST", "tcp://10.0.0.1:2375"), runtime], "/run/user/1/podman/podman.sock"),
            (&[], "/run/podman/podman.sock"),
        ] {
            assert_eq!(found(environment, &usual).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn unusable_source_is_named_in_the_error() {
        let error = found(&[("DOCKER_HOST", "tcp://10.0.0.1:2375")], &[]).unwrap_err();
        assert!(
            error.contains("CONTAINER_HOST nor DOCKER_HOST names one")
                && error.ends_with("/run/podman/podman.sock; DOCKER_HOST is set, but is not a Unix socket"),
            "{error}"
        );
        let error = found(&[("CONTAINER_HOST", "ssh://host")], &[]).unwrap_err();
        assert!(error.starts_with("CONTAINER_HOST: `ssh://host` is not an engine address"), "{error}");
    }
}

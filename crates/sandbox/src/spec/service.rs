//! Services of the host that a task may reach.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use sandbox_gate::Repository;

use super::InvalidSpec;

/// A service of the host that a task reaches by name, through its proxy: this service and nothing
/// else on the host.
///
/// Its connections pass unchanged, and are logged with their bytes and duration. With
/// [`http`](Self::http) its requests are judged by the policy's hosts, paths and methods instead,
/// like requests to any host.
/// instead, like those to any host.
///
/// ```
/// use std::net::Ipv4Addr;
/// use sandbox::HostService;
///
/// // The task connects to `db:5432`.
/// let database = HostService::tcp("db", (Ipv4Addr::LOCALHOST, 5432))?;
/// // The task requests `http://mcp:8080/`, if the policy allows the host `mcp`.
/// let tools = HostService::unix("mcp", "/run/mcp.sock", 8080)?.http();
/// # Ok::<(), sandbox::InvalidSpec>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostService {
    name: String,
    target: ServiceTarget,
    port: u16,
    http: bool,
}

/// The address of a service on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ServiceTarget {
    Tcp(SocketAddr),
    Unix(PathBuf),
    /// The sandbox's own git server.
    Gate(Vec<Repository>),
}

impl HostService {
    /// The name of the git server in a task.
    pub(crate) const GATE: &'static str = "gate";

    /// The git server, with these repositories.
    pub(super) fn gate(repositories: Vec<Repository>) -> Self {
        Self { name: Self::GATE.to_owned(), target: ServiceTarget::Gate(repositories), port: 80, http: true }
    }

    /// The service that listens at `address`, as the host reaches it. The task reaches it as
    /// `name`, at the same port.
    ///
    /// # Errors
    ///
    /// When `name` is not one label of a host name, such as `db`, or the port cannot be served: see
    /// [`port`](Self::port).
    pub fn tcp(name: impl Into<String>, address: impl Into<SocketAddr>) -> Result<Self, InvalidSpec> {
        let address = address.into();
        Self::new(name.into(), ServiceTarget::Tcp(address), address.port())
    }

    /// The service that listens on the Unix socket at `path`. The task reaches it as `name`, at
    /// `port`.
    ///
    /// The path is resolved again for each connection, without following a link that a task could
    /// have made.
    ///
    /// # Errors
    ///
    /// As for [`tcp`](Self::tcp), and when the path is not absolute.
    pub fn unix(name: impl Into<String>, path: impl Into<PathBuf>, port: u16) -> Result<Self, InvalidSpec> {
        let path = path.into();
        if !path.is_absolute() {
            return Err(invalid(format!("`{}` must be absolute", path.display())));
        }
        Self::new(name.into(), ServiceTarget::Unix(path), port)
    }

    /// Changes the port at which the task reaches it.
    ///
    /// # Errors
    ///
    /// When the port is 0, 53 or 443, which the proxy uses itself. Port 80 is for
    /// [`http`](Self::http) alone, which
    /// [`NetworkSandboxConfig::services`](super::NetworkSandboxConfig::services) checks.
    pub fn port(self, port: u16) -> Result<Self, InvalidSpec> {
        Self::new(self.name, self.target, port).map(|service| Self { http: self.http, ..service })
    }

    /// Declares that it uses HTTP. Its requests are then judged like those to any host: the policy
    /// must allow the host of this name.
    #[must_use]
    pub fn http(self) -> Self {
        Self { http: true, ..self }
    }

    /// Its name in the task.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    fn new(name: String, target: ServiceTarget, port: u16) -> Result<Self, InvalidSpec> {
        let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let label = !name.is_empty()
            && name.len() <= 63
            && name.chars().all(good)
            && name.contains(|c: char| c.is_ascii_lowercase())
            && !name.starts_with('-')
            && !name.ends_with('-');
        // Some resolvers read `0x1f` as a number.
        let number = name.strip_prefix("0x").is_some_and(|rest| rest.chars().all(|c| c.is_ascii_hexdigit()));
        if !label || number {
            return Err(invalid(format!(
                "`{}` is not a name; write one label of lower-case letters, digits and hyphens, as in `db`",
                name.escape_debug()
            )));
        }
        if name == "localhost" {
            return Err(invalid("`localhost` is the container itself; choose another name".to_owned()));
        }
        if name == Self::GATE {
            return Err(invalid(format!("`{name}` is the sandbox's git server; choose another name")));
        }
        if matches!(port, 0 | 53 | 443) {
            return Err(invalid(format!("{name}: port {port} is reserved; choose another `port`")));
        }
        Ok(Self { name, target, port, http: false })
    }

    pub(crate) fn target(&self) -> &ServiceTarget {
        &self.target
    }

    pub(crate) fn task_port(&self) -> u16 {
        self.port
    }

    pub(crate) fn is_http(&self) -> bool {
        self.http
    }
}

impl fmt::Display for HostService {
    /// Everything that it gives a task, in one line: `db:5432 at 127.0.0.1:5432`. Backticks in a
    /// socket's path are escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name, self.port)?;
        match &self.target {
            ServiceTarget::Tcp(address) => write!(f, " at {address}")?,
            ServiceTarget::Unix(path) => {
                let path = path.display().to_string().escape_debug().to_string();
                write!(f, " at `{}`", path.replace('`', "\\x60"))?;
            }
            ServiceTarget::Gate(_) => {}
        }
        f.write_str(if self.http { ", with requests that the policy allows" } else { "" })
    }
}

/// Checks that the services can be served together, at one address.
pub(super) fn validate(services: &[HostService]) -> Result<(), InvalidSpec> {
    for (at, service) in services.iter().enumerate() {
        let HostService { name, port, http, .. } = service;
        if *port == 80 && !http {
            return Err(invalid(format!(
                "{name}: port 80 is for HTTP; set `http`, or choose another `port`"
            )));
        }
        for other in services.iter().take(at) {
            if other.name == *name {
                return Err(invalid(format!("there are two services called {name}")));
            }
            if other.port == *port && !(other.http && *http) {
                return Err(invalid(format!(
                    "{} and {name} have the same port {port}; give one of them another `port`",
                    other.name
                )));
            }
        }
    }
    Ok(())
}

fn invalid(problem: String) -> InvalidSpec {
    InvalidSpec::new("services", problem)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn at(name: &str, port: u16) -> Result<HostService, InvalidSpec> {
        HostService::tcp(name, (Ipv4Addr::LOCALHOST, port))
    }

    #[test]
    fn name_or_port_that_no_task_can_use_is_refused() {
        for name in ["db", "a", "my-db2", "1a"] {
            assert!(at(name, 5432).is_ok(), "{name}");
        }
        for name in ["", "DB", "a.b", "-a", "a-", "a b", "localhost", "gate", "5432", "0x1f", "ü", "a\n"] {
            assert!(at(name, 5432).is_err(), "{name}");
        }
        for port in [0, 53, 443] {
            assert!(at("db", port).is_err() && at("db", 1).unwrap().port(port).is_err(), "{port}");
        }
        assert!(HostService::unix("mcp", "mcp.sock", 8080).is_err());
    }

    #[test]
    fn services_with_one_name_or_port_are_refused() {
        let service = |name: &str, port| at(name, port).unwrap();
        for (services, good) in [
            (vec![service("a", 1), service("b", 2)], true),
            (vec![service("a", 8080).http(), service("b", 8080).http()], true),
            (vec![service("a", 80).http()], true),
            (vec![service("a", 80)], false),
            (vec![service("a", 1), service("a", 2)], false),
            (vec![service("a", 1), service("b", 1)], false),
            (vec![service("a", 1), service("b", 1).http()], false),
        ] {
            assert_eq!(validate(&services).is_ok(), good, "{services:?}");
        }
    }
}

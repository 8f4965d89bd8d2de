//! The part `services`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use allowlist::Allowlist;
use located_yaml::{Entries, InvalidFile, Location, Spanned};
use sandbox::{HostService, InvalidSpec, NetworkSandboxConfig};
use schemars::JsonSchema;

/// More than any task needs, and few enough to compare each with all others.
const MOST: usize = 256;

/// A service of the host, at an address or a socket.
#[derive(Debug, Clone, Default, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("oneOf" = [{"required": ["tcp"]}, {"required": ["unix"], "allOf": [{"required": ["port"]}]}]))]
pub(super) struct ServiceDocument {
    /// Its address, as in 127.0.0.1:5432.
    #[schemars(with = "String")]
    tcp: Option<Spanned<String>>,
    /// Its Unix socket.
    #[schemars(with = "String")]
    unix: Option<Spanned<PathBuf>>,
    /// The port under which tasks reach it; default the port of `tcp`.
    #[schemars(with = "u16", range(min = 1))]
    port: Option<Spanned<u16>>,
    /// Whether it speaks HTTP, so that network-allowlist.yaml applies to its requests.
    #[schemars(with = "bool", extend("default" = false))]
    http: bool,
}

/// The services, relative paths resolved in `folder`.
pub(super) fn services(
    entries: Entries<String, ServiceDocument>,
    folder: &Path,
) -> Result<Vec<HostService>, InvalidFile> {
    let mut services = Vec::new();
    for (name, document) in entries {
        let location = name.location().clone();
        if services.len() == MOST {
            return Err(InvalidFile::new(&location, format!("at most {MOST} services are allowed")));
        }
        services.push(document.service(name.as_str(), &location, folder)?);
        // A conflict between services is reported at the last one.
        let together = NetworkSandboxConfig::new(Allowlist::default()).services(services.iter().cloned());
        together.map_err(|error| problem(&location, &error))?;
    }
    Ok(services)
}

impl ServiceDocument {
    fn service(self, name: &str, at: &Location, folder: &Path) -> Result<HostService, InvalidFile> {
        let service = match (self.tcp, self.unix, &self.port) {
            (Some(tcp), None, _) => {
                let address: SocketAddr = tcp.parse().map_err(|_| {
                    let shown = tcp.escape_debug();
                    InvalidFile::new(
                        tcp.location(),
                        format!("`tcp` must be an address such as 127.0.0.1:5432, not `{shown}`"),
                    )
                })?;
                HostService::tcp(name, address)
            }
            (None, Some(path), Some(port)) => HostService::unix(name, folder.join(path.into_inner()), **port),
            (None, Some(path), None) => {
                return Err(InvalidFile::new(
                    path.location(),
                    "a Unix socket has no port: set the `port` under which tasks reach it",
                ));
            }
            (Some(_), Some(path), _) => {
                return Err(InvalidFile::new(
                    path.location(),
                    "a service has either `tcp` or `unix`: remove one",
                ));
            }
            (None, None, _) => {
                return Err(InvalidFile::new(
                    at,
                    "a service needs an address: write `tcp: 127.0.0.1:5432`, or `unix` and `port`",
                ));
            }
        };
        let service = service.map_err(|error| problem(at, &error))?;
        let service = match self.port {
            Some(port) => service.port(*port).map_err(|error| problem(port.location(), &error))?,
            None => service,
        };
        Ok(if self.http { service.http() } else { service })
    }
}

fn problem(at: &Location, error: &InvalidSpec) -> InvalidFile {
    InvalidFile::new(at, error.problem().to_string())
}

//! The services by name and port.

use std::sync::Arc;

use allowlist::{HostName, Reason};
use sandbox_proxy_protocol::HostService;

use crate::policy::Blocked;

/// The services of one task.
#[derive(Debug, Default)]
pub(crate) struct Services(Vec<Arc<HostService>>);

impl Services {
    pub(crate) fn new(services: Vec<HostService>) -> Self {
        Self(services.into_iter().map(Arc::new).collect())
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<HostService>> {
        self.0.iter()
    }

    /// The service that a request for `host` goes to, if any; the request came to `port`.
    ///
    /// # Errors
    ///
    /// If there is such a service on another port, or if the port serves only services and `host`
    /// is not one of them.
    pub(crate) fn at(&self, host: &HostName, port: u16) -> Result<Option<&Arc<HostService>>, Blocked> {
        let mut named = self.0.iter().filter(|service| service.http && service.name == host.as_str());
        let Some(service) = named.next() else {
            let shared = self.0.iter().any(|service| service.http && service.port == port && port != 80);
            return if shared { Err(elsewhere(host, "80 for http and 443 for https")) } else { Ok(None) };
        };
        if service.port == port { Ok(Some(service)) } else { Err(elsewhere(host, &service.port.to_string())) }
    }
}

fn elsewhere(host: &HostName, port: &str) -> Blocked {
    Blocked::new(Reason::Port, format!("{host} is not at this port: use port {port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_is_found_only_on_its_own_port() {
        let service = |name: &str, port, http| HostService {
            name: name.to_owned(),
            port,
            http,
            socket: format!("/run/{name}").into(),
        };
        let services = Services::new(vec![
            service("db", 5432, false),
            service("mcp", 8080, true),
            service("web", 80, true),
        ]);
        let at = |host: &str, port| {
            let host = HostName::from_wire(host.as_bytes()).unwrap();
            let found = services.at(&host, port);
            found.map(|service| service.map(|service| service.name.clone())).map_err(|denial| denial.reason())
        };
        assert_eq!(at("mcp", 8080), Ok(Some("mcp".to_owned())));
        assert_eq!(at("web", 80), Ok(Some("web".to_owned())));
        assert_eq!(at("a.example", 80), Ok(None));
        assert_eq!(at("db", 80), Ok(None), "HTTP treats it like any other name");
        for (host, port) in [("mcp", 80), ("mcp", 443), ("web", 8080), ("a.example", 8080), ("db", 8080)] {
            assert_eq!(at(host, port), Err(Reason::Port.into()), "{host} {port}");
        }
    }
}

//! A proxy and a task that another engine runs, such as pods.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};

use sandbox_proxy_protocol::{
    Limits, Listen, PROTOCOL_VERSION, ReplacementMap, StartConfig, Upstream, to_secret_line,
};
use time::OffsetDateTime;
use zeroize::Zeroizing;

use super::ProxyError;
use super::authority::RootAuthority;
use super::trust;
use crate::config::UpstreamConfig;
use crate::spec::NetworkSandboxConfig;

/// The parts of a proxy and its task that an engine elsewhere needs; see
/// [`NetworkSandboxConfig::remote_proxy`].
#[non_exhaustive]
pub struct RemoteProxy {
    /// The first line of the proxy's stdin: its policy, its certificate and key, and the real values
    /// behind surrogates. Zeroed when dropped.
    pub start_document: Zeroizing<Vec<u8>>,
    /// The files that the task gets in [`trust_folder`](Self::trust_folder), by their names. None is
    /// secret.
    pub trust_files: BTreeMap<&'static str, String>,
    /// The path in the task's container.
    pub trust_folder: &'static str,
    /// The variables that make the task's programs trust the files.
    pub variables: BTreeMap<&'static str, String>,
}

impl fmt::Debug for RemoteProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteProxy").field("trust_files", &self.trust_files).finish_non_exhaustive()
    }
}

impl NetworkSandboxConfig {
    /// The parts of one proxy that this library does not start: it listens at `address`, on ports 53,
    /// 80 and 443, queries the name server `dns`, and serves one task, which can reach nothing else.
    /// Whoever starts them has to ensure that. The proxy serves until its stdin ends, for at most a
    /// day: then its certificate expires. Each call creates an authority of its own.
    ///
    /// # Errors
    ///
    /// If the configuration has something that needs this host: services, the gate, questions, or an
    /// audit. Also if a certificate cannot be created.
    ///
    /// ```
    /// use allowlist::Allowlist;
    /// use sandbox::{NetworkSandboxConfig, UpstreamConfig};
    ///
    /// let allowlist: Allowlist = Allowlist::new(["example.com".parse()?]);
    /// let network = NetworkSandboxConfig::new(allowlist);
    /// let dns = "10.96.0.10:53".parse()?;
    /// let proxy = network.remote_proxy("10.244.0.7".parse()?, dns, &UpstreamConfig::default())?;
    /// assert!(proxy.start_document.ends_with(b"\n"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn remote_proxy(
        &self,
        address: Ipv4Addr,
        dns: SocketAddr,
        upstream: &UpstreamConfig,
    ) -> Result<RemoteProxy, ProxyError> {
        let needs_host = [
            (!self.host_services().is_empty(), "a service of the host or the gate"),
            (self.asking().is_some(), "a question to the operator"),
            (self.is_audited(), "an audit"),
        ];
        if let Some((_, what)) = needs_host.into_iter().find(|(has, _)| *has) {
            return Err(ProxyError::NeedsHost { what });
        }
        let root = RootAuthority::new()?;
        let config = StartConfig {
            protocol: PROTOCOL_VERSION,
            policy: self.allowlist().clone(),
            replacements: ReplacementMap(self.secret_replacements().clone()),
            authority: root.intermediate(OffsetDateTime::now_utc())?,
            listen: Listen::new(address),
            upstream: Upstream {
                dns,
                extra_roots_pem: upstream.extra_roots_pem.clone(),
                allow_addresses: upstream.allow_addresses.clone(),
                host_addresses: Vec::new(),
            },
            services: Vec::new(),
            limits: Limits::default(),
        };
        let start_document =
            to_secret_line(&config).map_err(|error| ProxyError::StartDocument(error.to_string()))?;
        let (trust_files, variables) = trust::remote(root.certificate_pem());
        Ok(RemoteProxy { start_document, trust_files, trust_folder: trust::FOLDER, variables })
    }
}

#[cfg(test)]
mod tests {
    use allowlist::Allowlist;
    use sandbox_proxy_protocol::Verdict;

    use super::*;

    fn remote(config: &NetworkSandboxConfig) -> Result<RemoteProxy, ProxyError> {
        let dns = "10.96.0.10:53".parse().unwrap();
        config.remote_proxy([10, 0, 0, 7].into(), dns, &UpstreamConfig::default())
    }

    #[test]
    fn remote_proxy_has_a_document_and_its_task_trusts_its_authority_only() {
        let config = NetworkSandboxConfig::new(Allowlist::default());
        let (one, two) = (remote(&config).unwrap(), remote(&config).unwrap());
        let text = std::str::from_utf8(&one.start_document).unwrap();
        assert!(text.contains("\"address\":\"10.0.0.7\"") && text.ends_with("}\n"), "{text}");
        assert_ne!(one.trust_files, two.trust_files, "each has an authority of its own");
        for (name, path) in &one.variables {
            let file = path.strip_prefix(one.trust_folder).unwrap().trim_start_matches('/');
            assert!(file.is_empty() || one.trust_files.contains_key(file), "{name}: {path}");
        }
        assert!(one.variables.contains_key("SSL_CERT_FILE"));
        let key = text.split("-----BEGIN PRIVATE KEY-----").nth(1).unwrap();
        let key = key.get(..40).unwrap();
        assert!(!format!("{one:?}").contains(key), "no secret is shown");
    }

    #[test]
    fn remote_proxy_without_what_it_needs_of_this_host_is_refused() {
        let plain = NetworkSandboxConfig::new(Allowlist::default());
        for config in [plain.clone().audited(), plain.clone().ask(async |_| Verdict::No)] {
            assert!(matches!(remote(&config), Err(ProxyError::NeedsHost { .. })), "{config:?}");
        }
        assert!(remote(&plain).is_ok(), "the control");
    }
}

//! The start document of a proxy.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use allowlist::Allowlist;
use ipnet::IpNet;
use sandbox_credentials::wire::ReplacementMap;
use serde::{Deserialize, Serialize};

use crate::{LineError, PrivateKeyPem, from_line};

/// The addresses to which a proxy may send packets, in addition to its task and public addresses:
/// the program's second argument, in JSON. It gives up all other access before it reads any input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reach {
    /// Its address on the task's network, which it reaches entirely.
    pub listen: Ipv4Addr,
    /// As in [`Upstream`]; only this port of this address.
    pub dns: SocketAddr,
    /// As in [`Upstream`].
    pub allow_addresses: Vec<IpNet>,
    /// As in [`Upstream`].
    pub host_addresses: Vec<Ipv4Addr>,
}

impl Reach {
    /// The reach of a proxy that listens at `listen` and has `upstream`.
    #[must_use]
    pub fn of(listen: Ipv4Addr, upstream: &Upstream) -> Self {
        Self {
            listen,
            dns: upstream.dns,
            allow_addresses: upstream.allow_addresses.clone(),
            host_addresses: upstream.host_addresses.clone(),
        }
    }

    /// The program's argument.
    #[must_use]
    pub fn to_argument(&self) -> String {
        // All of it can be serialized.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Parses the program's argument.
    ///
    /// # Errors
    ///
    /// If it is not an output of [`Self::to_argument`].
    pub fn from_argument(argument: &str) -> Result<Self, LineError> {
        from_line(argument.as_bytes())
    }
}

/// The complete configuration of a proxy for one task.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartConfig {
    /// [`crate::PROTOCOL_VERSION`] of the sandbox.
    pub protocol: u32,
    /// The task's policy.
    pub policy: Allowlist,
    /// The replacements of surrogates in requests. Default none.
    #[serde(default)]
    pub replacements: ReplacementMap,
    /// The authority that issues the proxy's leaf certificates.
    pub authority: ProxyAuthority,
    /// The addresses on which the proxy listens.
    pub listen: Listen,
    /// The proxy's access to the internet.
    pub upstream: Upstream,
    /// Services of the host that the task reaches by name. Default none.
    #[serde(default)]
    pub services: Vec<HostService>,
    /// Limits on one task.
    #[serde(default)]
    pub limits: Limits,
}

/// An intermediate authority: path length 0, for one task, valid for a day.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProxyAuthority {
    /// The intermediate certificate, PEM. It is sent to clients after each leaf.
    pub certificate_pem: String,
    /// Its private key, PKCS#8 PEM.
    pub private_key_pem: PrivateKeyPem,
}

/// The listeners of the proxy, on its address in the task's network.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listen {
    /// The address of every listener, and the answer to every A query.
    pub address: Ipv4Addr,
    /// Plain HTTP. Default 80.
    pub http_port: u16,
    /// TLS. Default 443.
    pub https_port: u16,
    /// DNS, over UDP and TCP. Default 53.
    pub dns_port: u16,
}

impl Listen {
    /// The standard ports on `address`.
    #[must_use]
    pub fn new(address: Ipv4Addr) -> Self {
        Self { address, http_port: 80, https_port: 443, dns_port: 53 }
    }
}

/// A service of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostService {
    /// Its name for the task: one label of a host name.
    pub name: String,
    /// Its port for the task, at the proxy's address.
    pub port: u16,
    /// Whether its requests are judged like those to any host; otherwise its connections pass
    /// unchanged.
    pub http: bool,
    /// The socket of the sandbox's relay, by its path for the proxy: see [`crate::RelayRequest`].
    pub socket: PathBuf,
}

/// The proxy's access to the internet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Upstream {
    /// The name server that the proxy queries once a request is permitted.
    pub dns: SocketAddr,
    /// Authorities that are trusted in addition to public ones, PEM, any number of certificates.
    #[serde(default)]
    pub extra_roots_pem: String,
    /// Networks that the address guard permits although they are not public.
    #[serde(default)]
    pub allow_addresses: Vec<IpNet>,
    /// The host's own addresses, which are refused even if they are public. Default none.
    #[serde(default)]
    pub host_addresses: Vec<Ipv4Addr>,
}

/// Limits on one task. Times are in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Concurrent connections; more are refused. Default 256.
    pub connections: usize,
    /// Concurrent requests; more get 503. Default 512.
    pub requests: usize,
    /// Bytes of a request head; more get 431. Default 64 KiB.
    pub head_bytes: usize,
    /// Headers of a request; more get 431. Default 200.
    pub headers: usize,
    /// Time limit for the first byte of a `ClientHello`, and for a complete request head. Default
    /// 10 s.
    pub head_timeout_ms: u64,
    /// A connection without a request in progress is closed after this long. Default 75 s.
    pub idle_timeout_ms: u64,
    /// Time limit for establishing the upstream connection, including TLS. Default 10 s.
    pub connect_timeout_ms: u64,
    /// Time limit for the upstream's response head. Default none: agents wait minutes for a model.
    pub response_timeout_ms: Option<u64>,
    /// Distinct leaf certificates kept; the least recently used is dropped. Default 1,024.
    pub leaf_certificates: usize,
    /// Upstream connections kept open and idle, over all hosts. Default 64.
    pub pooled_connections: usize,
    /// DNS queries a second; more are dropped and counted. Default 200.
    pub dns_queries_per_second: u32,
    /// How long a draining proxy waits for requests in progress. Default 2 s.
    pub drain_ms: u64,
    /// Maximum size in bytes of the records of permitted requests in the network log; a request
    /// that would exceed it is refused, so that none passes unrecorded. Default 64 MiB, which is
    /// more than 80,000 requests.
    pub log_bytes: u64,
    /// How long a request that no rule permits waits for an answer before it is refused. Default
    /// none: no questions.
    pub question_timeout_ms: Option<u64>,
    /// Concurrent questions; further requests are refused. Default 16.
    pub questions: usize,
    /// Questions a minute, with the same burst after a quiet minute; further requests are refused.
    /// Default 20.
    pub questions_per_minute: u32,
    /// How long the owner may be silent: then connections are cut and requests refused, until it
    /// sends again. Default none.
    pub owner_timeout_ms: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 256,
            requests: 512,
            head_bytes: 64 * 1024,
            headers: 200,
            head_timeout_ms: 10_000,
            idle_timeout_ms: 75_000,
            connect_timeout_ms: 10_000,
            response_timeout_ms: None,
            leaf_certificates: 1024,
            pooled_connections: 64,
            dns_queries_per_second: 200,
            drain_ms: 2_000,
            log_bytes: 64 << 20,
            question_timeout_ms: None,
            questions: 16,
            questions_per_minute: 20,
            owner_timeout_ms: None,
        }
    }
}

//! The document that starts a proxy.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use allowlist::Allowlist;
use ipnet::IpNet;
use sandbox_credentials::wire::ReplacementMap;
use serde::{Deserialize, Serialize};

use crate::{LineError, PrivateKeyPem, from_line};

/// What a proxy may send packets to, beside its task and public addresses: the program's second
/// argument, in JSON. It gives everything else up before it reads anything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reach {
    /// Its address on the task's network, which it reaches all of.
    pub listen: Ipv4Addr,
    /// As in [`Upstream`]; only this port of this address.
    pub dns: SocketAddr,
    /// As in [`Upstream`].
    pub allow_addresses: Vec<IpNet>,
    /// As in [`Upstream`].
    pub host_addresses: Vec<Ipv4Addr>,
}

impl Reach {
    /// What a proxy needs that listens at `listen` and has `upstream`.
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
        // Nothing in it can fail to be written.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// What the program's argument says.
    ///
    /// # Errors
    ///
    /// When it is not what [`Self::to_argument`] gives.
    pub fn from_argument(argument: &str) -> Result<Self, LineError> {
        from_line(argument.as_bytes())
    }
}

/// Everything a proxy needs to serve one task.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartConfig {
    /// [`crate::PROTOCOL_VERSION`] of the sandbox.
    pub protocol: u32,
    /// What the task may reach.
    pub policy: Allowlist,
    /// What takes the place of surrogates in requests. Default nothing.
    #[serde(default)]
    pub replacements: ReplacementMap,
    /// The authority that the proxy mints its leaf certificates with.
    pub authority: ProxyAuthority,
    /// Where the proxy listens.
    pub listen: Listen,
    /// How the proxy reaches the world.
    pub upstream: Upstream,
    /// Services of the host that the task reaches by name. Default none.
    #[serde(default)]
    pub services: Vec<HostService>,
    /// Bounds on what one task may use.
    #[serde(default)]
    pub limits: Limits,
}

/// An intermediate authority: path length 0, made for one task, valid for a day.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProxyAuthority {
    /// The intermediate certificate, PEM. It is sent to clients behind each leaf.
    pub certificate_pem: String,
    /// Its private key, PKCS#8 PEM.
    pub private_key_pem: PrivateKeyPem,
}

/// Where the proxy listens: the address it has on the task's network.
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
    /// What the task calls it: one label of a host name.
    pub name: String,
    /// Where the task finds it, at the proxy's address.
    pub port: u16,
    /// Whether its requests are judged like those to any host; else its connections pass as they
    /// are.
    pub http: bool,
    /// The socket of the sandbox's relay, as the proxy sees it: see [`crate::RelayRequest`].
    pub socket: PathBuf,
}

/// How the proxy reaches the world.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Upstream {
    /// The name server that the proxy asks, after the gate permitted a request.
    pub dns: SocketAddr,
    /// Authorities that are trusted beside the web's, PEM, any number of certificates.
    #[serde(default)]
    pub extra_roots_pem: String,
    /// Networks that the address guard lets pass although they are not public.
    #[serde(default)]
    pub allow_addresses: Vec<IpNet>,
    /// The host's own addresses, which are not reached even where they are public. Default none.
    #[serde(default)]
    pub host_addresses: Vec<Ipv4Addr>,
}

/// Bounds on what one task may use. Times are in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Connections open at once; more are refused. Default 256.
    pub connections: usize,
    /// Requests in progress at once; more get 503. Default 512.
    pub requests: usize,
    /// Bytes of a request head; more get 431. Default 64 KiB.
    pub head_bytes: usize,
    /// Headers of a request; more get 431. Default 200.
    pub headers: usize,
    /// Until the first byte of a `ClientHello`, and until a request head is complete. Default 10 s.
    pub head_timeout_ms: u64,
    /// A connection without a request in progress is closed after this long. Default 75 s.
    pub idle_timeout_ms: u64,
    /// Until the upstream connection is established, TLS included. Default 10 s.
    pub connect_timeout_ms: u64,
    /// Until the upstream's response head. Default none: agents wait minutes for a model.
    pub response_timeout_ms: Option<u64>,
    /// Distinct leaf certificates kept; the least recently used is dropped. Default 1,024.
    pub leaf_certificates: usize,
    /// Upstream connections kept open and idle, over all hosts. Default 64.
    pub pooled_connections: usize,
    /// DNS queries a second; more are dropped and counted. Default 200.
    pub dns_queries_per_second: u32,
    /// How long a draining proxy waits for requests in progress. Default 2 s.
    pub drain_ms: u64,
    /// Bytes that the records of permitted requests may come to in the network log; a request for
    /// which there is no room is refused, so that none passes unrecorded. Default 64 MiB, which is
    /// more than 80,000 requests.
    pub log_bytes: u64,
    /// How long a request that no rule permits waits for an answer, before that counts as no.
    /// Default none: nothing is asked.
    pub question_timeout_ms: Option<u64>,
    /// Questions that wait at once; what would be one more is refused. Default 16.
    pub questions: usize,
    /// Questions a minute, and as many at once after a quiet minute; what would be one more is
    /// refused. Default 20.
    pub questions_per_minute: u32,
    /// How long the owner may say nothing: then connections are cut and requests refused, until it
    /// speaks again. Default none.
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

//! The proxy's reports: one record per event.

use std::net::Ipv4Addr;

use allowlist::{Match, Scheme, VendorTool};
use serde::{Deserialize, Serialize};

use crate::BlockReason;

/// One event and the time of its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// The event.
    #[serde(flatten)]
    pub event: Event,
}

/// The event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[expect(clippy::large_enum_variant, reason = "nearly all events are requests")]
pub enum Event {
    /// The proxy began to serve.
    TaskStart,
    /// A DNS query was answered.
    Dns {
        /// The query's type: `A`, `AAAA`, or `TYPE65` for types without a name here.
        kind: String,
        /// The queried name as received, without the last dot; not escaped.
        name: String,
        /// The proxy's answer.
        answer: DnsAnswer,
    },
    /// A permitted request is still in progress after a second; its record follows when it ends.
    RequestOpen(OpenRequest),
    /// A request ended, with any outcome.
    Request(RequestRecord),
    /// A request that no rule permits is waiting for an answer; its record follows when it ends.
    Asked {
        /// The question's number, from 1 in each execution.
        question: u64,
        /// The request.
        request: OpenRequest,
    },
    /// A question is closed.
    Answered {
        /// As in [`Event::Asked`].
        question: u64,
        /// `None` if it no longer needs an answer: the client disconnected, or the policy now
        /// permits the request.
        verdict: Option<Verdict>,
        /// The source of the answer, as named by the owner; `time`, `client` or `policy` without an
        /// answer.
        by: String,
    },
    /// An upgraded connection (WebSocket) ended.
    Tunnel(TunnelRecord),
    /// A connection to a service of the host is still open after a second; its record follows when
    /// it ends.
    StreamOpen(OpenStream),
    /// A connection to a service of the host ended, or was refused.
    Stream(StreamRecord),
    /// A TLS connection was refused before there was a request.
    TlsRefused {
        /// The server name of the `ClientHello`, if any.
        server_name: Option<String>,
        /// The alert that was sent, by its name in RFC 8446, or another cause of the handshake's
        /// end.
        alert: String,
        /// The reason, if the proxy decided it.
        reason: Option<BlockReason>,
    },
    /// The task connected to an unserved port of the proxy, and was refused. At most once a second.
    PortRefused {
        /// The protocol.
        protocol: PortProtocol,
        /// The port.
        port: u16,
    },
    /// The task's total usage, at its end, if its policy has a budget.
    Traffic(Traffic),
    /// A limit of [`crate::Limits`] was reached.
    Limit {
        /// The limit's name: a field name of [`crate::Limits`].
        limit: String,
        /// Count since the last such record.
        count: u64,
    },
    /// The owner changed the state, or a temporary state expired.
    Policy {
        /// The change.
        change: PolicyChange,
        /// The new state.
        state: PolicyState,
        /// The end of [`PolicyState::Down`], in milliseconds since the Unix epoch.
        until_ms: Option<u64>,
    },
    /// A warning to the operator.
    Warning {
        /// One sentence, not escaped.
        text: String,
    },
}

/// The answer to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Only this request passes.
    Once,
    /// A rule is added that permits it, and other matching requests, until the execution ends.
    Run,
    /// The same; the caller also keeps the rule for later executions.
    Always,
    /// It is refused, like every later one for the same host and path.
    No,
}

/// The protocol of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PortProtocol {
    /// A connection.
    Tcp,
    /// A datagram.
    Udp,
}

/// A change of the policy's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyChange {
    /// A new policy replaced the last.
    Set,
    /// The owner took the shield down.
    Down,
    /// The owner put the shield up.
    Up,
    /// The shield went up again after its time down.
    Expired,
    /// The owner cut off the task.
    Quarantine,
    /// Real values of credentials were renewed; the policy is unchanged.
    Credentials,
}

/// The state that decides about requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyState {
    /// The policy.
    Up,
    /// Any public host may be reached.
    Down,
    /// No host may be reached, permanently.
    Quarantine,
}

/// The answer to a DNS query.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DnsAnswer {
    /// The proxy's own address.
    Address(Ipv4Addr),
    /// NOERROR without answers.
    Nodata,
    /// An opcode other than QUERY.
    Notimp,
    /// A malformed query.
    Formerr,
    /// A class other than IN.
    Refused,
}

/// The outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestOutcome {
    /// Permitted and answered by the upstream.
    Allowed,
    /// Refused by the policy or by a limit.
    Blocked,
    /// Permitted, but the upstream failed.
    Error,
}

/// A request from its head to its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestRecord {
    /// The outcome.
    pub decision: RequestOutcome,
    /// The method as received; not escaped.
    pub method: String,
    /// The scheme.
    pub scheme: Scheme,
    /// The host as received if it was readable, in canonical form if valid; not escaped.
    pub host: String,
    /// Path and query as received; not escaped.
    pub target: String,
    /// The status that the client received; `None` if it disconnected before.
    pub status: Option<u16>,
    /// The rule that permitted it.
    pub rule: Option<Match>,
    /// No rule permits it: it passed because the shield was down.
    #[serde(default, skip_serializing_if = "is_false")]
    pub shield_down: bool,
    /// The question whose answer decided it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<u64>,
    /// The reason for the refusal.
    pub reason: Option<BlockReason>,
    /// The ref because of which a push was refused, in its display form.
    #[serde(default, rename = "ref", skip_serializing_if = "Option::is_none")]
    pub ref_name: Option<String>,
    /// The upstream failure, for [`RequestOutcome::Error`].
    pub error: Option<String>,
    /// Surrogates that were replaced with real values.
    #[serde(default)]
    pub masked: u32,
    /// The names of the credentials that these represent, each once. They can be missing where the
    /// log is almost full.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub credentials: Vec<String>,
    /// Headers that were removed because they carried another party's credential.
    #[serde(default)]
    pub dropped: u32,
    /// Real values in the response that were replaced with their surrogates.
    #[serde(default)]
    pub scrubbed: u32,
    /// The region that the request was signed for.
    #[serde(default)]
    pub region: Option<String>,
    /// Vendor tools that were removed from its body, each kind once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<VendorTool>,
    /// The usage that a model's vendor reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
    /// Bytes of the request body sent to the upstream.
    pub bytes_up: u64,
    /// Bytes of the response body sent to the client.
    pub bytes_down: u64,
    /// Time from the request head to the response head.
    pub first_byte_ms: Option<u64>,
    /// Time from the request head to the end of the response body.
    pub duration_ms: u64,
}

/// The usage that a model's vendor reports for a response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// Input tokens, cached or not.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
}

/// A task's use of the network so far. Requests to services of the host do not count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Requests that were permitted.
    pub requests: u64,
    /// Bytes sent to upstreams: request bodies and WebSocket data.
    pub bytes_up: u64,
    /// Bytes received from upstreams, likewise.
    pub bytes_down: u64,
    /// The usage that vendors of models reported, as far as their responses were readable.
    pub tokens: Tokens,
}

/// A request that is in progress, or is waiting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenRequest {
    /// The method as received; not escaped.
    pub method: String,
    /// The scheme.
    pub scheme: Scheme,
    /// The host, canonical.
    pub host: String,
    /// Path and query as received; not escaped.
    pub target: String,
}

impl OpenRequest {
    /// Whether it is short enough to be shown in full, which questions require.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.method.len() <= 64 && self.host.len() <= 253 && self.target.len() <= 2048
    }
}

impl RequestRecord {
    /// The initial record of this request: blocked, without a status and counts.
    #[must_use]
    pub fn asked(method: String, scheme: Scheme, host: String, target: String) -> Self {
        Self {
            decision: RequestOutcome::Blocked,
            method,
            scheme,
            host,
            target,
            status: None,
            rule: None,
            shield_down: false,
            question: None,
            reason: None,
            ref_name: None,
            error: None,
            masked: 0,
            credentials: Vec::new(),
            dropped: 0,
            scrubbed: 0,
            region: None,
            removed: Vec::new(),
            tokens: None,
            bytes_up: 0,
            bytes_down: 0,
            first_byte_ms: None,
            duration_ms: 0,
        }
    }
}

/// An upgraded connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunnelRecord {
    /// The scheme.
    pub scheme: Scheme,
    /// Its host.
    pub host: String,
    /// Path and query of the request that opened it; not escaped.
    pub target: String,
    /// Bytes from the task.
    pub bytes_up: u64,
    /// Bytes to the task.
    pub bytes_down: u64,
    /// How long it was open.
    pub duration_ms: u64,
}

/// An open connection to a service of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenStream {
    /// The service's name.
    pub service: String,
    /// The port that the task connected to.
    pub port: u16,
}

/// A closed connection to a service of the host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamRecord {
    /// The outcome.
    pub decision: RequestOutcome,
    /// The service's name.
    pub service: String,
    /// The port that the task connected to.
    pub port: u16,
    /// The reason for the refusal.
    pub reason: Option<BlockReason>,
    /// The failure to reach the service, for [`RequestOutcome::Error`].
    pub error: Option<String>,
    /// Bytes from the task.
    pub bytes_up: u64,
    /// Bytes to the task.
    pub bytes_down: u64,
    /// How long it was open.
    pub duration_ms: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_false(flag: &bool) -> bool {
    !*flag
}

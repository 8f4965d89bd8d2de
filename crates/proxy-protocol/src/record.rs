//! What the proxy reports of its work: one record an event.

use std::net::Ipv4Addr;

use allowlist::{Match, Scheme, VendorTool};
use serde::{Deserialize, Serialize};

use crate::BlockReason;

/// One event and when it ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[expect(clippy::large_enum_variant, reason = "nearly all events are requests")]
pub enum Event {
    /// The proxy began to serve.
    TaskStart,
    /// A DNS query was answered.
    Dns {
        /// The query's type: `A`, `AAAA`, `TYPE65` where it has no name here.
        kind: String,
        /// The queried name as received, without the last dot; not escaped.
        name: String,
        /// What the proxy said.
        answer: DnsAnswer,
    },
    /// A permitted request is still in progress after a second; its record follows when it ends.
    RequestOpen(OpenRequest),
    /// A request ended, one way or the other.
    Request(RequestRecord),
    /// A request that no rule permits waits for an answer; its record follows when it ends.
    Asked {
        /// Counts from 1 in one execution.
        question: u64,
        /// What is asked for.
        request: OpenRequest,
    },
    /// A question is over.
    Answered {
        /// As in [`Event::Asked`].
        question: u64,
        /// `None` where it needs no answer any more: the client went away, or the policy permits
        /// the request by now.
        verdict: Option<Verdict>,
        /// Who gave it, in the owner's words; `time`, `client` or `policy` where no one did.
        by: String,
    },
    /// A connection that was upgraded (WebSocket) ended.
    Tunnel(TunnelRecord),
    /// A connection to a service of the host is still open after a second; its record follows when
    /// it ends.
    StreamOpen(OpenStream),
    /// A connection to a service of the host ended, or was refused.
    Stream(StreamRecord),
    /// A TLS connection was refused before there was a request.
    TlsRefused {
        /// The server name of the client's hello, if it had one.
        server_name: Option<String>,
        /// The alert that was sent, as RFC 8446 names it, or what else ended the handshake.
        alert: String,
        /// Why, where the proxy decided it.
        reason: Option<BlockReason>,
    },
    /// The task came to a port of the proxy's that nothing serves, and was refused. Once a second
    /// at most.
    PortRefused {
        /// What it spoke.
        protocol: PortProtocol,
        /// The port.
        port: u16,
    },
    /// What the task has used, where its policy has a budget: at its end.
    Traffic(Traffic),
    /// A limit of [`crate::Limits`] was reached.
    Limit {
        /// The limit's name: a field name of [`crate::Limits`].
        limit: String,
        /// How often since the last such record.
        count: u64,
    },
    /// The owner changed what is in force, or the time that it gave is over.
    Policy {
        /// What was done.
        change: PolicyChange,
        /// What is in force now.
        state: PolicyState,
        /// When [`PolicyState::Down`] ends by itself, in milliseconds since the Unix epoch.
        until_ms: Option<u64>,
    },
    /// Something an operator wants to know.
    Warning {
        /// One sentence, not escaped.
        text: String,
    },
}

/// The answer to a request that waits for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// This request passes, and no other.
    Once,
    /// A rule is added that permits it, and what else that rule permits.
    Always,
    /// It is refused, and so is every later one for the same host and path.
    No,
}

/// Whose port it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PortProtocol {
    /// A connection.
    Tcp,
    /// A datagram.
    Udp,
}

/// What was done about the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyChange {
    /// A new policy took the place of the last.
    Set,
    /// The shield was to go down.
    Down,
    /// The shield was to go up.
    Up,
    /// The shield went up by itself: its time down was over.
    Expired,
    /// The task was to be cut off.
    Quarantine,
    /// Real values of credentials were renewed; the policy stayed as it was.
    Credentials,
}

/// What decides about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyState {
    /// The policy.
    Up,
    /// Any public host may be asked.
    Down,
    /// Nothing may be asked, for good.
    Quarantine,
}

/// What a DNS query got.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DnsAnswer {
    /// The proxy's own address.
    Address(Ipv4Addr),
    /// NOERROR without answers.
    Nodata,
    /// An opcode other than QUERY.
    Notimp,
    /// A query that cannot be read.
    Formerr,
    /// A class other than IN.
    Refused,
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestOutcome {
    /// Permitted and answered by the upstream.
    Allowed,
    /// Refused by the gate or by a limit.
    Blocked,
    /// Permitted, but the upstream failed.
    Error,
}

/// A request from its head to its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestRecord {
    /// What became of it.
    pub decision: RequestOutcome,
    /// The method as received; not escaped.
    pub method: String,
    /// How it arrived.
    pub scheme: Scheme,
    /// The host as received where it could be read, canonical where it is good; not escaped.
    pub host: String,
    /// Path and query as received; not escaped.
    pub target: String,
    /// The status that the client got; `None` when the client went away before.
    pub status: Option<u16>,
    /// The rule that permitted it.
    pub rule: Option<Match>,
    /// No rule permits it: it passed because the shield was down.
    #[serde(default, skip_serializing_if = "is_false")]
    pub shield_down: bool,
    /// The question whose answer decided about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<u64>,
    /// Why it was refused.
    pub reason: Option<BlockReason>,
    /// The ref of a push because of which it was refused, as messages show it.
    #[serde(default, rename = "ref", skip_serializing_if = "Option::is_none")]
    pub ref_name: Option<String>,
    /// What failed upstream, for [`RequestOutcome::Error`].
    pub error: Option<String>,
    /// Surrogates that were replaced by real values.
    #[serde(default)]
    pub masked: u32,
    /// Headers that were removed because they carried another party's credential.
    #[serde(default)]
    pub dropped: u32,
    /// Real values that the upstream sent back and that were replaced by their surrogates.
    #[serde(default)]
    pub scrubbed: u32,
    /// The region that the request was signed for.
    #[serde(default)]
    pub region: Option<String>,
    /// Tools of a model's vendor that were removed from its body, each kind once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<VendorTool>,
    /// What a model's vendor reported that it took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
    /// Bytes of the request body that went to the upstream.
    pub bytes_up: u64,
    /// Bytes of the response body that went to the client.
    pub bytes_down: u64,
    /// From the request's head to the response's head.
    pub first_byte_ms: Option<u64>,
    /// From the request's head to the end of the response's body.
    pub duration_ms: u64,
}

/// What a model's vendor reports of a response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// Tokens that the model read, from a cache or not.
    pub input: u64,
    /// Tokens that it wrote.
    pub output: u64,
}

/// What a task has used of the network so far. What it asked of services of the host does not
/// count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Requests that were permitted.
    pub requests: u64,
    /// Bytes of their bodies, and what passed over a WebSocket, that went to upstreams.
    pub bytes_up: u64,
    /// Bytes that upstreams sent, likewise.
    pub bytes_down: u64,
    /// What vendors of models reported of their responses, as far as these could be read.
    pub tokens: Tokens,
}

/// A request that is in progress, or waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenRequest {
    /// The method as received; not escaped.
    pub method: String,
    /// How it arrived.
    pub scheme: Scheme,
    /// The host, canonical.
    pub host: String,
    /// Path and query as received; not escaped.
    pub target: String,
}

impl OpenRequest {
    /// Whether it is short enough to be shown in full: nothing else is asked about.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.method.len() <= 64 && self.host.len() <= 253 && self.target.len() <= 2048
    }
}

impl RequestRecord {
    /// A request of which only this is known: blocked, without a status, and nothing counted yet.
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
    /// How it arrived.
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

/// A connection to a service of the host that goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenStream {
    /// The service's name.
    pub service: String,
    /// The port that the task came to.
    pub port: u16,
}

/// A connection to a service of the host, from its beginning to its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamRecord {
    /// What became of it.
    pub decision: RequestOutcome,
    /// The service's name.
    pub service: String,
    /// The port that the task came to.
    pub port: u16,
    /// Why it was refused.
    pub reason: Option<BlockReason>,
    /// What failed on the way to the service, for [`RequestOutcome::Error`].
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

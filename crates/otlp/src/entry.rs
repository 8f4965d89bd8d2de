//! One entry of the network log: the closed list of what is exported of it.

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::logs::v1::{LogRecord, SeverityNumber};
use sandbox_network_log::LogEntry;
use sandbox_proxy_protocol::{Event, RequestOutcome};
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::message::attribute;

const METHOD: &str = "http.request.method";
/// The fields of an entry's JSON that are exported, and the names of their attributes; of two fields
/// of an attribute, an entry has one.
const FIELDS: [(&str, &str); 32] = [
    ("/decision", "sandbox.decision"),
    ("/reason", "sandbox.reason"),
    ("/method", METHOD),
    ("/request/method", METHOD),
    ("/scheme", "url.scheme"),
    ("/request/scheme", "url.scheme"),
    ("/host", "server.address"),
    ("/request/host", "server.address"),
    ("/server_name", "server.address"),
    ("/port", "server.port"),
    ("/status", "http.response.status_code"),
    ("/bytes_up", "sandbox.bytes_up"),
    ("/bytes_down", "sandbox.bytes_down"),
    ("/first_byte_ms", "sandbox.first_byte_ms"),
    ("/duration_ms", "sandbox.duration_ms"),
    ("/tokens/input", "gen_ai.usage.input_tokens"),
    ("/tokens/output", "gen_ai.usage.output_tokens"),
    ("/masked", "sandbox.masked"),
    ("/dropped", "sandbox.dropped"),
    ("/scrubbed", "sandbox.scrubbed"),
    ("/shield_down", "sandbox.shield_down"),
    ("/name", "dns.question.name"),
    ("/service", "sandbox.service"),
    ("/protocol", "network.transport"),
    ("/alert", "sandbox.tls_alert"),
    ("/limit", "sandbox.limit"),
    ("/count", "sandbox.count"),
    ("/change", "sandbox.policy_change"),
    ("/state", "sandbox.policy_state"),
    ("/question", "sandbox.question"),
    ("/verdict", "sandbox.verdict"),
    ("/repeated", "sandbox.repeated"),
];
/// The maximum length of a word in bytes: that of a host's name.
const LONGEST: usize = 253;

/// The time of an entry, in nanoseconds since the Unix epoch; 0, which means unknown, if it is not a
/// time.
pub(crate) fn nanoseconds(entry: &LogEntry) -> u64 {
    let time = OffsetDateTime::parse(&entry.time, &Rfc3339).ok();
    time.and_then(|time| u64::try_from(time.unix_timestamp_nanos()).ok()).unwrap_or_default()
}

/// The exported fields of an entry. Text that is not a plain word is left out.
pub(crate) fn attributes(entry: &LogEntry) -> Vec<KeyValue> {
    let Ok(json) = serde_json::to_value(entry) else { return Vec::new() };
    let exported = FIELDS.iter().filter_map(|(field, name)| match json.pointer(field)? {
        Value::String(text) if *name == METHOD => Some(attribute(name, method(text))),
        Value::String(text) if is_word(text) => Some(attribute(name, text.as_str())),
        Value::Number(number) => Some(attribute(name, number.as_i64().unwrap_or(i64::MAX))),
        Value::Bool(flag) => Some(attribute(name, *flag)),
        _ => None,
    });
    exported.collect()
}

/// Whether `text`, which a task may have written, is a host's name or a word like one.
fn is_word(text: &str) -> bool {
    (1..=LONGEST).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte))
}

/// A method by its conventional name.
pub(crate) fn method(method: &str) -> &str {
    match method {
        "CONNECT" | "DELETE" | "GET" | "HEAD" | "OPTIONS" | "PATCH" | "POST" | "PUT" | "QUERY" | "TRACE" => {
            method
        }
        _ => "_OTHER",
    }
}

/// The record of an entry, without its place in a trace.
pub(crate) fn record(entry: &LogEntry) -> LogRecord {
    let severity = match &entry.event {
        Event::Request(request) if request.decision == RequestOutcome::Error => SeverityNumber::Error,
        Event::Stream(stream) if stream.decision == RequestOutcome::Error => SeverityNumber::Error,
        Event::Limit { .. } | Event::Warning { .. } => SeverityNumber::Warn,
        _ if entry.blocked() => SeverityNumber::Warn,
        _ => SeverityNumber::Info,
    };
    let time = nanoseconds(entry);
    LogRecord {
        time_unix_nano: time,
        observed_time_unix_nano: time,
        severity_number: severity.into(),
        event_name: name(&entry.event).to_owned(),
        attributes: attributes(entry),
        ..LogRecord::default()
    }
}

fn name(event: &Event) -> &'static str {
    match event {
        Event::TaskStart => "sandbox.start",
        Event::Dns { .. } => "sandbox.dns",
        Event::RequestOpen(_) => "sandbox.request_open",
        Event::Request(_) => "sandbox.request",
        Event::Asked { .. } => "sandbox.asked",
        Event::Answered { .. } => "sandbox.answered",
        Event::Tunnel(_) => "sandbox.tunnel",
        Event::StreamOpen(_) => "sandbox.stream_open",
        Event::Stream(_) => "sandbox.stream",
        Event::TlsRefused { .. } => "sandbox.tls_refused",
        Event::PortRefused { .. } => "sandbox.port_refused",
        Event::Traffic(_) => "sandbox.traffic",
        Event::Limit { .. } => "sandbox.limit",
        Event::Policy { .. } => "sandbox.policy",
        Event::Warning { .. } => "sandbox.warning",
    }
}

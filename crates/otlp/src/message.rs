//! Bodies of OTLP requests, and the resource that they are about.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceResponse;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::resource::v1::Resource as ProtoResource;
use prost::Message as _;

/// A kind of telemetry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Entries of the network log.
    Logs,
    /// Spans.
    Traces,
    /// Metrics.
    Metrics,
}

impl Signal {
    /// The path of its endpoint, below the collector's URL.
    #[must_use]
    pub fn path(self) -> &'static str {
        match self {
            Self::Logs => "/v1/logs",
            Self::Traces => "/v1/traces",
            Self::Metrics => "/v1/metrics",
        }
    }
}

/// The number of records in a message that a collector refused, from the body of its successful
/// response.
#[must_use]
pub fn rejected(response: &[u8]) -> usize {
    // The responses to all signals have the same form.
    let response = ExportLogsServiceResponse::decode(response).unwrap_or_default();
    let rejected = response.partial_success.unwrap_or_default().rejected_log_records;
    usize::try_from(rejected).unwrap_or_default()
}

/// The body of one request to a collector, `application/x-protobuf`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// What it holds.
    pub signal: Signal,
    /// The number of log records, spans or metrics in it.
    pub records: usize,
    /// The body.
    pub body: Vec<u8>,
}

impl Message {
    pub(crate) fn new(signal: Signal, records: usize, request: &impl prost::Message) -> Self {
        Self { signal, records, body: request.encode_to_vec() }
    }
}

/// The source of telemetry: a service, and attributes that the operator gave it.
#[derive(Debug, Clone, PartialEq)]
pub struct Resource(Vec<KeyValue>);

impl Resource {
    /// The resource of the service `name`.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(Vec::new()).with("service.name", name).with("service.version", env!("CARGO_PKG_VERSION"))
    }

    /// The same, with an attribute that replaces one of the same name.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.0.retain(|attribute| attribute.key != name);
        self.0.push(attribute(name, value.to_owned()));
        self
    }

    pub(crate) fn proto(&self) -> ProtoResource {
        ProtoResource { attributes: self.0.clone(), ..ProtoResource::default() }
    }
}

/// The scope of everything.
pub(crate) fn scope() -> InstrumentationScope {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    InstrumentationScope { name: "sandbox".to_owned(), version, ..InstrumentationScope::default() }
}

pub(crate) fn attribute(name: &str, value: impl Into<Value>) -> KeyValue {
    let value = AnyValue { value: Some(value.into().0) };
    KeyValue { key: name.to_owned(), value: Some(value), ..KeyValue::default() }
}

/// The value of an attribute.
pub(crate) struct Value(any_value::Value);

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self(any_value::Value::StringValue(text))
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self(any_value::Value::IntValue(number))
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self(any_value::Value::BoolValue(flag))
    }
}

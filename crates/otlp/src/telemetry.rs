//! The telemetry of one run.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::metrics::v1::{ResourceMetrics, ScopeMetrics};
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use sandbox_network_log::LogEntry;
use sandbox_proxy_protocol::{Event, RequestOutcome};

use crate::context::TraceContext;
use crate::end::{NANOSECONDS, RunEnd};
use crate::entry;
use crate::message::{Message, Resource, Signal, attribute, scope};
use crate::metrics::Totals;

/// Maximum number of records in a message.
const CHUNK: usize = 500;

/// The telemetry of one run, from the entries of its network log in their order.
#[derive(Debug)]
pub struct Telemetry {
    run: String,
    resource: Resource,
    context: TraceContext,
    /// The number of spans so far.
    spans_made: u64,
    logs: Vec<LogRecord>,
    spans: Vec<Span>,
    totals: Totals,
}

impl Telemetry {
    /// The telemetry of the run with the id `run`, whose span is at `context`.
    #[must_use]
    pub fn new(run: &str, resource: Resource, context: TraceContext) -> Self {
        let (logs, spans) = (Vec::new(), Vec::new());
        let resource = resource.with("service.instance.id", run);
        Self { run: run.to_owned(), resource, context, spans_made: 0, logs, spans, totals: Totals::default() }
    }

    /// Counts an entry of the run's network log in its metrics only.
    pub fn count(&mut self, entry: &LogEntry) {
        self.totals.add(entry);
    }

    /// Adds an entry of the run's network log: a log record, and a span if it is the end of a request.
    pub fn push(&mut self, entry: &LogEntry) {
        self.count(entry);
        let mut record = entry::record(entry);
        record.attributes.push(self.run());
        record.trace_id = self.context.trace.to_vec();
        record.span_id = self.context.span.to_vec();
        record.flags = u32::from(self.context.is_sampled);
        if let Event::Request(request) = &entry.event
            && entry.repeated == 0
            && self.context.is_sampled
        {
            let id = self.next_id();
            record.span_id = id.to_vec();
            let took = request.duration_ms.saturating_mul(NANOSECONDS);
            self.spans.push(Span {
                span_id: id.to_vec(),
                parent_span_id: self.context.span.to_vec(),
                name: entry::method(&request.method).to_owned(),
                kind: SpanKind::Client.into(),
                start_time_unix_nano: record.time_unix_nano.saturating_sub(took),
                end_time_unix_nano: record.time_unix_nano,
                attributes: record.attributes.clone(),
                status: status(
                    request.decision != RequestOutcome::Allowed
                        || request.status.is_some_and(|code| code >= 400),
                ),
                ..self.span()
            });
        }
        self.logs.push(record);
    }

    /// The number of log records that [`take`](Self::take) returns.
    #[must_use]
    pub fn len(&self) -> usize {
        self.logs.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.logs.is_empty()
    }

    /// The log records and spans since the last call, at most 500 in each message.
    #[must_use]
    pub fn take(&mut self) -> Vec<Message> {
        let mut messages = Vec::new();
        for log_records in chunks(std::mem::take(&mut self.logs)) {
            let records = log_records.len();
            let scope_logs = vec![ScopeLogs { scope: Some(scope()), log_records, ..ScopeLogs::default() }];
            let resource = Some(self.resource.proto());
            let logs = ResourceLogs { resource, scope_logs, ..ResourceLogs::default() };
            let request = ExportLogsServiceRequest { resource_logs: vec![logs] };
            messages.push(Message::new(Signal::Logs, records, &request));
        }
        let spans = chunks(std::mem::take(&mut self.spans));
        messages.extend(spans.into_iter().map(|spans| self.traces(spans)));
        messages
    }

    /// The span and the metrics of the run, and what [`take`](Self::take) returns.
    #[must_use]
    pub fn end(mut self, end: &RunEnd) -> Vec<Message> {
        let mut attributes = vec![self.run(), attribute("process.exit.code", i64::from(end.exit_code))];
        if let Some(agent) = &end.agent {
            attributes.push(attribute("sandbox.agent", agent.name.as_str()));
            attributes.extend(agent.outcome.as_deref().map(|outcome| attribute("sandbox.outcome", outcome)));
            let turns = agent.turns.and_then(|turns| i64::try_from(turns).ok());
            attributes.extend(turns.map(|turns| attribute("sandbox.turns", turns)));
        }
        let span = Span {
            span_id: self.context.span.to_vec(),
            parent_span_id: self.context.parent.map(|parent| parent.to_vec()).unwrap_or_default(),
            name: if end.agent.is_some() { "sandbox agent" } else { "sandbox run" }.to_owned(),
            kind: SpanKind::Internal.into(),
            start_time_unix_nano: end.began(),
            end_time_unix_nano: end.ended(),
            attributes,
            status: status(end.exit_code != 0),
            ..self.span()
        };
        if self.context.is_sampled {
            self.spans.push(span);
        }
        let mut messages = self.take();
        let metrics = self.totals.metrics(end);
        let records = metrics.len();
        let scope_metrics = vec![ScopeMetrics { scope: Some(scope()), metrics, ..ScopeMetrics::default() }];
        let resource = Some(self.resource.proto());
        let metrics = ResourceMetrics { resource, scope_metrics, ..ResourceMetrics::default() };
        let request = ExportMetricsServiceRequest { resource_metrics: vec![metrics] };
        messages.push(Message::new(Signal::Metrics, records, &request));
        messages
    }

    fn traces(&self, spans: Vec<Span>) -> Message {
        let records = spans.len();
        let scope_spans = vec![ScopeSpans { scope: Some(scope()), spans, ..ScopeSpans::default() }];
        let spans =
            ResourceSpans { resource: Some(self.resource.proto()), scope_spans, ..ResourceSpans::default() };
        Message::new(Signal::Traces, records, &ExportTraceServiceRequest { resource_spans: vec![spans] })
    }

    fn run(&self) -> KeyValue {
        attribute("sandbox.run.id", self.run.as_str())
    }

    fn span(&self) -> Span {
        Span { trace_id: self.context.trace.to_vec(), flags: 1, ..Span::default() }
    }

    /// The id of a further span: that of the run plus a number that is never 0.
    fn next_id(&mut self) -> [u8; 8] {
        self.spans_made += 1;
        u64::from_be_bytes(self.context.span).wrapping_add(self.spans_made).to_be_bytes()
    }
}

/// Messages that collectors accept regardless of their limits.
fn chunks<T>(mut records: Vec<T>) -> Vec<Vec<T>> {
    let mut chunks = Vec::new();
    while !records.is_empty() {
        let rest = records.split_off(records.len().min(CHUNK));
        chunks.push(std::mem::replace(&mut records, rest));
    }
    chunks
}

fn status(is_error: bool) -> Option<Status> {
    is_error.then(|| Status { code: StatusCode::Error.into(), ..Status::default() })
}

#[cfg(test)]
mod tests;

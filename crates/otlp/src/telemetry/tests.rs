//! Decoded messages of runs.

use allowlist::Scheme;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{AggregationTemporality, Metric, number_data_point};
use proptest::prelude::*;
use prost::Message as _;
use sandbox_proxy_protocol::{RequestRecord, Tokens, TunnelRecord};
use serde_json::json;

use super::*;
use crate::end::AgentEnd;

const BEGAN: u64 = 1_770_122_096_000;

fn entry(event: &Event) -> LogEntry {
    let mut json = json!({"v": 1, "time": "2026-02-03T12:34:56.789Z"});
    let event = serde_json::to_value(event).unwrap();
    json.as_object_mut().unwrap().extend(event.as_object().unwrap().clone());
    LogEntry::parse(&json.to_string()).unwrap()
}

fn request() -> RequestRecord {
    let [method, host, target] = ["GET", "a.test", "/path?query"].map(str::to_owned);
    let mut request = RequestRecord::asked(method, Scheme::Https, host, target);
    request.decision = RequestOutcome::Allowed;
    (request.status, request.duration_ms, request.bytes_up) = (Some(200), 89, 3);
    request.tokens = Some(Tokens { input: 10, output: 20 });
    request
}

fn telemetry() -> Telemetry {
    let context = TraceContext::child("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", [7; 8]);
    let resource = Resource::new("sandbox").with("service.name", "nightly");
    Telemetry::new("run-1", resource, context.unwrap())
}

fn end(exit_code: u8) -> RunEnd {
    RunEnd { began_ms: BEGAN, ended_ms: BEGAN + 2500, exit_code, agent: None }
}

fn one(messages: &[Message], signal: Signal) -> &[u8] {
    &messages.iter().find(|message| message.signal == signal).expect("a message").body
}

fn logs(messages: &[Message]) -> Vec<LogRecord> {
    let request = ExportLogsServiceRequest::decode(one(messages, Signal::Logs)).unwrap();
    request.resource_logs[0].scope_logs[0].log_records.clone()
}

fn spans(messages: &[Message]) -> Vec<Span> {
    let request = ExportTraceServiceRequest::decode(one(messages, Signal::Traces)).unwrap();
    request.resource_spans[0].scope_spans[0].spans.clone()
}

fn metrics(messages: &[Message]) -> Vec<Metric> {
    let request = ExportMetricsServiceRequest::decode(one(messages, Signal::Metrics)).unwrap();
    request.resource_metrics[0].scope_metrics[0].metrics.clone()
}

fn values(attributes: &[KeyValue]) -> Vec<(&str, String)> {
    let text = |value: &KeyValue| match value.value.as_ref().unwrap().value.as_ref().unwrap() {
        Value::StringValue(text) => text.clone(),
        Value::IntValue(number) => number.to_string(),
        Value::BoolValue(flag) => flag.to_string(),
        other => panic!("{other:?}"),
    };
    attributes.iter().map(|attribute| (attribute.key.as_str(), text(attribute))).collect()
}

#[test]
fn request_is_a_log_record_and_a_span_below_that_of_its_run() {
    let mut telemetry = telemetry();
    telemetry.push(&entry(&Event::Request(request())));
    let messages = telemetry.take();
    let (record, span) = (&logs(&messages)[0], &spans(&messages)[0]);
    let expected = [
        ("sandbox.decision", "allowed"),
        ("http.request.method", "GET"),
        ("url.scheme", "https"),
        ("server.address", "a.test"),
        ("http.response.status_code", "200"),
        ("sandbox.bytes_up", "3"),
        ("sandbox.bytes_down", "0"),
        ("sandbox.duration_ms", "89"),
        ("gen_ai.usage.input_tokens", "10"),
        ("gen_ai.usage.output_tokens", "20"),
        ("sandbox.masked", "0"),
        ("sandbox.dropped", "0"),
        ("sandbox.scrubbed", "0"),
        ("sandbox.run.id", "run-1"),
    ]
    .map(|(name, value)| (name, value.to_owned()));
    assert_eq!(values(&record.attributes), expected);
    assert_eq!(record.event_name, "sandbox.request");
    assert_eq!(record.time_unix_nano, (BEGAN + 789) * 1_000_000);
    assert_eq!((&record.trace_id, &record.span_id), (&span.trace_id, &span.span_id));
    assert_eq!((span.name.as_str(), values(&span.attributes)), ("GET", expected.to_vec()));
    assert_eq!(span.parent_span_id, [7; 8]);
    assert_eq!(span.start_time_unix_nano, (BEGAN + 700) * 1_000_000);
    assert!(telemetry.is_empty() && telemetry.take().is_empty());

    let last = telemetry.end(&end(3));
    let run = &spans(&last)[0];
    assert_eq!((run.span_id.as_slice(), &run.trace_id), ([7; 8].as_slice(), &span.trace_id));
    assert_eq!(run.parent_span_id[..2], [0xb7, 0xad], "that of TRACEPARENT");
    assert_ne!(run.span_id, span.span_id);
    assert_eq!(run.status.as_ref().unwrap().code(), StatusCode::Error);
}

#[test]
fn metrics_of_a_run_add_up_its_requests() {
    let mut telemetry = telemetry();
    telemetry.push(&entry(&Event::Request(request())));
    let refused = RequestRecord { decision: RequestOutcome::Blocked, tokens: None, bytes_up: 0, ..request() };
    let mut folded = entry(&Event::Request(refused));
    folded.repeated = 990;
    telemetry.push(&folded);
    let tunnel = TunnelRecord {
        scheme: Scheme::Https,
        host: "a.test".to_owned(),
        target: "/".to_owned(),
        bytes_up: 4,
        bytes_down: 5,
        duration_ms: 6,
    };
    telemetry.push(&entry(&Event::Tunnel(tunnel)));
    assert_eq!(spans(&telemetry.take()).len(), 1, "none for requests that were counted only");
    let agent = AgentEnd { name: "claude".to_owned(), outcome: None, cost: Some(0.5), turns: Some(2) };
    let messages = telemetry.end(&RunEnd { agent: Some(agent), ..end(0) });
    let mut found = Vec::new();
    for metric in metrics(&messages) {
        match metric.data.as_ref().unwrap() {
            Data::Sum(sum) => {
                assert_eq!(sum.aggregation_temporality(), AggregationTemporality::Delta);
                for point in &sum.data_points {
                    let value = match point.value.unwrap() {
                        number_data_point::Value::AsInt(value) => value.to_string(),
                        number_data_point::Value::AsDouble(value) => value.to_string(),
                    };
                    found.push(format!("{} {} {value}", metric.name, values(&point.attributes)[0].1));
                }
            }
            Data::Histogram(histogram) => {
                let point = &histogram.data_points[0];
                assert_eq!((point.sum, point.bucket_counts.iter().sum::<u64>()), (Some(2.5), 1));
                assert_eq!(point.bucket_counts[1], 1, "from 1 to 5 s");
                assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
            }
            other => panic!("{other:?}"),
        }
    }
    let expected = [
        "sandbox.runs 0 1",
        "sandbox.requests allowed 1",
        "sandbox.requests blocked 990",
        "sandbox.requests error 0",
        "sandbox.network.io transmit 7",
        "sandbox.network.io receive 5",
        "sandbox.tokens input 10",
        "sandbox.tokens output 20",
        "sandbox.cost 0 0.5",
    ];
    assert_eq!(found, expected);
}

/// The series that a metric is in Prometheus, and the labels from its attributes, as the collector names
/// them.
fn in_prometheus(metric: &Metric) -> (Vec<String>, Vec<String>) {
    let unit = match metric.unit.as_str() {
        "By" => "_bytes",
        "s" => "_seconds",
        "USD" => "_USD",
        unit if unit.starts_with('{') => "",
        unit => panic!("{unit}"),
    };
    let (suffixes, attributes) = match metric.data.as_ref().unwrap() {
        Data::Sum(sum) if sum.is_monotonic => (vec!["_total"], &sum.data_points[0].attributes),
        Data::Histogram(histogram) => {
            (vec!["_bucket", "_count", "_sum"], &histogram.data_points[0].attributes)
        }
        other => panic!("{other:?}"),
    };
    let name = metric.name.replace('.', "_");
    let series = suffixes.iter().map(|suffix| format!("{name}{unit}{suffix}")).collect();
    (series, values(attributes).iter().map(|(name, _)| name.replace('.', "_")).collect())
}

#[test]
fn dashboard_has_every_metric_and_no_name_that_is_not_sent() {
    let mut telemetry = telemetry();
    telemetry.push(&entry(&Event::Request(request())));
    let agent = AgentEnd { name: "claude".to_owned(), outcome: None, cost: Some(0.5), turns: None };
    let messages = telemetry.end(&RunEnd { agent: Some(agent), ..end(0) });
    let sent: Vec<_> = metrics(&messages).iter().map(in_prometheus).collect();

    let dashboard = include_str!("../../../../docs/grafana-dashboard.json");
    let dashboard: serde_json::Value = serde_json::from_str(dashboard).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let mut queries: Vec<String> = panels
        .flat_map(|panel| panel["targets"].as_array().unwrap())
        .map(|target| format!("{} {}", target["expr"], target["legendFormat"]))
        .collect();
    let variables = dashboard["templating"]["list"].as_array().unwrap().iter();
    queries.extend(variables.map(|variable| variable["definition"].to_string()));

    let mut seen = vec![false; sent.len()];
    for query in &queries {
        let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        // All names have underscores. Those of Grafana's variables begin with two.
        let names: Vec<&str> = words.filter(|word| word.contains('_') && !word.starts_with("__")).collect();
        let has = |list: &[String], name: &str| list.iter().any(|item| item == name);
        let used = |(series, _): &(Vec<String>, Vec<String>)| names.iter().any(|name| has(series, name));
        for name in &names {
            let is_sent =
                sent.iter().any(|metric| used(metric) && (has(&metric.0, name) || has(&metric.1, name)));
            let is_function = ["histogram_quantile", "label_replace", "label_values"].contains(name);
            assert!(is_sent || is_function, "{name} in {query}");
        }
        sent.iter().zip(&mut seen).for_each(|(metric, seen)| *seen |= used(metric));
    }
    assert!(seen.iter().all(|seen| *seen), "{seen:?} of {sent:?}");
}

/// The bodies of all messages for `event`.
fn exported(event: &Event) -> Vec<u8> {
    let mut telemetry = telemetry();
    telemetry.push(&entry(event));
    telemetry.end(&end(0)).into_iter().flat_map(|message| message.body).collect()
}

#[test]
fn many_records_are_several_messages() {
    let mut telemetry = telemetry();
    (0..1001).for_each(|_| telemetry.push(&entry(&Event::Request(request()))));
    let counts: Vec<_> = telemetry.take().iter().map(|message| message.records).collect();
    assert_eq!(counts, [500, 500, 1, 500, 500, 1]);
}

#[test]
fn cost_that_no_run_has_is_not_a_metric() {
    for (cost, is_good) in [(0.5, true), (0.0, false), (-5.0, false), (1e308, false), (f64::NAN, false)] {
        let agent = AgentEnd { name: "claude".to_owned(), outcome: None, cost: Some(cost), turns: None };
        let messages = telemetry().end(&RunEnd { agent: Some(agent), ..end(0) });
        assert_eq!(has(one(&messages, Signal::Metrics), "sandbox.cost"), is_good, "{cost}");
    }
}

#[test]
fn run_below_a_span_that_is_not_sampled_has_no_spans() {
    let unsampled = TraceContext::child("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", [7; 8]);
    let mut telemetry = Telemetry::new("run-1", Resource::new("sandbox"), unsampled.unwrap());
    telemetry.push(&entry(&Event::Request(request())));
    let signals: Vec<_> = telemetry.end(&end(0)).iter().map(|message| message.signal).collect();
    assert_eq!(signals, [Signal::Logs, Signal::Metrics]);
}

#[test]
fn rejected_records_are_read_from_a_response() {
    assert_eq!(crate::rejected(b""), 0);
    assert_eq!(crate::rejected(&[0x0a, 2, 0x08, 7]), 7);
    assert_eq!(crate::rejected(b"nonsense"), 0);
}

fn has(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn field_outside_the_list_is_not_exported() {
    const MARK: &str = "marked-word";
    let all = RequestRecord {
        target: format!("/{MARK}?{MARK}"),
        error: Some(MARK.to_owned()),
        ref_name: Some(MARK.to_owned()),
        credentials: vec![MARK.to_owned()],
        region: Some(MARK.to_owned()),
        ..request()
    };
    assert!(!has(&exported(&Event::Request(all.clone())), MARK));
    assert!(!has(&exported(&Event::Warning { text: MARK.to_owned() }), MARK));
    let bytes = exported(&Event::Request(RequestRecord { method: MARK.to_owned(), ..request() }));
    assert!(!has(&bytes, MARK) && has(&bytes, "_OTHER"), "a method that is not known");

    // The control: a field of the list is.
    assert!(has(&exported(&Event::Request(RequestRecord { host: MARK.to_owned(), ..all })), MARK));
}

proptest! {
    #[test]
    fn text_that_is_not_a_word_is_not_exported(text in "\\PC*[^a-zA-Z0-9.\\-_:\\[\\]]\\PC*") {
        let whole = RequestRecord { host: format!("mark{text}mark"), ..request() };
        let bytes = exported(&Event::Request(whole));
        prop_assert!(!has(&bytes, "mark"));
        let name = Event::Dns {
            kind: "A".to_owned(),
            name: format!("mark{text}mark"),
            answer: sandbox_proxy_protocol::DnsAnswer::Nodata,
        };
        prop_assert!(!has(&exported(&name), "mark"));
    }
}

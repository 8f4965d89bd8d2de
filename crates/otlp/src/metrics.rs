//! The metrics of a run.

use std::time::Duration;

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Histogram, HistogramDataPoint, Metric, NumberDataPoint, Sum, number_data_point,
};
use sandbox_network_log::LogEntry;
use sandbox_proxy_protocol::{Event, RequestOutcome};

use crate::end::RunEnd;
use crate::message::attribute;

/// The bounds of durations, in seconds.
const SECONDS: [f64; 10] = [1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 1800.0, 3600.0, 10_800.0, 36_000.0];

/// A cost in US dollars that no run has.
const MOST_COST: f64 = 1e6;

/// What the requests of a run add up to.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Totals {
    allowed: u64,
    blocked: u64,
    failed: u64,
    up: u64,
    down: u64,
    input: u64,
    output: u64,
}

impl Totals {
    pub(crate) fn add(&mut self, entry: &LogEntry) {
        match &entry.event {
            Event::Request(request) => {
                let times = entry.repeated.max(1);
                let count = match request.decision {
                    RequestOutcome::Allowed => &mut self.allowed,
                    RequestOutcome::Blocked => &mut self.blocked,
                    RequestOutcome::Error => &mut self.failed,
                };
                *count = count.saturating_add(times);
                let tokens = request.tokens.unwrap_or_default();
                self.input = self.input.saturating_add(tokens.input);
                self.output = self.output.saturating_add(tokens.output);
                self.moved(request.bytes_up, request.bytes_down);
            }
            Event::Tunnel(tunnel) => self.moved(tunnel.bytes_up, tunnel.bytes_down),
            _ => {}
        }
    }

    fn moved(&mut self, up: u64, down: u64) {
        self.up = self.up.saturating_add(up);
        self.down = self.down.saturating_add(down);
    }

    /// The metrics of a run with these totals.
    pub(crate) fn metrics(&self, end: &RunEnd) -> Vec<Metric> {
        let of_run = || {
            let mut attributes = vec![attribute("process.exit.code", i64::from(end.exit_code))];
            attributes
                .extend(end.agent.as_ref().map(|agent| attribute("sandbox.agent", agent.name.as_str())));
            attributes
        };
        let count = |value: u64, name: &str, word: &str| {
            let value = number_data_point::Value::AsInt(i64::try_from(value).unwrap_or(i64::MAX));
            (value, vec![attribute(name, word)])
        };
        let mut metrics = vec![
            sum(end, "sandbox.runs", "{run}", vec![(number_data_point::Value::AsInt(1), of_run())]),
            duration(end, of_run()),
            sum(
                end,
                "sandbox.requests",
                "{request}",
                vec![
                    count(self.allowed, "sandbox.decision", "allowed"),
                    count(self.blocked, "sandbox.decision", "blocked"),
                    count(self.failed, "sandbox.decision", "error"),
                ],
            ),
            sum(
                end,
                "sandbox.network.io",
                "By",
                vec![
                    count(self.up, "network.io.direction", "transmit"),
                    count(self.down, "network.io.direction", "receive"),
                ],
            ),
        ];
        // They are unknown, rather than none, if the policy has no budget.
        if self.input > 0 || self.output > 0 {
            let points = vec![
                count(self.input, "gen_ai.token.type", "input"),
                count(self.output, "gen_ai.token.type", "output"),
            ];
            metrics.push(sum(end, "sandbox.tokens", "{token}", points));
        }
        // The agent states it, so it can be anything.
        let cost =
            end.agent.as_ref().and_then(|agent| agent.cost).filter(|cost| *cost > 0.0 && *cost < MOST_COST);
        metrics.extend(cost.map(|cost| {
            let points = vec![(number_data_point::Value::AsDouble(cost), of_run())];
            sum(end, "sandbox.cost", "USD", points)
        }));
        metrics
    }
}

/// A counter of this run alone.
fn sum(
    end: &RunEnd,
    name: &str,
    unit: &str,
    points: Vec<(number_data_point::Value, Vec<KeyValue>)>,
) -> Metric {
    let data_points = points.into_iter().map(|(value, attributes)| NumberDataPoint {
        attributes,
        start_time_unix_nano: end.began(),
        time_unix_nano: end.ended(),
        value: Some(value),
        ..NumberDataPoint::default()
    });
    let aggregation_temporality = AggregationTemporality::Delta.into();
    let sum = Sum { data_points: data_points.collect(), aggregation_temporality, is_monotonic: true };
    metric(name, unit, Data::Sum(sum))
}

fn duration(end: &RunEnd, attributes: Vec<KeyValue>) -> Metric {
    let seconds = Duration::from_millis(end.ended_ms.saturating_sub(end.began_ms)).as_secs_f64();
    let bucket = SECONDS.iter().take_while(|bound| seconds > **bound).count();
    let point = HistogramDataPoint {
        attributes,
        start_time_unix_nano: end.began(),
        time_unix_nano: end.ended(),
        count: 1,
        sum: Some(seconds),
        bucket_counts: (0..=SECONDS.len()).map(|at| u64::from(at == bucket)).collect(),
        explicit_bounds: SECONDS.to_vec(),
        ..HistogramDataPoint::default()
    };
    let aggregation_temporality = AggregationTemporality::Delta.into();
    let histogram = Histogram { data_points: vec![point], aggregation_temporality };
    metric("sandbox.run.duration", "s", Data::Histogram(histogram))
}

fn metric(name: &str, unit: &str, data: Data) -> Metric {
    Metric { name: name.to_owned(), unit: unit.to_owned(), data: Some(data), ..Metric::default() }
}

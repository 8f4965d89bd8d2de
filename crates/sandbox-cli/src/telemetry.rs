//! The telemetry of a run, sent to the collector that OpenTelemetry's own variables name.

use std::path::Path;
use std::str::FromStr as _;
use std::time::Duration;

use futures_util::future::join_all;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use percent_encoding::percent_decode_str;
use sandbox::network::{LogEntry, LogFollower, NetworkLog};
use sandbox_https::{is_confidential, post};
use sandbox_otlp::{AgentEnd, Message, Resource, RunEnd, Signal, Telemetry, TraceContext, rejected};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use crate::config::Environment;
use crate::exit_status::ExitStatus;
use crate::printer::Printer;
use crate::run_record::{RunRecord, now_ms};

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";
const ATTRIBUTES: &str = "OTEL_RESOURCE_ATTRIBUTES";
/// The only protocol.
const PROTOBUF: &str = "http/protobuf";
/// The signals, and their names in variables.
const SIGNALS: [(Signal, &str); 3] =
    [(Signal::Traces, "TRACES"), (Signal::Metrics, "METRICS"), (Signal::Logs, "LOGS")];

/// Maximum size of a batch of entries, and its delay.
const BATCH: usize = 500;
const DELAY: Duration = Duration::from_secs(5);
/// Maximum number of entries that are sent when the run has ended.
const LAST: usize = 5000;
/// Time limit of one message.
const LIMIT: Duration = Duration::from_secs(5);

/// The collector, and how this process describes itself to it.
#[derive(Debug, Clone)]
pub(crate) struct Collector {
    /// Without a slash at its end.
    url: String,
    /// Scheme, host and port, for messages: a path can hold a key.
    name: String,
    /// They can hold a key; `Debug` does not show their values.
    headers: HeaderMap,
    signals: Vec<Signal>,
    resource: Resource,
    context: TraceContext,
}

impl Collector {
    /// The collector that the variables name. Invalid variables are reported, and there is no
    /// telemetry.
    pub(crate) fn of(environment: &Environment, printer: Printer) -> Option<Self> {
        let url = environment.text(ENDPOINT)?;
        if environment.text("OTEL_SDK_DISABLED").is_some_and(|text| text.eq_ignore_ascii_case("true")) {
            return None;
        }
        let disabled = |problem| printer.warning(format_args!("telemetry is disabled: {problem}"));
        Self::at(url, environment, printer).map_err(disabled).ok()
    }

    fn at(url: &str, environment: &Environment, printer: Printer) -> Result<Self, String> {
        let url = url.trim_end_matches('/');
        let is_good = |uri: &Uri| {
            let is_plain = uri.authority().is_some_and(|authority| !authority.as_str().contains('@'));
            is_plain && uri.query().is_none() && matches!(uri.scheme_str(), Some("http" | "https"))
        };
        let uri = Uri::from_str(url).ok().filter(is_good);
        let uri = uri.ok_or_else(|| format!("{ENDPOINT} is not a valid URL: write `http://HOST:4318`"))?;
        let mut headers = HeaderMap::new();
        for (name, value) in pairs(HEADERS, environment)? {
            let name = HeaderName::from_str(&name).ok();
            let value = HeaderValue::from_str(&value).ok();
            let (Some(name), Some(mut value)) = (name, value) else {
                return Err(format!("{HEADERS} has a header that is not valid"));
            };
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        if !headers.is_empty() && !is_confidential(&uri) {
            return Err(format!("others could read {HEADERS}: use https in {ENDPOINT}, or 127.0.0.1"));
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        let attributes = pairs(ATTRIBUTES, environment).unwrap_or_else(|problem| {
            printer.warning(format_args!("attributes of telemetry are left out: {problem}"));
            Vec::new()
        });
        let mut resource = Resource::new("sandbox");
        for (name, value) in attributes {
            resource = resource.with(&name, &value);
        }
        if let Some(name) = environment.text("OTEL_SERVICE_NAME") {
            resource = resource.with("service.name", name);
        }
        let span = rand::random();
        let parent = environment.text("TRACEPARENT");
        // As the specification asks: an invalid parent is none.
        let child = parent.and_then(|parent| TraceContext::child(parent, span));
        let context = child.unwrap_or_else(|| TraceContext::root(rand::random(), span));
        let name = format!(
            "{}://{}",
            uri.scheme_str().unwrap_or_default(),
            uri.authority().map_or("", |at| at.as_str())
        );
        Ok(Self { url: url.to_owned(), name, headers, signals: signals(environment)?, resource, context })
    }

    /// Sends messages at the same time. Returns the number of records that the collector does not have,
    /// and the reason.
    async fn send(&self, mut messages: Vec<Message>) -> Lost {
        messages.retain(|message| self.signals.contains(&message.signal));
        let sent = join_all(messages.into_iter().map(|message| self.send_one(message))).await;
        sent.into_iter().fold(Lost::default(), Lost::and)
    }

    async fn send_one(&self, Message { signal, records, body }: Message) -> Lost {
        let uri = match Uri::from_str(&format!("{}{}", self.url, signal.path())) {
            Ok(uri) => uri,
            Err(error) => return Lost::new(records, error.to_string()),
        };
        match post(&uri, self.headers.clone(), body.into(), LIMIT).await {
            Ok((status, body)) if status.is_success() => {
                Lost::new(rejected(&body).min(records), "it rejected them".to_owned())
            }
            Ok((status, _)) => Lost::new(records, format!("status {status}")),
            Err(error) => Lost::new(records, error.to_string()),
        }
    }
}

/// The signals that are sent. Settings of a single signal are not supported, except that there is none.
fn signals(environment: &Environment) -> Result<Vec<Signal>, String> {
    let parts = [String::new()].into_iter().chain(SIGNALS.iter().map(|(_, name)| format!("{name}_")));
    for (at, part) in parts.enumerate() {
        let protocol = format!("OTEL_EXPORTER_OTLP_{part}PROTOCOL");
        if let Some(other) = environment.text(&protocol).filter(|protocol| *protocol != PROTOBUF) {
            return Err(format!("{protocol} is `{}`, not `{PROTOBUF}`", other.escape_debug()));
        }
        let own = ["ENDPOINT", "HEADERS"].map(|setting| format!("OTEL_EXPORTER_OTLP_{part}{setting}"));
        if let Some(own) = own.iter().find(|own| at > 0 && environment.text(own).is_some()) {
            return Err(format!("{own} is not supported"));
        }
    }
    let is_sent = |name: &str| {
        let exporter = environment.text(&format!("OTEL_{name}_EXPORTER"));
        exporter.is_none_or(|exporter| exporter.split(',').any(|exporter| exporter.trim() == "otlp"))
    };
    Ok(SIGNALS.iter().filter(|(_, name)| is_sent(name)).map(|(signal, _)| *signal).collect())
}

/// The entries `name=value` of a variable, decoded.
fn pairs(variable: &str, environment: &Environment) -> Result<Vec<(String, String)>, String> {
    let text = environment.text(variable).unwrap_or_default();
    let decoded = |text: &str| Some(percent_decode_str(text.trim()).decode_utf8().ok()?.into_owned());
    let pair = |text: &str| {
        let (name, value) = text.split_once('=')?;
        Some((decoded(name).filter(|name| !name.is_empty())?, decoded(value)?))
    };
    let parts = text.split(',').filter(|part| !part.trim().is_empty());
    let pairs = parts.map(|part| pair(part).ok_or_else(|| format!("{variable} is not `name=value,…`")));
    pairs.collect()
}

/// The number of records that a collector does not have, and the last reason.
#[derive(Debug, Default)]
struct Lost {
    records: usize,
    problem: String,
}

impl Lost {
    fn new(records: usize, problem: String) -> Self {
        Self { records, problem }
    }

    fn and(self, other: Self) -> Self {
        let problem = if other.records > 0 { other.problem } else { self.problem };
        Self { records: self.records.saturating_add(other.records), problem }
    }
}

/// The telemetry of a run that is being sent.
#[derive(Debug)]
pub(crate) struct Export {
    began_ms: u64,
    collector: Collector,
    end: watch::Sender<bool>,
    task: JoinHandle<(Telemetry, Lost)>,
}

impl Export {
    /// Sends the network log in `folder`, of the run with the id `run`, as it grows. Without it, a run
    /// continues with a warning.
    pub(crate) fn start(collector: &Collector, folder: &Path, run: &str, printer: Printer) -> Option<Self> {
        let follower = NetworkLog::new(folder).follow_json();
        let failed =
            |error| printer.warning(format_args!("telemetry is disabled: failed to follow the log: {error}"));
        let follower = follower.map_err(failed).ok()?;
        let (end, mut ended) = watch::channel(false);
        let is_ended = ended.clone();
        let follower = follower.until(async move { drop(ended.wait_for(|ended| *ended).await) });
        let telemetry = Telemetry::new(run, collector.resource.clone(), collector.context);
        let task = tokio::spawn(follow(follower, is_ended, collector.clone(), telemetry));
        Some(Self { began_ms: now_ms(), collector: collector.clone(), end, task })
    }

    /// Sends the rest, and the end of the run, whose record is missing if it never executed.
    pub(crate) async fn finish(self, status: ExitStatus, record: Option<&RunRecord>, printer: Printer) {
        let Self { began_ms, collector, end, task } = self;
        let ended_ms = now_ms();
        end.send_replace(true);
        let (telemetry, lost) = match task.await {
            Ok(sent) => sent,
            Err(error) => return printer.warning(format_args!("telemetry was not sent: {error}")),
        };
        let agent = record.and_then(|record| record.session.as_ref()).map(|session| AgentEnd {
            name: session.agent.clone(),
            outcome: session.outcome.clone(),
            cost: session.cost,
            turns: session.turns,
        });
        let end = RunEnd { began_ms, ended_ms, exit_code: status.code(), agent };
        let lost = lost.and(collector.send(telemetry.end(&end)).await);
        if lost.records > 0 {
            let Lost { records, problem } = lost;
            let name = collector.name;
            printer.warning(format_args!("{records} telemetry records were not sent to {name}: {problem}"));
        }
    }
}

/// Sends the entries of a log in batches. After the end they are only collected, and beyond [`LAST`] of
/// them only counted.
async fn follow(
    mut follower: LogFollower,
    ended: watch::Receiver<bool>,
    collector: Collector,
    mut telemetry: Telemetry,
) -> (Telemetry, Lost) {
    let mut lost = Lost::default();
    let mut due: Option<Instant> = None;
    // When the rest of the log is given up, once the run has ended.
    let mut given_up: Option<Instant> = None;
    loop {
        if *ended.borrow() && *given_up.get_or_insert_with(|| Instant::now() + LIMIT) <= Instant::now() {
            return (
                telemetry,
                lost.and(Lost::new(1, "the rest of the log was not read in time".to_owned())),
            );
        }
        // A log that is read without waiting must not keep a signal from being seen.
        tokio::task::consume_budget().await;
        let line = match due {
            Some(due) => timeout_at(due, follower.next_line()).await,
            None => Ok(follower.next_line().await),
        };
        match line {
            Ok(Ok(Some(line))) => match LogEntry::parse(&line) {
                Ok(entry) if telemetry.len() < LAST => telemetry.push(&entry),
                Ok(entry) => {
                    telemetry.count(&entry);
                    lost = lost.and(Lost::new(1, format!("more than {LAST} at the end of the run")));
                }
                Err(error) => lost = lost.and(Lost::new(1, error.to_string())),
            },
            Ok(Ok(None)) => return (telemetry, lost),
            Ok(Err(error)) => {
                return (telemetry, lost.and(Lost::new(1, format!("failed to read the log: {error}"))));
            }
            Err(_) => {}
        }
        if *ended.borrow() {
            due = None;
        } else if telemetry.len() >= BATCH || due.is_some_and(|due| due <= Instant::now()) {
            lost = lost.and(collector.send(telemetry.take()).await);
            due = None;
        } else if !telemetry.is_empty() {
            due = due.or_else(|| Some(Instant::now() + DELAY));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(variables: &[(&str, &str)]) -> Result<Collector, String> {
        let environment: Environment = variables.iter().copied().collect();
        Collector::at(environment.text(ENDPOINT).unwrap(), &environment, Printer::new(0, true))
    }

    #[test]
    fn collector_is_described_by_its_variables() {
        let collector = at(&[
            (ENDPOINT, "https://collector.test/otlp/"),
            (HEADERS, "api-key=a%20b, x-scope=c"),
            (ATTRIBUTES, "te%2Cam=core,service.name=other"),
            ("OTEL_LOGS_EXPORTER", "none"),
            ("OTEL_SERVICE_NAME", "nightly"),
            ("TRACEPARENT", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ])
        .unwrap();
        assert_eq!(collector.url, "https://collector.test/otlp");
        assert_eq!(collector.headers["api-key"], "a b");
        assert_eq!(collector.headers["x-scope"], "c");
        let expected = Resource::new("nightly").with("te,am", "core").with("service.name", "nightly");
        assert_eq!(collector.resource, expected);
        assert!(!format!("{collector:?}").contains("a b"), "{collector:?}");
        assert_eq!((collector.name.as_str(), collector.signals.len()), ("https://collector.test", 2));
        assert!(Collector::of(&Environment::from_iter([]), Printer::new(0, true)).is_none());
        let disabled = Environment::from_iter([(ENDPOINT, "http://a.test"), ("OTEL_SDK_DISABLED", "true")]);
        assert!(Collector::of(&disabled, Printer::new(0, true)).is_none());
    }

    #[test]
    fn invalid_variables_are_refused() {
        for (variables, problem) in [
            (&[(ENDPOINT, "collector:4318")] as &[(&str, &str)], "is not a valid URL"),
            (&[(ENDPOINT, "https://user:key@collector.test")], "is not a valid URL"),
            (&[(ENDPOINT, "https://collector.test/?key=x")], "is not a valid URL"),
            (
                &[(ENDPOINT, "http://a.test:4317"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")],
                "is `grpc`, not `http/protobuf`",
            ),
            (
                &[(ENDPOINT, "http://a.test"), ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "x")],
                "LOGS_ENDPOINT is not supported",
            ),
            (&[(ENDPOINT, "http://a.test:4318"), (HEADERS, "api-key=x")], "others could read"),
            (&[(ENDPOINT, "https://a.test"), (HEADERS, "x")], "is not `name=value"),
            (&[(ENDPOINT, "https://a.test"), (HEADERS, "=x")], "is not `name=value"),
            (&[(ENDPOINT, "https://a.test"), (HEADERS, "a b=x")], "a header that is not valid"),
        ] {
            let refused = at(variables).unwrap_err();
            assert!(refused.contains(problem), "{variables:?}: {refused}");
        }
        at(&[(ENDPOINT, "http://a.test:4318")]).unwrap();
        at(&[(ENDPOINT, "http://127.0.0.1:4318"), (HEADERS, "api-key=x")]).unwrap();
        assert_eq!(
            at(&[(ENDPOINT, "http://a.test"), (ATTRIBUTES, "x")]).unwrap().resource,
            Resource::new("sandbox")
        );
    }
}

//! The telemetry of a run, sent to the collector that OpenTelemetry's own variables name.

use std::path::Path;
use std::str::FromStr as _;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use percent_encoding::percent_decode_str;
use sandbox::network::{LogEntry, LogFollower, NetworkLog};
use sandbox_https::{is_private, post};
use sandbox_otlp::{AgentEnd, Message, Resource, RunEnd, Telemetry, TraceContext};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use crate::config::Environment;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::run_record::RunRecord;

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";
const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";
/// The protocol that is spoken.
const PROTOBUF: &str = "http/protobuf";

/// Entries are sent together: so many, or those of so much time.
const MOST: usize = 500;
const DELAY: Duration = Duration::from_secs(5);
/// Time limit of one message, and of everything that is left when the run has ended.
const LIMIT: Duration = Duration::from_secs(5);

/// The collector, and what it is told about this process.
#[derive(Debug, Clone)]
pub(crate) struct Collector {
    /// Without a slash at its end.
    url: String,
    /// They can hold a key; `Debug` does not show their values.
    headers: HeaderMap,
    resource: Resource,
    context: TraceContext,
}

impl Collector {
    /// The collector that the variables name. Variables that cannot be followed are reported, and there
    /// is no telemetry.
    pub(crate) fn of(environment: &Environment, printer: Printer) -> Option<Self> {
        let url = environment.text(ENDPOINT)?;
        if environment.text("OTEL_SDK_DISABLED").is_some_and(|text| text.eq_ignore_ascii_case("true")) {
            return None;
        }
        let collector = Self::at(url, environment);
        collector.map_err(|problem| printer.warning(format_args!("no telemetry is sent: {problem}"))).ok()
    }

    fn at(url: &str, environment: &Environment) -> Result<Self, String> {
        let protocol = environment.text(PROTOCOL).unwrap_or(PROTOBUF);
        if protocol != PROTOBUF {
            return Err(format!("{PROTOCOL} is `{}`, not `{PROTOBUF}`", protocol.escape_debug()));
        }
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
        if !headers.is_empty() && !is_private(&uri) {
            return Err(format!("others could read {HEADERS}: use https in {ENDPOINT}, or 127.0.0.1"));
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        let mut resource = Resource::new("sandbox");
        for (name, value) in pairs("OTEL_RESOURCE_ATTRIBUTES", environment)? {
            resource = resource.with(&name, &value);
        }
        if let Some(name) = environment.text("OTEL_SERVICE_NAME") {
            resource = resource.with("service.name", name);
        }
        let span = rand::random();
        let parent = environment.text("TRACEPARENT");
        // As the specification asks: an unreadable parent is none.
        let child = parent.and_then(|parent| TraceContext::child(parent, span).ok());
        let context = child.unwrap_or_else(|| TraceContext::root(rand::random(), span));
        Ok(Self { url: url.to_owned(), headers, resource, context })
    }

    async fn send(&self, message: Message) -> Result<(), String> {
        let uri = Uri::from_str(&format!("{}{}", self.url, message.signal.path()));
        let uri = uri.map_err(|error| error.to_string())?;
        let answered = post(&uri, self.headers.clone(), message.body.into(), LIMIT).await;
        match answered {
            Ok((status, _)) if status.is_success() => Ok(()),
            Ok((status, _)) => Err(format!("status {status}")),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// The entries `name=value` of a variable, their values decoded.
fn pairs(variable: &str, environment: &Environment) -> Result<Vec<(String, String)>, String> {
    let text = environment.text(variable).unwrap_or_default();
    let pair = |text: &str| {
        let (name, value) = text.split_once('=')?;
        let value = percent_decode_str(value.trim()).decode_utf8().ok()?;
        Some((name.trim().to_owned(), value.into_owned()))
    };
    let parts = text.split(',').filter(|part| !part.trim().is_empty());
    let pairs = parts.map(|part| pair(part).ok_or_else(|| format!("{variable} is not `name=value,…`")));
    pairs.collect()
}

/// The telemetry of a run that is being sent.
#[derive(Debug)]
pub(crate) struct Export {
    end: oneshot::Sender<()>,
    task: JoinHandle<Exporter>,
}

#[derive(Debug)]
struct Exporter {
    collector: Collector,
    telemetry: Telemetry,
    /// The number of records that were not sent, and the last reason.
    lost: usize,
    problem: String,
}

impl Export {
    /// Sends the network log in `folder`, of the run with the id `run`, as it grows.
    pub(crate) fn start(collector: &Collector, folder: &Path, run: &str) -> Result<Self, Failure> {
        let follower = NetworkLog::new(folder).follow_json();
        let follower = follower.map_err(Failure::doing("follow the network log"))?;
        let (end, ended) = oneshot::channel::<()>();
        let follower = follower.until(async move { drop(ended.await) });
        let telemetry = Telemetry::new(run, collector.resource.clone(), collector.context);
        let exporter = Exporter { collector: collector.clone(), telemetry, lost: 0, problem: String::new() };
        Ok(Self { end, task: tokio::spawn(exporter.follow(follower)) })
    }

    /// Sends the rest, and the end of the run if it has a record.
    pub(crate) async fn finish(self, record: Option<&RunRecord>, printer: Printer) {
        let Self { end, task } = self;
        // The receiver is gone if the exporter already ended.
        let _ = end.send(());
        let abort = task.abort_handle();
        let url = timeout(LIMIT, async {
            let Exporter { collector, telemetry, mut lost, mut problem } = task.await.ok()?;
            if let Some(end) = record.and_then(run_end) {
                for message in telemetry.end(&end) {
                    let records = message.records;
                    if let Err(error) = collector.send(message).await {
                        (lost, problem) = (lost + records, error);
                    }
                }
            }
            if lost > 0 {
                let url = &collector.url;
                printer
                    .warning(format_args!("{lost} records of telemetry were not sent to {url}: {problem}"));
            }
            Some(())
        });
        if url.await.is_err() {
            abort.abort();
            let seconds = LIMIT.as_secs();
            printer.warning(format_args!("the last telemetry was not sent: no answer within {seconds} s"));
        }
    }
}

impl Exporter {
    async fn follow(mut self, mut follower: LogFollower) -> Self {
        let mut due: Option<Instant> = None;
        loop {
            let line = match due {
                Some(due) => timeout_at(due, follower.next_line()).await,
                None => Ok(follower.next_line().await),
            };
            match line {
                Ok(Ok(Some(line))) => {
                    // Whoever reads the log reports an entry of another version.
                    let Ok(entry) = LogEntry::parse(&line) else { continue };
                    self.telemetry.push(&entry);
                    due = due.or_else(|| Some(Instant::now() + DELAY));
                    if self.telemetry.len() < MOST {
                        continue;
                    }
                }
                Ok(Ok(None)) => break,
                Ok(Err(error)) => {
                    (self.lost, self.problem) = (self.lost + 1, error.to_string());
                    break;
                }
                Err(_) => {}
            }
            due = None;
            self.send().await;
        }
        self.send().await;
        self
    }

    async fn send(&mut self) {
        for message in self.telemetry.take() {
            let records = message.records;
            if let Err(problem) = self.collector.send(message).await {
                (self.lost, self.problem) = (self.lost + records, problem);
            }
        }
    }
}

/// The end of a run from its record.
fn run_end(record: &RunRecord) -> Option<RunEnd> {
    let began_ms = record.began_ms()?;
    let end = record.end.as_ref()?;
    let agent = record.session.as_ref().map(|session| AgentEnd {
        name: session.agent.clone(),
        outcome: session.outcome.clone(),
        cost: session.cost,
        turns: session.turns,
    });
    Some(RunEnd { began_ms, ended_ms: began_ms + end.duration_ms, exit_code: end.exit_code, agent })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(variables: &[(&str, &str)]) -> Result<Collector, String> {
        let environment: Environment = variables.iter().copied().collect();
        Collector::at(environment.text(ENDPOINT).unwrap(), &environment)
    }

    #[test]
    fn collector_is_described_by_its_variables() {
        let collector = at(&[
            (ENDPOINT, "https://collector.test/otlp/"),
            (HEADERS, "api-key=a%20b, x-scope=c"),
            ("OTEL_RESOURCE_ATTRIBUTES", "team=core,service.name=other"),
            ("OTEL_SERVICE_NAME", "nightly"),
            ("TRACEPARENT", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ])
        .unwrap();
        assert_eq!(collector.url, "https://collector.test/otlp");
        assert_eq!(collector.headers["api-key"], "a b");
        assert_eq!(collector.headers["x-scope"], "c");
        let expected = Resource::new("nightly").with("team", "core").with("service.name", "nightly");
        assert_eq!(collector.resource, expected);
        assert!(!format!("{collector:?}").contains("a b"), "{collector:?}");
        assert!(Collector::of(&Environment::from_iter([]), Printer::new(0, true)).is_none());
        let disabled = Environment::from_iter([(ENDPOINT, "http://a.test"), ("OTEL_SDK_DISABLED", "true")]);
        assert!(Collector::of(&disabled, Printer::new(0, true)).is_none());
    }

    #[test]
    fn variables_that_cannot_be_followed_are_refused() {
        for (variables, problem) in [
            (&[(ENDPOINT, "collector:4318")] as &[(&str, &str)], "is not a valid URL"),
            (&[(ENDPOINT, "https://user:key@collector.test")], "is not a valid URL"),
            (&[(ENDPOINT, "https://collector.test/?key=x")], "is not a valid URL"),
            (&[(ENDPOINT, "http://a.test:4317"), (PROTOCOL, "grpc")], "is `grpc`, not `http/protobuf`"),
            (&[(ENDPOINT, "http://a.test:4318"), (HEADERS, "api-key=x")], "others could read"),
            (&[(ENDPOINT, "https://a.test"), (HEADERS, "x")], "is not `name=value"),
            (&[(ENDPOINT, "https://a.test"), (HEADERS, "a b=x")], "a header that is not valid"),
        ] {
            let refused = at(variables).unwrap_err();
            assert!(refused.contains(problem), "{variables:?}: {refused}");
        }
        at(&[(ENDPOINT, "http://a.test:4318")]).unwrap();
        at(&[(ENDPOINT, "http://127.0.0.1:4318"), (HEADERS, "api-key=x")]).unwrap();
    }
}

//! A collector of OpenTelemetry gets the runs and their network log, and nothing else.

use std::convert::Infallible;
use std::process::{Child, Stdio};
use std::sync::Arc;

use bytes::Bytes;
use e2e_tests::secret::unique;
use e2e_tests::{DEADLINE, assert_held};
use http_body_util::{BodyExt as _, Full};
use hyper::header::HeaderValue;
use hyper::service::service_fn;
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value};
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use rustix::process::{Pid, Signal, kill_process};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::command_line::project::{Ended, Project, assert_nothing_left};

/// A stand-in for a collector: it keeps the requests that have its key.
struct Collector {
    url: String,
    got: watch::Receiver<Vec<(String, Bytes)>>,
}

impl Collector {
    async fn start(key: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/otlp/", listener.local_addr().expect("an address"));
        let (keep, got) = watch::channel(Vec::new());
        let (keep, key) = (Arc::new(keep), key.to_owned());
        let answer = move |request: Request<Incoming>| {
            let (keep, key) = (Arc::clone(&keep), key.clone());
            async move {
                let (head, body) = request.into_parts();
                let header = |name: &str| head.headers.get(name).map(HeaderValue::as_bytes);
                assert_eq!(header("api-key"), Some(key.as_bytes()));
                assert_eq!(header("content-type"), Some(b"application/x-protobuf".as_slice()));
                let body = body.collect().await.expect("a body").to_bytes();
                keep.send_modify(|got| got.push((head.uri.path().to_owned(), body)));
                Ok::<_, Infallible>(Response::new(Full::new(Bytes::new())))
            }
        };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let connection = hyper::server::conn::http1::Builder::new();
                tokio::spawn(connection.serve_connection(TokioIo::new(stream), service_fn(answer.clone())));
            }
        });
        Self { url, got }
    }

    /// The requests to `path`, decoded.
    fn got<T: Message + Default>(&self, path: &str) -> Vec<T> {
        let got = self.got.borrow();
        let bodies = got.iter().filter(|(to, _)| to.strip_prefix("/otlp") == Some(path));
        bodies.map(|(_, body)| T::decode(body.clone()).expect("a message")).collect()
    }

    fn logs(&self) -> Vec<LogRecord> {
        let requests = self.got::<ExportLogsServiceRequest>("/v1/logs").into_iter();
        let resources = requests.flat_map(|request| request.resource_logs);
        resources.flat_map(|logs| logs.scope_logs).flat_map(|scope| scope.log_records).collect()
    }

    fn spans(&self) -> Vec<Span> {
        let requests = self.got::<ExportTraceServiceRequest>("/v1/traces").into_iter();
        let resources = requests.flat_map(|request| request.resource_spans);
        resources.flat_map(|spans| spans.scope_spans).flat_map(|scope| scope.spans).collect()
    }
}

/// Waits for the end of `child`, whose streams are pipes.
async fn ended(child: Child) -> Ended {
    let ended = tokio::task::spawn_blocking(move || child.wait_with_output()).await;
    ended.expect("a thread").expect("our own child").into()
}

fn text(attributes: &[KeyValue], name: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == name)?;
    match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text.clone()),
        Value::IntValue(number) => Some(number.to_string()),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn collector_gets_a_run_without_paths_queries_headers_bodies_and_secrets() {
    let prefix = "e2e-telemetry";
    let (secret, key) = (unique("ghp_", 36), unique("key-", 20));
    let mut collector = Collector::start(&key).await;
    let project = Project::with_prefix(prefix);
    project.append(
        ".sandbox/sandbox.yaml",
        "masked_secrets: {TOKEN: {value: !env REAL, scopes: [open.test], headers: [authorization]}}\n",
    );
    let script = "
env | grep OTEL
curl -sS -o /dev/null -H \"authorization: Bearer $TOKEN\" -H 'x-mark: MARK-header' -d MARK-body \
  'https://open.test/sink/MARK-path?MARK-query=1'
curl -s -o /dev/null https://evil.test/MARK-path
curl -s -o /dev/null -H 'host: evil.test/MARK-host' http://evil.test/
curl -s -o /dev/null -X MARK https://open.test/
until [ -e enough ]; do sleep 0.1; done
exit 3 # MARK-command";
    let child = project
        .sandbox(&["run", "--", "bash", "-c", script])
        .env("REAL", &secret)
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url)
        .env("OTEL_EXPORTER_OTLP_HEADERS", format!("api-key={key}"))
        .env("OTEL_RESOURCE_ATTRIBUTES", "team=core")
        .env("OTEL_SERVICE_NAME", "nightly")
        .env("TRACEPARENT", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the sandbox command");
    let arrived = collector.got.wait_for(|got| got.iter().any(|(to, _)| to.ends_with("/v1/traces")));
    let arrived = tokio::time::timeout(DEADLINE, arrived).await;
    assert!(arrived.expect("a span").is_ok(), "requests are sent before the run ends");
    project.write("enough", "");
    let ended = ended(child).await;
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(3), ""),
        "the task has none of the variables: {ended:?}"
    );

    let (logs, spans) = (collector.logs(), collector.spans());
    let of = |host: &str| {
        let found = logs.iter().find(|record| {
            record.event_name == "sandbox.request"
                && text(&record.attributes, "server.address").as_deref() == Some(host)
        });
        found.map(|record| record.attributes.as_slice()).unwrap_or_default()
    };
    assert_eq!(text(of("open.test"), "http.response.status_code").as_deref(), Some("200"));
    assert_eq!(text(of("open.test"), "http.request.method").as_deref(), Some("POST"));
    assert_eq!(text(of("open.test"), "sandbox.masked").as_deref(), Some("1"));
    assert_eq!(text(of("open.test"), "sandbox.bytes_up").as_deref(), Some("9"));
    assert_eq!(text(of("evil.test"), "sandbox.decision").as_deref(), Some("blocked"));
    assert_eq!(text(of("evil.test"), "sandbox.reason").as_deref(), Some("host"));
    let run = spans
        .iter()
        .find(|span| span.name == "sandbox run")
        .unwrap_or_else(|| panic!("the run's span: {ended:?}"));
    assert_eq!(text(&run.attributes, "process.exit.code").as_deref(), Some("3"));
    assert_eq!(run.parent_span_id[..2], [0xb7, 0xad]);
    let below = spans.iter().filter(|span| span.parent_span_id == run.span_id).count();
    assert_eq!(below, spans.len() - 1);
    assert!(spans.iter().all(|span| span.trace_id == run.trace_id));
    let metrics = collector.got::<ExportMetricsServiceRequest>("/v1/metrics");
    let metrics = &metrics[0].resource_metrics[0];
    let resource = &metrics.resource.as_ref().expect("a resource").attributes;
    assert_eq!(text(resource, "service.name").as_deref(), Some("nightly"));
    assert_eq!(text(resource, "team").as_deref(), Some("core"));
    let names: Vec<_> = metrics.scope_metrics[0].metrics.iter().map(|metric| metric.name.as_str()).collect();
    let expected = ["runs", "run.duration", "requests", "network.io"].map(|name| format!("sandbox.{name}"));
    assert_eq!(names, expected);

    let sent: Vec<u8> = collector.got.borrow().iter().flat_map(|(_, body)| body.to_vec()).collect();
    let has = |bytes: &[u8], text: &str| memchr::memmem::find(bytes, text.as_bytes()).is_some();
    for needle in ["MARK", &secret, &key, "Bearer", "authorization"] {
        assert_held!(!has(&sent, needle), "`{needle}` was sent");
    }
    let log = project.output(&["logs", "--output", "json"]).stdout;
    for needle in ["MARK-path", "MARK-query", "MARK-host", "\"MARK\""] {
        assert!(has(log.as_bytes(), needle), "the control: the network log has `{needle}`: {log}");
    }
    assert_nothing_left(prefix).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failure_of_the_collector_is_a_warning() {
    let project = Project::new();
    let run = async |url: &str| {
        let mut command =
            project.sandbox(&["run", "--", "curl", "-sS", "-o", "/dev/null", "https://open.test/"]);
        let command =
            command.env("OTEL_EXPORTER_OTLP_ENDPOINT", url).stderr(Stdio::piped()).stdout(Stdio::piped());
        ended(command.spawn().expect("the sandbox command")).await
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let refusing = tokio::spawn(async move { while listener.accept().await.is_ok() {} });
    let refused = run(&format!("{url}/token")).await;
    refused.fails(0, &format!("telemetry records were not sent to {url}: "));
    refusing.abort();
    let invalid = "telemetry is disabled: OTEL_EXPORTER_OTLP_ENDPOINT is not a valid URL";
    run("collector:4318").await.fails(0, invalid);
}

#[tokio::test(flavor = "multi_thread")]
async fn signal_ends_the_wait_for_a_collector() {
    let prefix = "e2e-telemetry-signal";
    let project = Project::with_prefix(prefix);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    // Without a network there is nothing to send before the end.
    let child = project
        .sandbox(&["exec", "--", "sh", "-c", "exit 3"])
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the sandbox command");
    let accepted = tokio::time::timeout(DEADLINE, listener.accept()).await;
    let _silent = accepted.expect("a connection").expect("a connection");
    kill_process(Pid::from_child(&child), Signal::TERM).expect("our own child");
    ended(child).await.fails(3, "stopped while sending telemetry");
    assert_nothing_left(prefix).await;
}

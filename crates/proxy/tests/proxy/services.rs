//! Services of the host: only they are reachable, by name and port, over the sandbox's sockets.

use std::path::Path;
use std::time::Duration;

use sandbox_proxy_protocol::{
    BlockReason, Command, Event, HostService, RelayAnswer, RelayRequest, RequestOutcome, StreamRecord,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixListener};
use tokio::time::timeout;

use crate::harness::{Pki, Proxy, Setup, TIMEOUT, Upstream, raw};

const DB: u16 = 28_432;
const MCP: u16 = 28_081;

/// The sandbox's end of a relay, which runs `serve` on each stream.
fn relay<F>(socket: &Path, answer: RelayAnswer, serve: impl Fn(tokio::net::UnixStream) -> F + Send + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = UnixListener::bind(socket).unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let request = RelayRequest::from_byte(stream.read_u8().await.unwrap()).unwrap();
            let said = if request == RelayRequest::Probe { RelayAnswer::Connected } else { answer };
            stream.write_all(&[said.as_byte()]).await.unwrap();
            if request == RelayRequest::Connect && answer == RelayAnswer::Connected {
                tokio::spawn(serve(stream));
            }
        }
    });
}

async fn echo(mut stream: tokio::net::UnixStream) {
    let (mut reader, mut writer) = stream.split();
    let _ = tokio::io::copy(&mut reader, &mut writer).await;
}

/// Responds to one request with the request's head.
async fn http(mut stream: tokio::net::UnixStream) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else { return };
        head.push(byte);
    }
    let text = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", head.len());
    let _ = stream.write_all(&[text.as_bytes(), &head].concat()).await;
}

struct Services {
    proxy: Proxy,
    _sockets: tempfile::TempDir,
}

impl Services {
    /// Starts a database that echoes, one that refuses connections, and an HTTP service.
    async fn start(policy: &'static str) -> Self {
        let sockets = tempfile::tempdir().unwrap();
        let service = |name: &str, port, http| HostService {
            name: name.to_owned(),
            port,
            http,
            socket: sockets.path().join(name),
        };
        let services =
            vec![service("db", DB, false), service("down", DB + 1, false), service("mcp", MCP, true)];
        relay(&sockets.path().join("db"), RelayAnswer::Connected, echo);
        relay(&sockets.path().join("down"), RelayAnswer::Refused, echo);
        relay(&sockets.path().join("mcp"), RelayAnswer::Connected, http);
        let pki = Pki::new();
        let upstream = Upstream::start(pki.server(&["a.example"], &["http/1.1"])).await;
        let setup = Setup { policy, services, ..Setup::new(pki, upstream.address) };
        Self { proxy: setup.start().await, _sockets: sockets }
    }

    async fn connect(&self, port: u16) -> TcpStream {
        TcpStream::connect((self.proxy.address, port)).await.unwrap()
    }

    async fn stream_record(&self) -> StreamRecord {
        self.proxy.record(|event| if let Event::Stream(record) = event { Some(record) } else { None }).await
    }

    /// Sends a request to the port of the HTTP service; returns the response.
    async fn ask(&self, request: String) -> String {
        let mut stream = self.connect(MCP).await;
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        timeout(TIMEOUT, stream.read_to_string(&mut answer)).await.expect("a response").unwrap();
        answer
    }
}

fn get(path: &str, host: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
}

#[tokio::test]
async fn stream_passes_unchanged_and_is_recorded() {
    let services = Services::start("domains: []").await;
    let mut client = services.connect(DB).await;
    let bytes = b"\0\xff GET / HTTP/1.1\r\n\r\n";
    client.write_all(bytes).await.unwrap();
    let mut echoed = vec![0; bytes.len()];
    timeout(TIMEOUT, client.read_exact(&mut echoed)).await.expect("the echo").unwrap();
    assert_eq!(echoed, bytes);
    let open = services
        .proxy
        .record(|event| if let Event::StreamOpen(open) = event { Some(open) } else { None })
        .await;
    assert_eq!((open.service.as_str(), open.port), ("db", DB));
    drop(client);
    let record = services.stream_record().await;
    let count = bytes.len() as u64;
    assert_eq!(
        (record.decision, record.bytes_up, record.bytes_down),
        (RequestOutcome::Allowed, count, count)
    );
    assert!(record.duration_ms >= 1000, "{record:?}");
}

#[tokio::test]
async fn unavailable_service_is_recorded_as_an_error() {
    let services = Services::start("domains: []").await;
    let mut client = services.connect(DB + 1).await;
    let mut rest = Vec::new();
    let ended = timeout(TIMEOUT, client.read_to_end(&mut rest)).await.expect("the end");
    assert!(ended.is_err() || rest.is_empty());
    let record = services.stream_record().await;
    assert_eq!(record.decision, RequestOutcome::Error);
    assert!(record.error.unwrap().contains("is it running?"));
}

#[tokio::test]
async fn quarantine_ends_streams_and_refuses_new_ones() {
    let services = Services::start("domains: []").await;
    let mut client = services.connect(DB).await;
    client.write_all(b"x").await.unwrap();
    timeout(TIMEOUT, client.read_u8()).await.expect("the echo").unwrap();
    services.proxy.command(&Command::Quarantine {}).await;
    let mut rest = Vec::new();
    let _ = timeout(TIMEOUT, client.read_to_end(&mut rest)).await.expect("the stream ends");
    assert_eq!(services.stream_record().await.decision, RequestOutcome::Allowed);
    let _refused = services.connect(DB).await;
    let record = services.stream_record().await;
    assert_held!(record.decision != RequestOutcome::Allowed, "{record:?}");
    assert_eq!((record.decision, record.reason), (RequestOutcome::Blocked, Some(BlockReason::Quarantine)));
}

#[tokio::test]
async fn requests_to_a_service_are_judged_by_the_policy() {
    let services = Services::start("url_prefixes: [{host: mcp, path: '/tools*', methods: [GET]}]").await;
    let host = format!("mcp:{MCP}");
    let answer = services.ask(get("/tools?x", &host)).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert!(
        answer.contains(&format!("host: {host}\r\n")) || answer.contains(&format!("Host: {host}\r\n")),
        "{answer}"
    );
    let record = services.proxy.request().await;
    assert_eq!((record.decision, record.host.as_str()), (RequestOutcome::Allowed, "mcp"));
    for (request, reason) in [
        (get("/other", &host), "path_not_allowed"),
        (get("/tools", &host).replace("GET", "POST"), "method"),
        (get("/tools", &format!("a.example:{MCP}")), "port"),
        (get("/tools", "mcp:1"), "port"),
        (get("/tools", &format!("db:{MCP}")), "port"),
    ] {
        let answer = services.ask(request.clone()).await.to_lowercase();
        assert_held!(!answer.contains(" 200 ok"), "{request}: {answer}");
        assert!(answer.contains(&format!("x-sandbox-blocked: {reason}\r\n")), "{request}: {answer}");
    }
}

#[tokio::test]
async fn service_is_reachable_only_at_its_own_port() {
    let services = Services::start("domains: ['*']").await;
    for host in ["mcp", &format!("mcp:{MCP}")] {
        let answer = raw(&services.proxy, get("/", host).as_bytes()).await;
        assert_held!(answer.status() != 200, "{host}: {}", answer.0);
        assert!(answer.0.to_lowercase().contains("x-sandbox-blocked: port\r\n"), "{host}: {}", answer.0);
    }
    let refused =
        timeout(Duration::from_secs(20), TcpStream::connect((services.proxy.address, DB + 2))).await;
    assert_held!(refused.expect("refused at once").is_err(), "a port without a service");
}

#[tokio::test]
async fn proxy_without_its_relay_does_not_start() {
    let service =
        HostService { name: "db".to_owned(), port: DB, http: false, socket: "/no/such/socket".into() };
    let setup = Setup { services: vec![service], ..Setup::new(Pki::new(), crate::harness::fresh_address()) };
    let failed = tokio::spawn(async move { drop(setup.start().await) }).await;
    let panic = failed.expect_err("the proxy is not ready").into_panic();
    let said = panic.downcast_ref::<String>().unwrap();
    assert!(said.contains("failed to reach the sandbox's relay for the service db"), "{said}");
}

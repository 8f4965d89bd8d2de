//! A proxy, its owner's side of the channel, and the addresses of both.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use allowlist::Allowlist;
use sandbox_credentials::SecretReplacements;
use sandbox_proxy_protocol::{
    Command, Event, HostService, Limits, Listen, PROTOCOL_VERSION, ProxyMessage, RequestRecord, StartConfig,
    Upstream as UpstreamConfig, from_line, to_line,
};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, Lines};
use tokio::net::unix::pipe;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{Pki, Upstream, dns};

/// Ports below the ephemeral range; every proxy and upstream of a test has its own address.
pub(crate) const HTTP: u16 = 28_080;
pub(crate) const HTTPS: u16 = 28_443;
const DNS: u16 = 28_053;

type Commands = Box<dyn AsyncWrite + Send + Unpin>;
type Output = Box<dyn AsyncRead + Send + Unpin>;

/// Longer than any successful step takes.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

/// A loopback address that no other test uses, in this process or in another.
pub(crate) fn fresh_address() -> Ipv4Addr {
    static NEXT: AtomicU16 = AtomicU16::new(1);
    let [high, low] = (NEXT.fetch_add(1, Ordering::Relaxed) + 1).to_be_bytes();
    let process = std::process::id();
    let second = 64 + u8::try_from(process % 64).unwrap() + high * 64;
    Ipv4Addr::new(127, second, u8::try_from(process / 64 % 256).unwrap(), low)
}

/// The peak resident size of a process, in kilobytes.
pub(crate) fn peak_memory(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// A running proxy and its owner's side of the channel.
pub(crate) struct Proxy {
    pub(crate) address: Ipv4Addr,
    pub(crate) pki: Pki,
    commands: Mutex<Option<Commands>>,
    records: Mutex<mpsc::UnboundedReceiver<Event>>,
    ended: JoinHandle<Result<(), String>>,
    queries: Arc<std::sync::Mutex<Vec<String>>>,
}

/// The configuration of a proxy.
pub(crate) struct Setup {
    pub(crate) policy: &'static str,
    pub(crate) limits: Limits,
    /// The address of every name below `example`.
    pub(crate) upstream: Ipv4Addr,
    pub(crate) pki: Pki,
    pub(crate) allow_addresses: Vec<&'static str>,
    pub(crate) host_addresses: Vec<Ipv4Addr>,
    /// The services of the host that the task may reach.
    pub(crate) services: Vec<HostService>,
    /// The task's credentials.
    pub(crate) replacements: SecretReplacements,
    /// Whether the owner reads the records.
    pub(crate) owner_reads: bool,
}

impl Setup {
    /// The default limits, and a policy that allows `a.example` and nothing else.
    pub(crate) fn new(pki: Pki, upstream: Ipv4Addr) -> Self {
        let policy = "domains: [a.example]";
        Self {
            policy,
            limits: Limits::default(),
            upstream,
            pki,
            allow_addresses: vec!["127.0.0.0/8"],
            host_addresses: Vec::new(),
            services: Vec::new(),
            replacements: SecretReplacements::default(),
            owner_reads: true,
        }
    }

    /// Starts an upstream with a certificate for `names` that speaks `alpn`; returns the setup of a
    /// proxy for it, and the upstream.
    pub(crate) async fn fresh(names: &[&str], alpn: &[&str]) -> (Self, Upstream) {
        let pki = Pki::new();
        let upstream = Upstream::start(pki.server(names, alpn)).await;
        (Self::new(pki, upstream.address), upstream)
    }

    /// Starts the proxy in this process.
    pub(crate) async fn start(self) -> Proxy {
        let (input, commands) = tokio::io::duplex(1024 * 1024);
        let (output, proxy_output) = tokio::io::duplex(16 * 1024);
        let ended = tokio::spawn(async {
            sandbox_proxy::run(input, proxy_output).await.map_err(|error| error.to_string())
        });
        self.begin(Box::new(commands), Box::new(output), ended).await
    }

    /// Starts the proxy's program; also returns the id of its process.
    #[expect(clippy::disallowed_methods, reason = "the program under test is not an engine")]
    pub(crate) async fn start_process(self) -> (Proxy, u32) {
        // Pipes, as between the engine's monitor and the proxy.
        let (input, commands) = std::io::pipe().unwrap();
        let (output, proxy_output) = std::io::pipe().unwrap();
        let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_sandbox-proxy"))
            .stdin(input)
            .stdout(proxy_output)
            .spawn()
            .unwrap();
        let id = child.id();
        let commands = pipe::Sender::from_owned_fd(commands.into()).unwrap();
        let output = pipe::Receiver::from_owned_fd(output.into()).unwrap();
        let ended = tokio::task::spawn_blocking(move || match child.wait() {
            Ok(status) if status.success() => Ok(()),
            other => Err(format!("{other:?}")),
        });
        (self.begin(Box::new(commands), Box::new(output), ended).await, id)
    }

    async fn begin(
        self,
        mut commands: Commands,
        output: Output,
        ended: JoinHandle<Result<(), String>>,
    ) -> Proxy {
        let address = fresh_address();
        let dns = SocketAddr::new(fresh_address().into(), DNS);
        let queries = dns::serve(dns, self.upstream).await;
        let config = StartConfig {
            protocol: PROTOCOL_VERSION,
            policy: Allowlist::from_yaml(self.policy, "policy.yaml").unwrap(),
            replacements: sandbox_proxy_protocol::ReplacementMap(self.replacements),
            authority: self.pki.authority(),
            listen: Listen { address, http_port: HTTP, https_port: HTTPS, dns_port: DNS },
            upstream: UpstreamConfig {
                dns,
                extra_roots_pem: self.pki.upstream_root(),
                allow_addresses: self.allow_addresses.iter().map(|net| net.parse().unwrap()).collect(),
                host_addresses: self.host_addresses.clone(),
            },
            services: self.services,
            limits: self.limits,
        };
        commands.write_all(to_line(&config).unwrap().as_bytes()).await.unwrap();
        let (sender, records) = mpsc::unbounded_channel();
        let mut lines = BufReader::new(output).lines();
        let ready = lines.next_line().await.unwrap().expect("the proxy writes a line");
        assert!(matches!(from_line(ready.as_bytes()).unwrap(), ProxyMessage::Ready { .. }), "{ready}");
        if self.owner_reads {
            tokio::spawn(read_records(lines, sender));
        } else {
            // The output is neither read nor closed.
            std::mem::forget(lines);
        }
        Proxy {
            address,
            pki: self.pki,
            commands: Mutex::new(Some(commands)),
            records: Mutex::new(records),
            ended,
            queries,
        }
    }
}

async fn read_records(mut lines: Lines<BufReader<Output>>, sender: mpsc::UnboundedSender<Event>) {
    while let Ok(Some(line)) = lines.next_line().await {
        if let ProxyMessage::Record(record) = from_line(line.as_bytes()).unwrap() {
            let _ = sender.send(record.event);
        }
    }
}

impl Proxy {
    pub(crate) fn http(&self) -> SocketAddr {
        SocketAddr::new(IpAddr::V4(self.address), HTTP)
    }

    pub(crate) fn https(&self) -> SocketAddr {
        SocketAddr::new(IpAddr::V4(self.address), HTTPS)
    }

    /// Whether a query with this label reached the name server.
    pub(crate) fn resolved(&self, label: &str) -> bool {
        self.queries.lock().unwrap().iter().any(|query| query.contains(label))
    }

    pub(crate) async fn command(&self, command: &Command) {
        let mut commands = self.commands.lock().await;
        commands.as_mut().unwrap().write_all(to_line(command).unwrap().as_bytes()).await.unwrap();
    }

    /// Waits for the next record for which `wanted` returns a value.
    pub(crate) async fn record<T>(&self, wanted: impl Fn(Event) -> Option<T>) -> T {
        let mut records = self.records.lock().await;
        let find = async {
            loop {
                let event = records.recv().await.expect("the proxy still writes records");
                if let Some(found) = wanted(event) {
                    return found;
                }
            }
        };
        timeout(TIMEOUT, find).await.expect("the record comes")
    }

    /// Waits for the next record of a request.
    pub(crate) async fn request(&self) -> RequestRecord {
        self.record(|event| if let Event::Request(record) = event { Some(record) } else { None }).await
    }

    /// Asks the proxy to drain and waits for its end.
    pub(crate) async fn stop(self) {
        self.command(&Command::Drain {}).await;
        timeout(TIMEOUT, self.ended).await.expect("the proxy ends").unwrap().unwrap();
    }

    /// Closes the channel, as the death of the owner would, and waits for the proxy's end.
    pub(crate) async fn abandon(&mut self) {
        self.commands.lock().await.take();
        timeout(TIMEOUT, &mut self.ended).await.expect("the proxy ends").unwrap().unwrap();
    }
}

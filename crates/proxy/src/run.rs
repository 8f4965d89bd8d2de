//! The lifetime of a proxy, from the start document to the end of its input.

use std::collections::BTreeSet;
use std::error::Error;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use sandbox_proxy_protocol::{Event, Listen, PROTOCOL_VERSION, ProxyMessage, Scheme, StartConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::accounting::Spending;
use crate::context::Context;
use crate::control::{Control, ControlError, Farewell};
use crate::dns::{AddressGuard, DnsSockets, Resolver};
use crate::policy::{LivePolicy, Questions};
use crate::reach::{Confined, own_addresses};
use crate::record::{self, Recorder};
use crate::server::{self, Entrance, Listeners};
use crate::services::{Services, probe};
use crate::tls::{self, AuthorityError, LeafIssuer, RootsError};

/// How long a drain may take beyond [`sandbox_proxy_protocol::Limits::drain_ms`] before the
/// remaining connections are cut off.
const DRAIN_MARGIN: Duration = Duration::from_millis(500);
/// How long an ending proxy waits for the host to read its last records. A host that asked for a
/// drain reads them, and there may be thousands.
const LAST_RECORDS: Duration = Duration::from_secs(30);
/// The same, for a host that is gone or after a failure.
const LAST_RECORDS_UNREAD: Duration = Duration::from_secs(1);

/// The reason why a proxy failed to start or to continue. No message contains a secret.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// The owner sent invalid input, or the channel broke.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The authority of the start document is unable to sign.
    #[error("failed to use the authority of the start document")]
    Authority(#[from] AuthorityError),
    /// The extra roots of the start document are not usable.
    #[error("failed to use the extra roots of the start document")]
    Roots(#[from] RootsError),
    /// The machine's addresses are unknown, so the guard could not refuse them.
    #[error("failed to list the addresses of this machine")]
    Addresses(#[source] io::Error),
    /// Binding a socket failed.
    #[error("failed to listen for {service} on {address}")]
    Bind {
        /// HTTP, HTTPS or DNS.
        service: &'static str,
        /// The socket's address.
        address: SocketAddr,
        /// The operating system's error.
        source: io::Error,
    },
    /// The sandbox's end of the relay is not reachable.
    #[error(
        "failed to reach the sandbox's relay for the service {service}; a runtime such as gVisor has to be allowed to connect to Unix \
         sockets of the host (runsc: --host-uds=open)"
    )]
    Relay {
        /// The service's name.
        service: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// The owner no longer accepts records.
    #[error("failed to write records")]
    Output(#[source] io::Error),
    /// A listener ended, which is an error in the proxy.
    #[error("a listener ended unexpectedly")]
    ListenerEnded,
}

/// Serves one task: reads a [`StartConfig`] from `input`, answers with [`ProxyMessage::Ready`] on
/// `output`, then writes records to `output` and follows the commands on `input`. When asked to
/// drain, it stops accepting connections, gives requests in progress
/// [`sandbox_proxy_protocol::Limits::drain_ms`] to end, and returns. When `input` ends, it cuts
/// them off at once.
///
/// # Errors
///
/// If it fails to start serving, if it fails to read a command, or if `output` accepts no more
/// records. The reason is also the last message on `output`, as [`ProxyMessage::Failed`], if it can
/// still be written.
pub async fn run<R, W>(input: R, output: W) -> Result<(), ProxyError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let confined = Err("the proxy runs in a process that may do more".to_owned());
    run_until(input, output, confined, std::future::pending()).await
}

/// Like [`run()`], but also drains when `stop` ends. If `confined` is an error, the ready message
/// gives it as the reason why this process is not confined to its [`Reach`].
///
/// [`Reach`]: sandbox_proxy_protocol::Reach
///
/// # Errors
///
/// As [`run()`].
pub async fn run_until<R, W>(
    input: R,
    output: W,
    confined: Result<Confined, String>,
    stop: impl Future<Output = ()>,
) -> Result<(), ProxyError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let (recorder, records) = record::channel();
    let mut writer = tokio::spawn(records.write_to(output));
    let mut ended = live(Control::new(input), &recorder, confined, stop).await;
    if let Err(error) = &ended {
        // A full queue means that the host no longer reads.
        let _ = recorder.send(ProxyMessage::Failed { reason: reason(error) });
    }
    drop(recorder);
    let drain_timeout = match ended {
        Ok(Farewell::Drain) => LAST_RECORDS,
        Ok(Farewell::Gone) | Err(_) => LAST_RECORDS_UNREAD,
    };
    match timeout(drain_timeout, &mut writer).await {
        Ok(Ok(Err(source))) => ended = Err(ProxyError::Output(source)),
        Ok(Ok(Ok(())) | Err(_)) => {}
        Err(_elapsed) => writer.abort(),
    }
    ended.map(drop)
}

async fn live<R: AsyncRead + Unpin>(
    mut control: Control<R>,
    recorder: &Recorder,
    confined: Result<Confined, String>,
    stop: impl Future<Output = ()>,
) -> Result<Farewell, ProxyError> {
    let mut stop = std::pin::pin!(stop);
    let config = tokio::select! {
        config = control.start() => config?,
        () = &mut stop => return Ok(Farewell::Gone),
    };
    let drain = Duration::from_millis(config.limits.drain_ms) + DRAIN_MARGIN;
    let silence = config.limits.owner_timeout_ms.map(Duration::from_millis);
    let (policy, context, mut services, stop_services) = begin(config, confined, recorder).await?;
    let ended = tokio::select! {
        ended = control.follow(&policy, silence, &context.spending, &context.questions, recorder) => {
            ended.map_err(ProxyError::from)
        }
        () = stop => Ok(Farewell::Drain),
        () = recorder.closed() => Err(ProxyError::Output(io::ErrorKind::BrokenPipe.into())),
        ended = services.join_next() => {
            // A panic's message may contain anything; the panic hook reports what may be shown.
            let panicked = ended.is_some_and(|ended| ended.is_err());
            tracing::error!(panicked, "a listener ended");
            Err(ProxyError::ListenerEnded)
        }
    };
    if let Ok(Farewell::Drain) = ended {
        tracing::info!("draining");
        stop_services.send_replace(true);
        let drained = async { while services.join_next().await.is_some() {} };
        // `shutdown` aborts every service that does not end in time, and all if the owner is gone.
        tokio::select! {
            _ = timeout(drain, drained) => {}
            () = control.ended() => {}
        }
    }
    services.shutdown().await;
    ended
}

/// Binds every socket, reports that, and starts to serve. On failure, the sockets that were bound
/// are closed again.
async fn begin(
    config: StartConfig,
    confined: Result<Confined, String>,
    recorder: &Recorder,
) -> Result<(watch::Sender<LivePolicy>, Arc<Context>, JoinSet<()>, watch::Sender<bool>), ProxyError> {
    let StartConfig { protocol: _, policy, replacements, authority, listen, upstream, services, limits } =
        config;
    let leaves = LeafIssuer::new(&authority, limits.leaf_certificates)?;
    drop(authority);
    let upstream_tls = tls::upstream_config(&upstream.extra_roots_pem)?;
    let mut own = own_addresses().map_err(ProxyError::Addresses)?;
    own.push(IpAddr::V4(listen.address));
    own.extend(upstream.host_addresses.into_iter().map(IpAddr::V4));

    let host_services = Services::new(services);
    let listeners = listeners(&listen, &host_services).await?;
    let dns_address = SocketAddr::new(listen.address.into(), listen.dns_port);
    let dns = DnsSockets::bind(dns_address).await.map_err(|source| ProxyError::Bind {
        service: "DNS",
        address: dns_address,
        source,
    })?;

    let (live_policy, policy) = {
        let mut live = LivePolicy::new(policy);
        live.renew(&replacements);
        watch::channel(live)
    };
    drop(replacements);
    let (stop, stopped) = watch::channel(false);
    let mut services = JoinSet::new();
    let (refusals, unconfined) = match confined {
        Ok(confined) => (Some(confined.refusals), None),
        Err(reason) => (None, Some(reason)),
    };
    // The queue is empty: both fit.
    let _ = recorder.send(ProxyMessage::Ready { protocol: PROTOCOL_VERSION, unconfined });
    let _ = recorder.try_record(Event::TaskStart);
    let queries_per_second = limits.dns_queries_per_second;
    services.spawn(dns.serve(
        listen.address,
        queries_per_second,
        recorder.clone(),
        until_set(stopped.clone()),
    ));
    match refusals {
        Some(Ok(refusals)) => {
            services.spawn(refusals.serve(recorder.clone(), until_set(stopped.clone())));
        }
        Some(Err(error)) => {
            tracing::warn!(%error, "traffic to ports that nothing serves is not recorded");
        }
        None => {}
    }
    tracing::info!(address = %listen.address, "serving");
    let context = Arc::new(Context {
        spending: Arc::new(Spending::new(policy.clone())),
        questions: Questions::new(&limits, recorder.clone()),
        limits,
        listen,
        policy,
        recorder: recorder.clone(),
        services: host_services,
        resolver: Resolver::new(upstream.dns),
        guard: AddressGuard::new(upstream.allow_addresses, own),
        authority: leaves,
        upstream_tls,
    });
    services.spawn(server::serve(Arc::clone(&context), listeners, until_set(stopped)));
    Ok((live_policy, context, services, stop))
}

/// The sockets for HTTP, TLS and the services. Fails if the sandbox's relay for a service is not
/// reachable.
async fn listeners(listen: &Listen, services: &Services) -> Result<Listeners, ProxyError> {
    let mut listeners = vec![
        (bind_tcp("HTTP", listen, listen.http_port).await?, Entrance::Http(Scheme::Http.default_port())),
        (bind_tcp("HTTPS", listen, listen.https_port).await?, Entrance::Https),
    ];
    let mut ports = BTreeSet::from([Scheme::Http.default_port()]);
    for service in services.all() {
        probe(&service.socket)
            .await
            .map_err(|source| ProxyError::Relay { service: service.name.clone(), source })?;
        if !service.http {
            let listener = bind_tcp("a service", listen, service.port).await?;
            listeners.push((listener, Entrance::Service(Arc::clone(service))));
        } else if ports.insert(service.port) {
            let listener = bind_tcp("HTTP", listen, service.port).await?;
            listeners.push((listener, Entrance::Http(service.port)));
        }
    }
    Ok(Listeners::new(listeners))
}

async fn bind_tcp(service: &'static str, listen: &Listen, port: u16) -> Result<TcpListener, ProxyError> {
    let address = SocketAddr::new(listen.address.into(), port);
    TcpListener::bind(address).await.map_err(|source| ProxyError::Bind { service, address, source })
}

/// Returns when the value is true, or can no longer become true.
async fn until_set(mut value: watch::Receiver<bool>) {
    let _ = value.wait_for(|set| *set).await;
}

/// The error and its sources, in one sentence.
fn reason(error: &ProxyError) -> String {
    let mut sentence = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        sentence = format!("{sentence}: {error}");
        cause = error.source();
    }
    sentence
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use sandbox_proxy_protocol::{Command, Limits, Record, from_line, to_line};
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
    use tokio::net::{TcpStream, UdpSocket};
    use tokio::task::JoinHandle;

    use super::*;

    const QUERY: &[u8] = b"\0\x07\x01\0\0\x01\0\0\0\0\0\0\x01a\x07example\0\0\x01\0\x01";

    fn confined() -> Confined {
        Confined { refusals: Err(io::ErrorKind::Unsupported.into()) }
    }

    /// A proxy and its owner's end of the channel.
    struct Driven {
        listen: Listen,
        commands: WriteHalf<DuplexStream>,
        messages: BufReader<ReadHalf<DuplexStream>>,
        ended: JoinHandle<Result<(), ProxyError>>,
    }

    impl Driven {
        async fn start(listen: Listen, stop: impl Future<Output = ()> + Send + 'static) -> Self {
            let (owner, proxy) = tokio::io::duplex(64 * 1024);
            let (input, output) = tokio::io::split(proxy);
            let ended = tokio::spawn(run_until(input, output, Ok(confined()), stop));
            let (messages, mut commands) = tokio::io::split(owner);
            commands.write_all(start_line(&listen).as_bytes()).await.unwrap();
            Self { listen, commands, messages: BufReader::new(messages), ended }
        }

        async fn message(&mut self) -> Option<ProxyMessage> {
            let mut line = String::new();
            self.messages.read_line(&mut line).await.unwrap();
            (!line.is_empty()).then(|| from_line(line.as_bytes()).unwrap())
        }

        async fn ready(&mut self) {
            assert!(matches!(
                self.message().await,
                Some(ProxyMessage::Ready { protocol: PROTOCOL_VERSION, unconfined: None })
            ));
            let first = self.message().await;
            assert!(
                matches!(first, Some(ProxyMessage::Record(Record { event: Event::TaskStart, .. }))),
                "{first:?}"
            );
        }
    }

    fn start_line(listen: &Listen) -> String {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::default();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Constrained(0));
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(rcgen::DnType::CommonName, "test authority");
        let certificate = params.self_signed(&key).unwrap().pem();
        let config = StartConfig {
            protocol: PROTOCOL_VERSION,
            policy: allowlist::Allowlist::default(),
            replacements: sandbox_credentials::wire::ReplacementMap::default(),
            authority: sandbox_proxy_protocol::ProxyAuthority {
                certificate_pem: certificate,
                private_key_pem: sandbox_proxy_protocol::PrivateKeyPem::new(key.serialize_pem()),
            },
            listen: listen.clone(),
            upstream: sandbox_proxy_protocol::Upstream {
                dns: "127.0.0.1:9".parse().unwrap(),
                extra_roots_pem: String::new(),
                allow_addresses: Vec::new(),
                host_addresses: Vec::new(),
            },
            services: Vec::new(),
            limits: Limits::default(),
        };
        to_line(&config).unwrap()
    }

    /// Free ports on a loopback address that only this test uses.
    fn listen(last: u8) -> Listen {
        let process = std::process::id().to_be_bytes();
        let address = Ipv4Addr::new(127, process[2] | 1, process[3], last);
        Listen { address, http_port: 8080, https_port: 8443, dns_port: 8053 }
    }

    async fn ask(listen: &Listen) {
        let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        udp.send_to(QUERY, (listen.address, listen.dns_port)).await.unwrap();
        let mut answer = [0; 512];
        let length = udp.recv(&mut answer).await.unwrap();
        assert!(answer[..length].ends_with(&listen.address.octets()));
    }

    #[tokio::test]
    async fn proxy_ends_when_its_input_ends() {
        let mut driven = Driven::start(listen(1), std::future::pending()).await;
        driven.ready().await;
        ask(&driven.listen).await;
        let record = driven.message().await;
        assert!(
            matches!(record, Some(ProxyMessage::Record(Record { event: Event::Dns { .. }, .. }))),
            "{record:?}"
        );
        driven.commands.write_all(to_line(&Command::Quarantine {}).unwrap().as_bytes()).await.unwrap();
        driven.commands.shutdown().await.unwrap();
        driven.ended.await.unwrap().unwrap();
        let listen = driven.listen.clone();
        assert!(
            TcpStream::connect((listen.address, listen.http_port)).await.is_err(),
            "nothing listens any more"
        );
        // The same sockets can be bound again.
        let mut next = Driven::start(listen, std::future::pending()).await;
        next.ready().await;
    }

    #[tokio::test]
    async fn draining_proxy_ends_although_its_input_is_open() {
        let mut driven = Driven::start(listen(7), std::future::pending()).await;
        driven.ready().await;
        let drain = to_line(&Command::Drain {}).unwrap();
        driven.commands.write_all(drain.as_bytes()).await.unwrap();
        driven.ended.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn signal_drains_the_proxy() {
        let stop = Arc::new(tokio::sync::Notify::new());
        let stopped = Arc::clone(&stop);
        let mut driven = Driven::start(listen(2), async move { stopped.notified().await }).await;
        driven.ready().await;
        stop.notify_one();
        driven.ended.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn signal_before_the_start_document_ends_the_proxy() {
        let (_owner, proxy) = tokio::io::duplex(64);
        let (input, output) = tokio::io::split(proxy);
        run_until(input, output, Ok(confined()), std::future::ready(())).await.unwrap();
    }

    #[tokio::test]
    async fn port_in_use_is_reported() {
        let listen = listen(3);
        let _taken = TcpListener::bind((listen.address, listen.https_port)).await.unwrap();
        let mut driven = Driven::start(listen.clone(), std::future::pending()).await;
        let Some(ProxyMessage::Failed { reason }) = driven.message().await else { panic!("not failed") };
        let expected =
            format!("failed to listen for HTTPS on {}:8443: Address already in use", listen.address);
        assert!(reason.starts_with(&expected), "{reason}");
        assert!(matches!(driven.ended.await.unwrap(), Err(ProxyError::Bind { service: "HTTPS", .. })));
    }

    #[tokio::test]
    async fn invalid_command_ends_the_proxy() {
        let mut driven = Driven::start(listen(4), std::future::pending()).await;
        driven.ready().await;
        driven.commands.write_all(b"{\"command\":\"quarantin\"}\n").await.unwrap();
        assert!(matches!(driven.message().await, Some(ProxyMessage::Failed { .. })));
        assert!(matches!(driven.ended.await.unwrap(), Err(ProxyError::Control(_))));
        assert!(TcpStream::connect((driven.listen.address, driven.listen.http_port)).await.is_err());
    }

    #[tokio::test]
    async fn closed_output_ends_the_proxy() {
        let listen = listen(5);
        let (mut commands, input) = tokio::io::duplex(64 * 1024);
        let (messages, output) = tokio::io::duplex(64 * 1024);
        let ended = tokio::spawn(run(input, output));
        commands.write_all(start_line(&listen).as_bytes()).await.unwrap();
        let mut messages = BufReader::new(messages);
        for _ in 0..2 {
            messages.read_line(&mut String::new()).await.unwrap();
        }
        drop(messages);
        ask(&listen).await;
        assert!(matches!(ended.await.unwrap(), Err(ProxyError::Output(_))));
    }

    #[tokio::test]
    async fn start_error_omits_the_key() {
        let line =
            start_line(&listen(6)).replace("BEGIN PRIVATE KEY-----\\n", "BEGIN PRIVATE KEY-----\\nAAAA");
        let secret = line.split_once("AAAA").unwrap().1.get(..32).unwrap().to_owned();
        let mut output = Vec::new();
        let (owner, proxy) = tokio::io::duplex(64 * 1024);
        let error = run(line.as_bytes(), proxy).await.unwrap_err();
        tokio::io::AsyncReadExt::read_to_end(&mut BufReader::new(owner), &mut output).await.unwrap();
        let shown = format!("{error} {error:?} {}", String::from_utf8(output).unwrap());
        assert!(shown.contains("private key") && !shown.contains(&secret), "{shown}");
    }
}

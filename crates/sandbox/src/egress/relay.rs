//! The host's end of streams from a proxy to services of the host.
//!
//! A folder of Unix sockets, which only the sandbox and one proxy see, is the only path from a
//! proxy to the host. Dropping the relay ends every stream and removes the folder.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use sandbox_files::host_path::{self, Resolver};
use sandbox_gate::{GateServer, GateToken};
use sandbox_proxy_protocol::{HostService as ProxyService, RelayAnswer, RelayRequest};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::ProxyError;
use super::blocking::blocking;
use crate::socket_folder::SocketFolder;
use crate::spec::{HostService, Mount, ServiceTarget};

/// The path of the folder in the proxy's container.
const FOLDER: &str = "/run/sandbox/relay";
/// How long a proxy may take to send its request, and a service to accept a connection.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum of concurrent streams to one service: the proxy's limit of connections.
const STREAMS: usize = 256;
/// The variable of a task with the password of the git server.
pub(crate) const GATE_TOKEN: &str = "SANDBOX_GATE_TOKEN";

/// The sockets of one execution.
#[derive(Debug)]
pub(super) struct Relay {
    folder: SocketFolder,
    services: Vec<HostService>,
    /// The token of the git server, if there is one.
    token: Option<GateToken>,
    _serving: JoinSet<()>,
}

/// The credentials of a task's container for the git server.
pub(super) struct GateAccess {
    pub(super) variable: (String, String),
    pub(super) git_setting: (String, String),
}

/// One service, with the target of its connections.
struct Served {
    service: HostService,
    paths: HostPaths,
    gate: Option<GateServer>,
}

/// The paths to services of the host, and those that are never reachable.
#[derive(Debug, Clone)]
pub(super) struct HostPaths {
    pub(super) state_dir: PathBuf,
    /// The engine's socket: access to it is access to the host.
    pub(super) engine: PathBuf,
}

impl Relay {
    /// Listens for the proxy of one execution; `None` without services.
    pub(super) async fn start(
        paths: &HostPaths,
        services: Vec<HostService>,
    ) -> Result<Option<Self>, ProxyError> {
        if services.is_empty() {
            return Ok(None);
        }
        let (state_dir, names) = (paths.state_dir.clone(), services.clone());
        let (folder, listeners) = blocking(move || {
            listen(&state_dir, &names).map_err(ProxyError::file("create sockets in", &state_dir))
        })
        .await?;
        let mut serving = JoinSet::new();
        let mut token = None;
        for (listener, service) in listeners.into_iter().zip(services.iter().cloned()) {
            let gate = match service.target() {
                ServiceTarget::Gate(repositories) => {
                    let token = token.insert(GateToken::mint()).clone();
                    Some(GateServer::new(repositories.iter().cloned(), token))
                }
                ServiceTarget::Tcp(_) | ServiceTarget::Unix(_) => None,
            };
            serving.spawn(serve(listener, Arc::new(Served { service, paths: paths.clone(), gate })));
        }
        Ok(Some(Self { folder, services, token, _serving: serving }))
    }

    /// The credentials of the git server for the task's container: a variable, and a git setting.
    pub(super) fn gate_access(&self) -> Option<GateAccess> {
        let token = self.token.as_ref()?.expose();
        let basic = BASE64.encode(format!("git:{token}"));
        Some(GateAccess {
            variable: (GATE_TOKEN.to_owned(), token.to_owned()),
            git_setting: (
                format!("http.http://{}/.extraHeader", HostService::GATE),
                format!("Authorization: Basic {basic}"),
            ),
        })
    }

    /// The mount of the proxy's container.
    pub(super) fn mount(&self) -> Mount {
        self.folder.mount(FOLDER)
    }

    /// The services for the proxy's configuration.
    pub(super) fn services(&self) -> Vec<ProxyService> {
        let known = self.services.iter().map(|service| ProxyService {
            name: service.name().to_owned(),
            port: service.task_port(),
            http: service.is_http(),
            socket: Path::new(FOLDER).join(service.name()),
        });
        known.collect()
    }
}

/// A folder with a socket for each of `services`.
fn listen(state_dir: &Path, services: &[HostService]) -> io::Result<(SocketFolder, Vec<UnixListener>)> {
    let folder = SocketFolder::create(state_dir)?;
    let listeners = services.iter().map(|service| folder.listen(service.name()));
    let listeners = listeners.collect::<io::Result<_>>()?;
    Ok((folder, listeners))
}

async fn serve(listener: UnixListener, served: Arc<Served>) {
    let places = Arc::new(Semaphore::new(STREAMS));
    let mut streams = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            Some(_) = streams.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            // tidy: sleep: there is no event for a descriptor that becomes free.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let place = Arc::clone(&places).try_acquire_owned().ok();
        let served = Arc::clone(&served);
        streams.spawn(async move {
            // A broken stream has ended.
            let _ = relay(stream, &served, place.is_some()).await;
        });
    }
}

/// Relays one stream, to its end.
async fn relay(mut stream: UnixStream, served: &Served, room: bool) -> io::Result<()> {
    let Served { service, paths, gate } = served;
    let asked = timeout(TIMEOUT, stream.read_u8()).await.map_err(io::Error::from)??;
    match RelayRequest::from_byte(asked) {
        Some(RelayRequest::Connect) if room => {}
        Some(RelayRequest::Probe) => return answer(&mut stream, RelayAnswer::Connected).await,
        _ => return answer(&mut stream, RelayAnswer::Failed).await,
    }
    if let Some(gate) = gate {
        answer(&mut stream, RelayAnswer::Connected).await?;
        gate.clone().serve(stream).await;
        return Ok(());
    }
    match timeout(TIMEOUT, connect(service, paths)).await {
        Ok(Ok(mut target)) => {
            answer(&mut stream, RelayAnswer::Connected).await?;
            copy_bidirectional(&mut stream, &mut target).await.map(drop)
        }
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
            answer(&mut stream, RelayAnswer::Refused).await
        }
        Ok(Err(error)) => {
            tracing::warn!(%error, service = service.name(), "failed to reach a service of the host");
            let missing = error.kind() == io::ErrorKind::NotFound;
            answer(&mut stream, if missing { RelayAnswer::Refused } else { RelayAnswer::Failed }).await
        }
        Err(_elapsed) => answer(&mut stream, RelayAnswer::Timeout).await,
    }
}

async fn answer(stream: &mut UnixStream, answer: RelayAnswer) -> io::Result<()> {
    stream.write_all(&[answer.as_byte()]).await
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

async fn connect(service: &HostService, paths: &HostPaths) -> io::Result<Box<dyn Stream>> {
    match service.target() {
        ServiceTarget::Tcp(address) => {
            let stream = TcpStream::connect(address).await?;
            // Small messages must not be delayed.
            let _ = stream.set_nodelay(true);
            Ok(Box::new(stream))
        }
        ServiceTarget::Unix(path) => {
            let (path, paths) = (path.clone(), paths.clone());
            let found = tokio::task::spawn_blocking(move || find(&path, &paths)).await;
            let found = found.map_err(io::Error::other)??;
            // The socket that was found, even if its path was replaced meanwhile.
            let held = format!("/proc/self/fd/{}", found.as_fd().as_raw_fd());
            Ok(Box::new(UnixStream::connect(held).await?))
        }
        ServiceTarget::Gate(_) => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// Resolves a path that tasks may have written.
fn find(path: &Path, paths: &HostPaths) -> io::Result<host_path::Found> {
    let resolver = Resolver::new(host_path::writable_folders(&paths.state_dir)?);
    let found = resolver.find(path).map_err(|error| {
        let missing = error.is_not_found();
        let kind = if missing { io::ErrorKind::NotFound } else { io::ErrorKind::PermissionDenied };
        io::Error::new(kind, error)
    })?;
    let engine = Resolver::default().find(&paths.engine).ok();
    if engine.is_some_and(|engine| engine.identity() == found.identity()) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is the engine's own socket"));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::net::TcpListener;

    use super::*;

    fn paths(state_dir: &Path) -> HostPaths {
        HostPaths { state_dir: state_dir.to_owned(), engine: state_dir.join("engine.sock") }
    }

    async fn start(state_dir: &Path, services: &[HostService]) -> Relay {
        Relay::start(&paths(state_dir), services.to_vec()).await.unwrap().unwrap()
    }

    async fn ask(relay: &Relay, name: &str, request: u8) -> (UnixStream, Option<RelayAnswer>) {
        let folder = relay.mount();
        let mut stream = UnixStream::connect(folder.host_path().join(name)).await.unwrap();
        stream.write_all(&[request]).await.unwrap();
        let answer = stream.read_u8().await.ok().and_then(RelayAnswer::from_byte);
        (stream, answer)
    }

    #[tokio::test]
    async fn stream_reaches_its_service_and_ends_with_the_relay() {
        let state = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let service = HostService::tcp("db", listener.local_addr().unwrap()).unwrap();
        let relay = start(state.path(), &[service]).await;
        assert_eq!(ask(&relay, "db", b'p').await.1, Some(RelayAnswer::Connected));
        assert_eq!(ask(&relay, "db", b'?').await.1, Some(RelayAnswer::Failed));
        let (mut stream, answer) = ask(&relay, "db", b'c').await;
        assert_eq!(answer, Some(RelayAnswer::Connected));
        let (mut served, _) = listener.accept().await.unwrap();
        stream.write_all(b"ping").await.unwrap();
        let mut bytes = [0; 4];
        served.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"ping");
        let folder = relay.mount();
        drop(relay);
        assert_eq!(served.read(&mut bytes).await.unwrap_or(0), 0);
        assert!(!folder.host_path().exists());
    }

    #[tokio::test]
    async fn service_that_is_down_or_behind_a_link_is_unreachable() {
        let state = tempfile::tempdir().unwrap();
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap().local_addr().unwrap();
        // A folder that tasks could write.
        let tree = tempfile::tempdir().unwrap();
        host_path::remember(state.path(), tree.path()).unwrap();
        let engine = UnixListener::bind(state.path().join("engine.sock")).unwrap();
        std::os::unix::fs::symlink(state.path().join("engine.sock"), tree.path().join("link")).unwrap();
        let services = [
            HostService::tcp("down", free).unwrap(),
            HostService::unix("missing", tree.path().join("missing"), 1).unwrap(),
            HostService::unix("link", tree.path().join("link"), 2).unwrap(),
            HostService::unix("engine", state.path().join("engine.sock"), 3).unwrap(),
        ];
        let relay = start(state.path(), &services).await;
        for (name, expected) in [
            ("down", RelayAnswer::Refused),
            ("missing", RelayAnswer::Refused),
            ("link", RelayAnswer::Failed),
            ("engine", RelayAnswer::Failed),
        ] {
            assert_eq!(ask(&relay, name, b'c').await.1, Some(expected), "{name}");
        }
        drop(engine);
    }
}

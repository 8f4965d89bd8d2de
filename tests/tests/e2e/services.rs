//! Services of the host: real databases and HTTP servers, reached by name, and nothing else on the
//! host.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use e2e_tests::DEADLINE;
use e2e_tests::assert_held;
use e2e_tests::fixture::{Fixture, Ran};
use e2e_tests::host;
use e2e_tests::setting::Setting;
use sandbox::{CommandSpec, HostService, Mount, Network, NetworkSandboxConfig};

/// A listening program of the host, which ends with the test.
pub(super) struct Server {
    child: Child,
    lifeline: Option<ChildStdin>,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Server {
    /// Runs `script` in `sh` with its own folder and a free port, and waits until something listens
    /// there.
    fn start(script: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("a bound listener");
        drop(listener);
        let script = format!("{script} & server=$!; read -r _ || :; kill -INT $server; wait $server");
        let mut child = Command::new("sh")
            .args(["-ec", &script, "server"])
            .arg(folder.path())
            .arg(address.port().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("a shell");
        let lifeline = child.stdin.take();
        let began = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert!(began.elapsed() < DEADLINE, "the server does not listen");
            std::thread::sleep(Duration::from_millis(50));
        }
        Self { child, lifeline, address, _folder: folder }
    }

    /// `PostgreSQL`, which refuses to run as root.
    pub(super) fn postgres() -> Self {
        let server = Self::start(
            r#"bin=$(echo /usr/lib/postgresql/*/bin)
as=
if [ "$(id -u)" = 0 ]; then as="setpriv --reuid=65534 --regid=65534 --clear-groups"; chown 65534:65534 "$1"; fi
cd "$1"
$as "$bin/initdb" -D "$1/data" -A trust -U app --no-sync
$as "$bin/postgres" -D "$1/data" -c listen_addresses=127.0.0.1 -c port="$2" -c unix_socket_directories= -c fsync=off"#,
        );
        // It listens before it takes connections.
        let port = server.address.port().to_string();
        let ready =
            r#"bin=$(echo /usr/lib/postgresql/*/bin); exec "$bin/pg_isready" -q -h 127.0.0.1 -p "$1""#;
        let began = Instant::now();
        while !Command::new("sh").args(["-c", ready, "sh", &port]).status().is_ok_and(|ended| ended.success())
        {
            assert!(began.elapsed() < DEADLINE, "the server takes no connections");
            std::thread::sleep(Duration::from_millis(50));
        }
        server
    }

    /// The reference server of the Model Context Protocol, with streamable HTTP at `/mcp`.
    pub(super) fn mcp() -> Self {
        let program = Setting::of_this_run().mcp_server.display();
        Self::start(&format!(r#"PORT="$2" node '{program}' streamableHttp 2>"$1/log""#))
    }

    fn redis() -> Self {
        Self::start(r#"redis-server --bind 127.0.0.1 --port "$2" --dir "$1" --save '' --appendonly no"#)
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn service(&self, name: &str) -> HostService {
        HostService::tcp(name, self.address).expect("a good service")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.lifeline.take());
        let _ = self.child.wait();
    }
}

/// An HTTP server on a Unix socket that responds to each request with its request line.
fn http(socket: &Path) {
    let listener = UnixListener::bind(socket).expect("a socket");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut bytes = [0; 4096];
            let count = std::io::Read::read(&mut stream, &mut bytes).unwrap_or_default();
            let head = String::from_utf8_lossy(bytes.get(..count).unwrap_or_default()).into_owned();
            let line = head.lines().next().unwrap_or_default();
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{line}",
                line.len()
            );
        }
    });
}

fn command(
    fixture: &Fixture,
    allowlist: &str,
    services: impl IntoIterator<Item = HostService>,
    script: &str,
) -> CommandSpec {
    let policy = allowlist::Allowlist::from_yaml(allowlist, "test.yaml").expect("a good allowlist");
    let network = NetworkSandboxConfig::new(policy).services(services).expect("good services");
    fixture.command(allowlist, &["bash", "-c", script]).network(Network::Sandboxed(network))
}

async fn run(
    fixture: &Fixture,
    allowlist: &str,
    services: impl IntoIterator<Item = HostService>,
    script: &str,
) -> Ran {
    fixture.run_spec(command(fixture, allowlist, services, script)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn database_of_the_host_is_reached_by_its_name() {
    let fixture = Fixture::new().await;
    let database = Server::postgres();
    let service = database.service("db").port(5432).expect("a good port");
    let script = "
psql -h db -U app -d postgres -Atc 'create table t (n int)' -c 'insert into t select generate_series(1, 100000)' -c 'select sum(n) from t'
python3 - <<'EOF'
import psycopg2
with psycopg2.connect(host='db', user='app', dbname='postgres') as connection:
    cursor = connection.cursor()
    cursor.execute('select n from t')
    print(len(cursor.fetchall()))
EOF";
    let ran = run(&fixture, "domains: []", [service], script).await;
    assert_eq!(
        ran.stdout, "CREATE TABLE\nINSERT 0 100000\n5000050000\n100000\n",
        "{}{}",
        ran.stderr, ran.log
    );
    assert_eq!(ran.log_lines("allowed STREAM db:5432 -> ").len(), 2, "{}", ran.log);
    // Control: the same client without the service.
    let ran = run(&fixture, "domains: []", [], script).await;
    assert!(ran.stdout.is_empty() && ran.stderr.contains("refused"), "{}{}", ran.stdout, ran.stderr);
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cache_of_the_host_is_reached_by_its_name() {
    let fixture = Fixture::new().await;
    let cache = Server::redis();
    let service = cache.service("cache").port(6379).expect("a good port");
    let script = "redis-cli -h cache set a 1; redis-cli -h cache get a; printf 'PING\\r\\n' | timeout 60 socat - TCP:cache:6379 | head -n 1";
    let ran = run(&fixture, "domains: []", [service], script).await;
    assert!(ran.stdout.starts_with("OK\n1\n+PONG"), "{}{}{}", ran.stdout, ran.stderr, ran.log);
    // An absent service is a logged error, and the task does not have to wait.
    let address = cache.address;
    drop(cache);
    let gone = HostService::tcp("cache", address).and_then(|gone| gone.port(6379)).expect("a good service");
    let ran = run(&fixture, "domains: []", [gone], "redis-cli -h cache get a").await;
    assert_ne!(ran.stdout, "1\n");
    assert_eq!(
        ran.log_lines("ERROR STREAM cache:6379 -> Connect: the service refused").len(),
        1,
        "{}",
        ran.log
    );
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn policy_decides_requests_to_an_http_service() {
    let fixture = Fixture::new().await;
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("mcp.sock");
    http(&socket);
    let service = || HostService::unix("mcp", &socket, 8080).expect("a good service").http();
    let script = "curl -sS http://mcp:8080/tools; echo; curl -sS -o /dev/null -w '%{http_code} ' http://mcp:8080/other http://mcp:8080/tools -X POST http://mcp/tools";
    let policy = "url_prefixes: [{host: mcp, path: /tools, methods: [GET]}]";
    let ran = run(&fixture, policy, [service()], script).await;
    assert_eq!(
        ran.stdout.lines().next(),
        Some("GET /tools HTTP/1.1"),
        "{}{}{}",
        ran.stdout,
        ran.stderr,
        ran.log
    );
    let allowed = ran.log_lines("allowed ");
    assert_held!(allowed.iter().all(|line| line.contains(" GET http://mcp/tools ")), "{}", ran.log);
    assert!(ran.stdout.contains("403"), "{}", ran.stdout);
    assert_eq!(ran.log_lines("allowed GET http://mcp/tools -> 200").len(), 1, "{}", ran.log);
    // Control: a policy that allows the whole host permits the other path.
    let ran = run(&fixture, "domains: [mcp]", [service()], "curl -sS http://mcp:8080/other").await;
    assert_eq!(ran.stdout, "GET /other HTTP/1.1", "{}{}", ran.stderr, ran.log);
    // Without a rule it is unreachable.
    let ran = run(&fixture, "domains: []", [service()], "curl -sS http://mcp:8080/tools").await;
    assert_held!(!ran.stdout.contains("GET /"), "{}", ran.stdout);
    assert!(ran.stdout.contains("not allowed"), "{}", ran.stdout);
    fixture.close().await;
}

/// Prints every TCP port that responds at the addresses in the arguments, and UDP ports 53 and
/// `$UDP`. A port that is silent for some seconds counts as closed: the path to it has two bridges.
const SCAN: &str = r"
import errno, os, resource, select, socket, sys, time
WINDOW, TIMEOUT = 8000, 5
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536), hard))

def tcp(address):
    ports, pending, poll = iter(range(1, 65536)), {}, select.epoll()
    while True:
        while len(pending) < WINDOW and (port := next(ports, None)) is not None:
            sock = socket.socket()
            sock.setblocking(False)
            error = sock.connect_ex((address, port))
            if error == errno.EINPROGRESS:
                pending[sock.fileno()] = sock, port, time.monotonic()
                poll.register(sock, select.EPOLLOUT)
            elif error == 0:
                yield port
        if not pending:
            return
        ready = {fd for fd, _ in poll.poll(0.1, WINDOW)}
        late = time.monotonic() - TIMEOUT
        for fd in [fd for fd, (_, _, begun) in pending.items() if fd in ready or begun < late]:
            sock, port, _ = pending.pop(fd)
            if fd in ready and sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
                yield port
            poll.unregister(sock)
            sock.close()

def udp(address):
    question = b'\x12\x34\x01\0\0\1\0\0\0\0\0\0\1x\4test\0\0\1\0\1'
    for port in (53, int(os.environ['UDP'])):
        # After a scan of every port, the host may lose one.
        for _ in range(3):
            sock = socket.socket(type=socket.SOCK_DGRAM)
            sock.settimeout(TIMEOUT)
            try:
                sock.sendto(question, (address, port))
                # From whichever of its addresses the host answers.
                sock.recvfrom(512)
            except OSError:
                continue
            yield port
            break

for address in sys.argv[1:]:
    for port in sorted(tcp(address)): print(f'{address} tcp {port}')
    for port in udp(address): print(f'{address} udp {port}')
";

/// The host's own addresses, without loopback and those of networks that other tests may remove
/// meanwhile.
fn host_addresses() -> Vec<String> {
    let list = host::inside(|| Command::new("ip").args(["-4", "-oneline", "address"]).output().expect("ip"));
    let text = String::from_utf8_lossy(&list.stdout).into_owned();
    let addresses = text.lines().filter_map(|line| line.split_whitespace().nth(3)?.split_once('/'));
    let lasting = |address: &String| !address.starts_with("127.") && !address.starts_with("10.");
    addresses.map(|(address, _)| address.to_owned()).filter(lasting).collect()
}

/// Starts a UDP service of the host that responds to everything; returns its port.
fn udp_service() -> u16 {
    let socket = host::inside(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a port of the host"));
    let port = socket.local_addr().expect("a bound socket").port();
    std::thread::spawn(move || {
        let mut bytes = [0; 512];
        while let Ok((_, from)) = socket.recv_from(&mut bytes) {
            let _ = socket.send_to(b"here", from);
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread")]
async fn scan_of_all_ports_finds_only_named_services() {
    let fixture = Fixture::new().await;
    let cache = Server::redis();
    let service = cache.service("cache").port(6379).expect("a good port");
    let (open, udp) = (host::HostService::start().port(), udp_service());
    let addresses = host_addresses().join(" ");
    // The proxy has the second address of its network; the first would be the gateway's.
    let find = "proxy=$(getent ahostsv4 cache | head -n 1 | cut -d' ' -f1); gateway=${proxy%.*}.$((${proxy##*.} - 1))";
    let scan = |find: &str, addresses: &str| {
        format!(
            "{find}; echo from $proxy $gateway; UDP={udp} python3 - $proxy $gateway {addresses} <<'EOF'\n{SCAN}\nEOF"
        )
    };
    let ran = run(&fixture, "domains: []", [service], &scan(find, &addresses)).await;
    let mut lines = ran.stdout.lines();
    let proxy = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap_or_default();
    let expected =
        ["tcp 53", "tcp 80", "tcp 443", "tcp 6379", "udp 53"].map(|port| format!("{proxy} {port}"));
    let found: Vec<&str> = lines.collect();
    let is_named = |port: &&str| expected.iter().any(|expected| expected == port);
    assert_held!(found.iter().all(is_named), "{} {}", ran.stdout, ran.stderr);
    assert_eq!(found, expected, "{} {}", ran.stdout, ran.stderr);
    assert_eq!(ran.code, 0, "all of it was scanned: {}", ran.stderr);
    // Control: in a plain container, the same scan finds the listeners of the host.
    let plain = fixture.command("domains: []", &["bash", "-c", &scan(":", &addresses)]);
    let ran = fixture.run_spec(plain.network(Network::Unrestricted)).await;
    for found in [format!(" tcp {open}"), format!(" udp {udp}")] {
        assert!(
            ran.stdout.lines().any(|line| line.ends_with(&found)),
            "{found}: {} {}",
            ran.stdout,
            ran.stderr
        );
    }
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn link_made_by_a_task_reaches_no_socket() {
    let fixture = Fixture::new().await;
    let tree = tempfile::tempdir().expect("a folder");
    let elsewhere = tempfile::tempdir().expect("a folder");
    let secret = elsewhere.path().join("secret.sock");
    http(&secret);
    let path = tree.path().join("x.sock");
    http(&path);
    let service = || HostService::unix("mcp", &path, 8080).expect("a good service").http();
    let with_tree = |script: &str| {
        command(&fixture, "domains: [mcp]", [service()], script)
            .mount(Mount::read_write(tree.path(), "/work"))
    };
    let ask = "curl -sS -m 60 http://mcp:8080/x";
    let ran = fixture.run_spec(with_tree(ask)).await;
    assert_eq!(ran.stdout, "GET /x HTTP/1.1", "the control: {}{}", ran.stderr, ran.log);
    let replace = format!("rm /work/x.sock && ln -s {} /work/x.sock", secret.display());
    assert_eq!(fixture.run_spec(with_tree(&replace)).await.code, 0);
    let ran = fixture.run_spec(with_tree(ask)).await;
    assert_held!(!ran.stdout.contains("GET /x"), "{}", ran.stdout);
    assert_eq!(ran.log_lines("ERROR GET http://mcp/x -> ").len(), 1, "{}", ran.log);
    // A service cannot be the engine's socket, even if the caller names it.
    let engine = Setting::of_this_run().engine.trim_start_matches("unix://").to_owned();
    let service = HostService::unix("engine", engine, 8080).expect("a good service").http();
    let ran = run(&fixture, "domains: [engine]", [service], "curl -sS -m 60 http://engine:8080/_ping").await;
    assert_held!(!ran.stdout.starts_with("OK"), "{}", ran.stdout);
    assert_eq!(ran.log_lines("ERROR GET http://engine/_ping -> ").len(), 1, "{}", ran.log);
    fixture.close().await;
}

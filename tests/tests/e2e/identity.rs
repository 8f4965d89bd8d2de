//! One identity and one reading of the path: claims of a client inside a task are not trusted.

use e2e_tests::assert_held;
use e2e_tests::fixture::Fixture;
use e2e_tests::world::World;

const POLICY: &str = "
domains: [open.test]
url_prefixes:
  - {host: repo.test, path: /repos/ours/*}
";

/// Sends raw requests and prints the status of each answer.
const RAW: &str = "
import socket, ssl, sys
def status(sock, request):
    sock.settimeout(10)
    sock.sendall(request)
    answer = b''
    while b'\\r\\n' not in answer:
        piece = sock.recv(4096)
        if not piece: break
        answer += piece
    return answer.split(b' ')[1].decode() if b' ' in answer else 'closed'
def plain(request, host='open.test'):
    with socket.create_connection((host, 80), timeout=10) as sock:
        return status(sock, request)
def tls(request, sni='open.test'):
    context = ssl.create_default_context()
    with socket.create_connection((sni, 443), timeout=10) as sock:
        with context.wrap_socket(sock, server_hostname=sni) as sock:
            return status(sock, request)
";

async fn statuses(program: &str) -> (Vec<String>, String) {
    let fixture = Fixture::new().await;
    let ran = fixture.run(POLICY, &format!("python3 - <<'EOF'\n{RAW}\n{program}\nEOF")).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    fixture.close().await;
    (ran.stdout.lines().map(str::to_owned).collect(), ran.log)
}

#[tokio::test(flavor = "multi_thread")]
async fn host_other_than_the_server_name_is_misdirected() {
    let (statuses, log) = statuses(
        r"
print(tls(b'GET / HTTP/1.1\r\nHost: open.test\r\n\r\n'))
print(tls(b'GET / HTTP/1.1\r\nHost: victim.test\r\n\r\n'))
print(tls(b'GET https://victim.test/ HTTP/1.1\r\nHost: open.test\r\n\r\n'))
print(plain(b'GET http://victim.test/ HTTP/1.1\r\nHost: open.test\r\n\r\n'))
",
    )
    .await;
    assert_held!(World::shared().seen("victim.test").is_empty(), "{statuses:?}\n{log}");
    assert_held!(statuses.iter().skip(1).all(|status| status != "200"), "{statuses:?}\n{log}");
    assert_eq!(statuses, ["200", "421", "421", "421"], "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ambiguous_path_is_refused() {
    let (statuses, log) = statuses(
        r"
for path in (b'/repos/ours/x', b'/repos/ours/../theirs', b'/repos/ours/%2e%2e/theirs', b'/repos/ours/%252e%252e/theirs',
             b'/repos/ours/..%2ftheirs', b'/repos/ours/..;v=1/theirs', b'/repos/ours/..?x=1', b'/repos/ours/%5c..%5ctheirs',
             b'/repos/ours/%00', b'/repos/ours/%zz', b'/repos/ours/..\\theirs'):
    print(tls(b'GET ' + path + b' HTTP/1.1\r\nHost: repo.test\r\n\r\n', 'repo.test'))
",
    )
    .await;
    let (first, rest) = statuses.split_first().expect("answers");
    assert_eq!(first, "200", "{log}");
    let seen = World::shared().seen("repo.test");
    assert_held!(seen.iter().all(|seen| seen.target == "/repos/ours/x"), "{seen:?}");
    assert_held!(!rest.contains(&"200".to_owned()), "{statuses:?}\n{log}");
    assert!(rest.iter().all(|status| status == "403" || status == "400"), "{statuses:?}\n{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn connection_without_a_server_name_is_refused() {
    let fixture = Fixture::new().await;
    let ran = fixture
        .run(POLICY, "openssl s_client -noservername -connect open.test:443 </dev/null 2>&1 | grep -ci alert; echo raw | socat -t 2 - TCP:open.test:443 >/dev/null; true")
        .await;
    assert_held!(ran.stdout.trim() != "0", "the request was accepted: {}", ran.log);
    assert!(
        ran.log_lines("BLOCKED TLS - -> ").iter().any(|line| line.ends_with("[reason: no_sni]")),
        "{}",
        ran.log
    );
    fixture.close().await;
}

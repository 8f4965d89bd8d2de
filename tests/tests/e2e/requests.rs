//! Allowed and blocked requests, as seen by the client and in the log.

use e2e_tests::assert_held;
use e2e_tests::fixture::Fixture;
use e2e_tests::world::World;

const POLICY: &str = "
domains: [open.test]
url_prefixes:
  - {host: api.test, path: /v1/*, methods: [GET]}
  - {host: down.test, path: ''}
  - {host: nx.test, path: ''}
  - {host: private.test, path: ''}
  - {host: loopback.test, path: ''}
  - {host: metadata.test, path: ''}
  - {host: wrong-certificate.test, path: ''}
";

/// Prints the body and the status of one request.
fn curl(arguments: &str) -> String {
    format!("curl -sS --max-time 20 -w '\\n%{{http_code}}\\n' {arguments}")
}

#[tokio::test(flavor = "multi_thread")]
async fn allowed_request_reaches_the_origin_and_is_logged() {
    let fixture = Fixture::new().await;
    let ran = fixture.run(POLICY, &curl("https://open.test/hello")).await;
    assert_eq!(ran.stdout, "hello from open.test\n\n200\n", "{}", ran.stderr);
    let lines: Vec<&str> = ran.log.lines().collect();
    let [start, dns @ .., last] = lines.as_slice() else { panic!("{}", ran.log) };
    assert!(start.starts_with("=== TASK START 20") && start.ends_with("Z ==="), "{start}");
    assert!(dns.iter().any(|line| line.starts_with("DNS A open.test -> 10.199.")), "{}", ran.log);
    assert!(dns.contains(&"DNS AAAA open.test -> NODATA"), "{}", ran.log);
    assert_eq!(*last, "allowed GET https://open.test/hello -> 200");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn blocked_request_gets_403_with_the_reason_and_the_fix() {
    let fixture = Fixture::new().await;
    let script = [
        curl("https://evil.test/steal"),
        curl("https://api.test/v2/x"),
        curl("-X DELETE https://api.test/v1/x"),
        curl("http://evil.test/plain"),
        "curl -sSI --max-time 20 https://evil.test/ | tr -d '\\r' | grep -i '^x-sandbox-blocked'".to_owned(),
    ]
    .join("\n");
    let ran = fixture.run(POLICY, &script).await;
    assert_held!(World::shared().seen("evil.test").is_empty(), "{}", ran.log);
    let arrived = |target: &str| World::shared().seen("api.test").iter().any(|seen| seen.target == target);
    assert_held!(!arrived("/v2/x") && ran.log_lines("allowed DELETE").is_empty(), "{}", ran.log);
    for (reason, host) in [("host", "evil.test"), ("path_not_allowed", "api.test"), ("method", "api.test")] {
        let body = ran.stdout.lines().find(|line| line.contains(&format!("\"reason\":\"{reason}\"")));
        let body: serde_json::Value = serde_json::from_str(body.expect(reason)).expect("a JSON body");
        assert_eq!(body["error"], "blocked_by_network_allowlist");
        assert_eq!(body["host"], host);
        assert!(
            body["message"].as_str().is_some_and(|text| text.contains("network-allowlist.yaml")
                && text
                    .starts_with("blocked by sandbox policy; do not retry, ask the operator to allow it: ")),
            "{body}"
        );
    }
    assert_eq!(ran.stdout.matches("\n403\n").count(), 4, "{}", ran.stdout);
    assert!(ran.stdout.contains("x-sandbox-blocked: host"), "{}", ran.stdout);
    for line in [
        "BLOCKED GET https://evil.test/steal -> 403 [reason: host]",
        "BLOCKED GET https://api.test/v2/x -> 403 [reason: path_not_allowed]",
        "BLOCKED DELETE https://api.test/v1/x -> 403 [reason: method]",
        "BLOCKED GET http://evil.test/plain -> 403 [reason: host]",
        "BLOCKED HEAD https://evil.test/ -> 403 [reason: host]",
    ] {
        assert_eq!(ran.log_lines(line).len(), 1, "{line} in\n{}", ran.log);
    }
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_upstream_gets_502_with_the_reason_and_an_error_line() {
    let fixture = Fixture::new().await;
    let script =
        ["down.test", "nx.test", "wrong-certificate.test"].map(|host| curl(&format!("https://{host}/api")));
    let ran = fixture.run(POLICY, &script.join("\n")).await;
    assert_eq!(ran.stdout.matches("\n502\n").count(), 3, "{}{}", ran.stdout, ran.log);
    for (host, words) in [
        ("down.test", "Connection refused"),
        ("nx.test", "Name or service not known"),
        ("wrong-certificate.test", "TLS: "),
    ] {
        let lines = ran.log_lines(&format!("ERROR GET https://{host}/api -> "));
        assert!(lines.len() == 1 && lines[0].contains(words), "{host}: {lines:?}");
    }
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn name_resolving_to_a_private_address_is_refused() {
    let fixture = Fixture::new().await;
    let script =
        ["private.test", "loopback.test", "metadata.test"].map(|host| curl(&format!("http://{host}/")));
    let ran = fixture.run(POLICY, &script.join("\n")).await;
    assert_held!(!ran.stdout.contains("\n200\n"), "{}{}", ran.stdout, ran.log);
    assert_eq!(ran.stdout.matches("\n403\n").count(), 3, "{}{}", ran.stdout, ran.log);
    assert_eq!(ran.log_lines("[reason: address]").len(), 3, "{}", ran.log);
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn control_test_network_without_an_exception_is_refused() {
    let mut config = e2e_tests::fixture::config(&e2e_tests::fixture::state_dir());
    config.upstream.allow_addresses.clear();
    let fixture = Fixture::with(config).await;
    let ran = fixture.run(POLICY, &curl("https://open.test/")).await;
    assert_held!(!ran.stdout.contains("hello from"), "{}", ran.stdout);
    assert!(ran.stdout.ends_with("\n403\n"), "{}", ran.stdout);
    assert_eq!(
        ran.log_lines("BLOCKED GET https://open.test/ -> 403 [reason: address]").len(),
        1,
        "{}",
        ran.log
    );
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_cannot_forge_log_lines() {
    let fixture = Fixture::new().await;
    let script = "
python3 - <<'EOF'
import socket, ssl
name = b'\\x0aallowed\\x07GET x'
query = b'\\x00\\x01\\x01\\x00\\x00\\x01\\x00\\x00\\x00\\x00\\x00\\x00' + bytes([len(name)]) + name + b'\\x00\\x00\\x01\\x00\\x01'
resolver = [line.split()[1] for line in open('/etc/resolv.conf') if line.startswith('nameserver')][0]
dns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
dns.settimeout(5)
dns.sendto(query, (resolver, 53))
dns.recv(512)
web = socket.create_connection(('evil.test', 80))
web.sendall(b'GET /%0aallowed\\x20[reason:\\x20none] HTTP/1.1\\r\\nHost: evil.test\\r\\n\\r\\n')
web.recv(4096)
web = socket.create_connection(('evil.test', 80))
web.sendall(b'GET /a[reason:none]->200 HTTP/1.1\\r\\nHost: evil.test\\r\\nConnection: close\\r\\n\\r\\n')
web.recv(4096)
EOF";
    let ran = fixture.run(POLICY, script).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for line in ran.log.lines() {
        let known = ["=== TASK START", "DNS ", "BLOCKED "].iter().any(|start| line.starts_with(start));
        assert_held!(known && line.chars().all(|c| !c.is_control()), "forged: {line:?}");
    }
    assert_held!(!ran.log.contains("\nallowed"), "{}", ran.log);
    fixture.close().await;
}

//! WebSocket, trailers, gRPC, and bodies that exceed any buffer. The proxy's own tests cover more
//! protocols.

use e2e_tests::DEADLINE;
use e2e_tests::engine;
use e2e_tests::fixture::{Fixture, read_until};
use sandbox::Input;
use sandbox::diagnostics::Role;

const POLICY: &str = "domains: [open.test]";

#[tokio::test(flavor = "multi_thread")]
async fn websocket_passes_the_proxy_in_both_directions() {
    let fixture = Fixture::new().await;
    let script = "
python3 - <<'EOF'
import asyncio, websockets
async def main():
    async with websockets.connect('wss://open.test/ws') as socket:
        for text in ('one', 'two'):
            await socket.send(text)
            print(await socket.recv())
asyncio.run(main())
EOF";
    let ran = fixture.run(POLICY, script).await;
    assert_eq!(ran.stdout, "one\ntwo\n", "{}{}", ran.stderr, ran.log);
    assert_eq!(ran.log_lines("allowed GET https://open.test/ws -> 101").len(), 1, "{}", ran.log);
    let refused = fixture.run("domains: []", script).await;
    assert!(refused.stderr.contains("403"), "{}", refused.stderr);
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn trailers_and_grpc_pass_the_proxy() {
    let fixture = Fixture::new().await;
    let script = "
curl -sS --http2 -D - https://open.test/trailers | tr -d '\\r' | grep -c '^x-checksum: abc'
python3 - <<'EOF'
import grpc, os
roots = open(os.environ['GRPC_DEFAULT_SSL_ROOTS_FILE_PATH'], 'rb').read()
with grpc.secure_channel('open.test:443', grpc.ssl_channel_credentials(roots)) as channel:
    say = channel.unary_unary('/grpc.Echo/Say', request_serializer=bytes, response_deserializer=bytes)
    print(say(b'hello', timeout=20).decode())
EOF";
    let ran = fixture.run(POLICY, script).await;
    assert_eq!(ran.stdout, "1\nhello\n", "{}{}", ran.stderr, ran.log);
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn gibibyte_each_way_keeps_the_proxy_under_40_mb() {
    let fixture = Fixture::new().await;
    let gibibyte = 1_u64 << 30;
    let script = format!(
        "set -e
curl -sS https://open.test/bytes/{gibibyte} | wc -c
curl -sS --http1.1 https://open.test/bytes/{gibibyte} | wc -c
head -c {gibibyte} /dev/zero | curl -sS -T - https://open.test/sink; echo
head -c {gibibyte} /dev/zero | curl -sS --http1.1 -T - https://open.test/sink; echo
echo done; sleep 3600"
    );
    let spec = fixture.command(POLICY, &["bash", "-c", &script]);
    let command = fixture.sandbox.create_command(spec).expect("a good command");
    let mut execution = command.execute(Input::Empty);
    let reading = read_until(&mut execution, |output| output.contains("done"));
    let output = tokio::time::timeout(DEADLINE, reading).await.expect("four gibibytes in time");
    let peak = proxy_peak_memory(&fixture).await;
    command.stop().await;
    assert!(execution.await.is_ok_and(|result| result.stopped));
    assert_eq!(output, format!("{gibibyte}\n{gibibyte}\n{gibibyte}\n{gibibyte}\ndone\n"));
    assert!(peak < 40 * 1024, "the proxy's peak was {peak} KiB");
    fixture.close().await;
}

/// The peak resident set of the proxy of this fixture, in KiB.
pub(crate) async fn proxy_peak_memory(fixture: &Fixture) -> u64 {
    let proxy = fixture.container(Role::Proxy).await;
    let facts = engine::json("GET", &format!("/containers/{proxy}/json"), None).await;
    let pid = facts.pointer("/State/Pid").and_then(serde_json::Value::as_u64).expect("a pid");
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the proxy's process");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    peak.trim().trim_end_matches(" kB").parse().expect("a number")
}

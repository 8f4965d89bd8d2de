//! Many server names, deliberately slow clients, and the maximum number of concurrent streams.

use std::time::Duration;

use e2e_tests::fixture::Fixture;
use e2e_tests::world::World;

use super::attack::{MOST, attack};

const POLICY: &str = "domains: [open.test]";

#[tokio::test(flavor = "multi_thread")]
async fn twenty_thousand_server_names_take_no_memory() {
    let fixture = Fixture::new().await;
    let script = "/probe names names.test 20000
curl -sS --max-time 30 https://open.test/
echo done; sleep 3600";
    let attack = attack(&fixture, fixture.command(POLICY, &["bash", "-c", script])).await;
    assert_eq!(
        attack.output, "{\"detail\":\"20000\",\"outcome\":\"reached\"}\nhello from open.test\ndone\n",
        "every name got a certificate"
    );
    assert!(attack.peak < MOST, "{} KiB", attack.peak);
    fixture.close().await;
}

/// 300 connections exceed the proxy's limit. It closes all of them, the first at once and the last
/// after ten seconds; earlier and later clients are served.
#[tokio::test(flavor = "multi_thread")]
async fn slow_connections_are_closed_and_others_are_served() {
    let fixture = Fixture::new().await;
    let name = format!("slowloris-{}", std::process::id());
    let script = format!(
        "exec 3< <(curl -sSN https://open.test/sse/{name})
read -r line <&3; echo \"$line\"
/probe slow open.test 443 300 60
/probe slow open.test 80 300 60
until curl -s --max-time 30 https://open.test/; do sleep 1; done
curl -sS https://after-slow.test/
cat <&3
echo done; sleep 3600"
    );
    World::shared().forget("after-slow.test");
    let spec = fixture.command("domains: [open.test, after-slow.test]", &["bash", "-c", &script]);
    let releasing = async {
        // The second event is sent only after the attack: until then the stream was open.
        while World::shared().seen("after-slow.test").is_empty() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        World::shared().release(&name);
    };
    let (attack, ()) = tokio::join!(attack(&fixture, spec), releasing);
    let closed = "{\"detail\":\"300\",\"outcome\":\"reached\"}\n";
    assert_eq!(
        attack.output,
        format!(
            "data: first\n{closed}{closed}hello from open.test\nhello from after-slow.test\n\ndata: second\n\ndone\n"
        )
    );
    assert!(attack.peak < MOST, "{} KiB", attack.peak);
    fixture.close().await;
}

/// Opens streams that stay open, then a page in addition, then more streams than permitted.
const STREAMS: &str = "
const http2 = require('http2');
const { execSync } = require('child_process');
const open = (sessions, streams) => Promise.all([...Array(sessions)].flatMap(() => {
    const session = http2.connect('https://open.test');
    return [...Array(streams)].map(() => new Promise((resolve, reject) => {
        const stream = session.request({ ':path': '/sse/STREAM' });
        stream.on('response', (head) => { if (head[':status'] !== 200) resolve(head[':status']); });
        stream.once('data', () => resolve(200));
        stream.on('error', reject);
    }));
}));
const count = (all, status) => all.filter((it) => it === status).length;
(async () => {
    console.log(count(await open(4, 125), 200));
    process.stdout.write(execSync('curl -sS --max-time 30 https://open.test/'));
    const more = await open(1, 40);
    console.log(count(more, 200) <= 12, count(more, 200) + count(more, 503));
    console.log('done');
})();
";

#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_concurrent_streams_are_served_and_more_are_refused() {
    let fixture = Fixture::new().await;
    let script = STREAMS.replace("STREAM", &format!("streams-{}", std::process::id()));
    let attack = attack(&fixture, fixture.command(POLICY, &["node", "-e", &script])).await;
    assert_eq!(attack.output, "500\nhello from open.test\ntrue 40\ndone\n");
    assert!(attack.peak < MOST, "{} KiB", attack.peak);
    fixture.close().await;
}

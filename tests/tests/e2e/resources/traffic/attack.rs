//! A script that attacks its proxy, and what can be said of both.

use e2e_tests::DEADLINE;
use e2e_tests::fixture::Fixture;
use futures_util::StreamExt as _;
use sandbox::{CommandSpec, Input, OutputChunk};

use crate::protocols::proxy_peak_memory;

/// What the proxy may ever have had resident, in KiB.
pub(super) const MOST: u64 = 40 * 1024;

/// What came of an attack.
pub(super) struct Attack {
    /// What the script printed until it was done.
    pub(super) output: String,
    /// The most memory, in KiB, that its proxy had at once.
    pub(super) peak: u64,
}

/// Runs `spec` until it prints `done`; stops it then. Meanwhile another task of the same engine
/// asks for a page time and again, and must get it.
pub(super) async fn attack(fixture: &Fixture, spec: CommandSpec) -> Attack {
    Box::pin(watched(fixture, spec)).await
}

async fn watched(fixture: &Fixture, spec: CommandSpec) -> Attack {
    let command = fixture.sandbox.create_command(spec).expect("a good command");
    let mut output = Vec::new();
    let mut execution = command.execute(Input::Empty);
    let done = async {
        while let Some(OutputChunk::Stdout(bytes) | OutputChunk::Stderr(bytes)) = execution.next().await {
            output.extend_from_slice(&bytes);
            if output.ends_with(b"done\n") {
                return true;
            }
        }
        false
    };
    let (attacked, ()) = tokio::join!(tokio::time::timeout(DEADLINE, done), neighbour(fixture));
    let peak = proxy_peak_memory(fixture).await;
    command.stop().await;
    let result = execution.await;
    let output = String::from_utf8_lossy(&output).into_owned();
    assert!(matches!(attacked, Ok(true)), "it was done in time: {output}");
    assert!(result.expect("the sandbox works").stopped, "{output}");
    Attack { output, peak }
}

/// Another task, with a proxy of its own.
async fn neighbour(fixture: &Fixture) {
    let other = Fixture::new().await;
    let ran = other
        .run(
            "domains: [open.test]",
            "for i in 1 2 3; do curl -sS --max-time 20 https://open.test/$i || exit; sleep 1; done",
        )
        .await;
    assert_eq!(
        ran.stdout,
        "hello from open.test\n".repeat(3),
        "{} {}",
        fixture.sandbox.instance_id(),
        ran.stderr
    );
    other.close().await;
}

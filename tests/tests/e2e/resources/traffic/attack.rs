//! A script that attacks its proxy, and measurements of both.

use e2e_tests::DEADLINE;
use e2e_tests::fixture::Fixture;
use futures_util::StreamExt as _;
use sandbox::{CommandSpec, Input, OutputChunk};

use crate::protocols::proxy_peak_memory;

/// The limit on the proxy's peak resident memory, in KiB.
pub(super) const MOST: u64 = 40 * 1024;

/// The result of an attack.
pub(super) struct Attack {
    /// The output of the script until `done`.
    pub(super) output: String,
    /// The peak memory of its proxy, in KiB.
    pub(super) peak: u64,
}

/// Runs `spec` until it prints `done`, then stops it. Meanwhile another task of the same engine
/// requests a page repeatedly, and must receive it.
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
    assert!(matches!(attacked, Ok(true)), "the attack did not finish in time: {output}");
    assert!(result.expect("the sandbox works").stopped, "{output}");
    Attack { output, peak }
}

/// Another task, with its own proxy.
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

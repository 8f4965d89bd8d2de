//! A script that attacks its proxy, and what can be said of both.

use e2e_tests::DEADLINE;
use e2e_tests::bed::Bed;
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

/// Runs `spec` until it prints `done`; stops it then. Meanwhile another task of the same engine asks for a page time and again, and must get it.
pub(super) async fn attack(bed: &Bed, spec: CommandSpec) -> Attack {
    Box::pin(watched(bed, spec)).await
}

async fn watched(bed: &Bed, spec: CommandSpec) -> Attack {
    let command = bed.sandbox.create_command(spec).expect("a good command");
    let (done, finished) = tokio::sync::oneshot::channel();
    let mut done = Some(done);
    let mut output = Vec::new();
    let running = command.execute(Input::Empty, async |chunk| {
        let (OutputChunk::Stdout(bytes) | OutputChunk::Stderr(bytes)) = chunk;
        output.extend_from_slice(&bytes);
        if output.ends_with(b"done\n")
            && let Some(done) = done.take()
        {
            let _ = done.send(());
        }
    });
    let watching = async {
        let attacked = tokio::time::timeout(DEADLINE, finished);
        let (attacked, ()) = tokio::join!(attacked, neighbour(bed));
        let peak = proxy_peak_memory(bed).await;
        command.stop().await;
        (attacked, peak)
    };
    let (result, (attacked, peak)) = tokio::join!(running, watching);
    let output = String::from_utf8_lossy(&output).into_owned();
    assert!(matches!(attacked, Ok(Ok(()))), "it was done in time: {output}");
    assert!(result.expect("the sandbox works").stopped, "{output}");
    Attack { output, peak }
}

/// Another task, with a proxy of its own.
async fn neighbour(bed: &Bed) {
    let other = Bed::new().await;
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
        bed.sandbox.instance_id(),
        ran.stderr
    );
    other.close().await;
}

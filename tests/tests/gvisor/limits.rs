//! Limits: the host's kernel enforces them for all of gVisor, so exceeding one ends the container.

use e2e_tests::fixture::{Fixture, Ran};
use sandbox::{ByteSize, ResourceLimits};

use super::fixture::spec;
use super::hook;

async fn limited(fixture: &Fixture, script: &str, limits: ResourceLimits) -> Ran {
    let limits = limits.timeout(ResourceLimits::untrusted().timeout);
    fixture.run_spec(spec(fixture, script).limits(limits)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_processes_end_the_container() {
    let _hook = hook::keep();
    let fixture = Fixture::new().await;
    let script = "for i in $(seq 150); do sleep 60 & done; echo all $(jobs -p | wc -l)";
    let few = ResourceLimits::default().pids(100);
    let ran = limited(&fixture, script, few).await;
    assert_ne!(ran.code, 0, "{ran:?}");
    assert_eq!(ran.stdout, "");
    let control = limited(&fixture, script, ResourceLimits::default()).await;
    assert_eq!((control.code, &*control.stdout), (0, "all 150\n"), "{control:?}");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn too_much_memory_ends_the_container() {
    let _hook = hook::keep();
    let fixture = Fixture::new().await;
    let script = "python3 -c 'x = bytearray(b\"x\") * (300 << 20); print(len(x))'";
    let little = ResourceLimits::default().memory(ByteSize::mib(128));
    let ran = limited(&fixture, script, little).await;
    assert_ne!(ran.code, 0, "{ran:?}");
    assert_eq!(ran.stdout, "");
    let control = limited(&fixture, script, ResourceLimits::default()).await;
    assert_eq!((control.code, &*control.stdout), (0, "314572800\n"), "{control:?}");
    fixture.close().await;
}

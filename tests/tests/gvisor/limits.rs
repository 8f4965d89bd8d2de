//! Limits: the host's kernel holds them for the whole of gVisor, so that whoever exceeds one ends the container.

use e2e_tests::bed::{Bed, Ran};
use sandbox::{ByteSize, ResourceLimits};

use super::bed::spec;
use super::hook;

async fn limited(bed: &Bed, script: &str, limits: ResourceLimits) -> Ran {
    let limits = limits.timeout(ResourceLimits::untrusted().timeout);
    bed.run_spec(spec(bed, script).limits(limits)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_processes_end_the_container() {
    let _hook = hook::stays();
    let bed = Bed::new().await;
    let script = "for i in $(seq 150); do sleep 60 & done; echo all $(jobs -p | wc -l)";
    let few = ResourceLimits::default().pids(100);
    let ran = limited(&bed, script, few).await;
    assert_ne!(ran.code, 0, "{ran:?}");
    assert_eq!(ran.stdout, "");
    let control = limited(&bed, script, ResourceLimits::default()).await;
    assert_eq!((control.code, &*control.stdout), (0, "all 150\n"), "{control:?}");
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn too_much_memory_ends_the_container() {
    let _hook = hook::stays();
    let bed = Bed::new().await;
    let script = "python3 -c 'x = bytearray(b\"x\") * (300 << 20); print(len(x))'";
    let little = ResourceLimits::default().memory(ByteSize::mib(128));
    let ran = limited(&bed, script, little).await;
    assert_ne!(ran.code, 0, "{ran:?}");
    assert_eq!(ran.stdout, "");
    let control = limited(&bed, script, ResourceLimits::default()).await;
    assert_eq!((control.code, &*control.stdout), (0, "314572800\n"), "{control:?}");
    bed.close().await;
}

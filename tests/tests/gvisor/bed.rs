//! Isolations that demand gVisor, and scripts in them.

use e2e_tests::bed::{Bed, Ran};
use sandbox::isolation::Runtime;
use sandbox::{CommandSpec, Isolation, Network};

/// `preset`, in gVisor or not at all.
pub(super) fn in_gvisor(preset: Isolation) -> Isolation {
    Isolation { runtime: Some(Runtime::Runsc), ..preset }
}

/// A command without a network, in gVisor or not at all.
pub(super) fn spec(bed: &Bed, script: &str) -> CommandSpec {
    bed.command("domains: []", &["bash", "-c", script])
        .network(Network::Disabled)
        .isolation(in_gvisor(Isolation::agent()))
}

pub(super) async fn run(bed: &Bed, script: &str) -> Ran {
    bed.run_spec(spec(bed, script)).await
}

//! Isolations that demand gVisor, and scripts in them.

use e2e_tests::fixture::{Fixture, Ran};
use sandbox::isolation::Runtime;
use sandbox::{CommandSpec, Isolation, Network};

/// `preset` with gVisor demanded.
pub(super) fn in_gvisor(preset: Isolation) -> Isolation {
    Isolation { runtime: Some(Runtime::Runsc), ..preset }
}

/// A command without a network, with gVisor demanded.
pub(super) fn spec(fixture: &Fixture, script: &str) -> CommandSpec {
    fixture
        .command("domains: []", &["bash", "-c", script])
        .network(Network::Disabled)
        .isolation(in_gvisor(Isolation::agent()))
}

pub(super) async fn run(fixture: &Fixture, script: &str) -> Ran {
    fixture.run_spec(spec(fixture, script)).await
}

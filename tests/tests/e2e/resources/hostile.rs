//! Commands of the untrusted.

use e2e_tests::DEADLINE;
use e2e_tests::bed::{Bed, Ran};
use sandbox::{ByteSize, CommandSpec, Isolation, Network, ResourceLimits};

pub(super) const PYTHON: &str = "python3";

/// A command of the untrusted.
pub(super) fn hostile(bed: &Bed, command: &[&str]) -> CommandSpec {
    bed.command("domains: []", command)
        .network(Network::Disabled)
        .isolation(Isolation::untrusted())
        .limits(limits())
}

pub(super) fn limits() -> ResourceLimits {
    ResourceLimits::untrusted().timeout(DEADLINE).memory(ByteSize::mib(128))
}

pub(super) async fn run(bed: &Bed, command: &[&str]) -> Ran {
    bed.run_spec(hostile(bed, command)).await
}

/// The bed works as it did before.
pub(super) async fn still_usable(bed: &Bed) {
    let ran = bed.run("domains: []", "echo usable").await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "usable\n"), "{}", ran.stderr);
}

//! Untrusted commands.

use e2e_tests::DEADLINE;
use e2e_tests::fixture::{Fixture, Ran};
use sandbox::{ByteSize, CommandSpec, Isolation, Network, ResourceLimits};

pub(super) const PYTHON: &str = "python3";

/// An untrusted command.
pub(super) fn hostile(fixture: &Fixture, command: &[&str]) -> CommandSpec {
    fixture
        .command("domains: []", command)
        .network(Network::Disabled)
        .isolation(Isolation::untrusted())
        .limits(limits())
}

pub(super) fn limits() -> ResourceLimits {
    ResourceLimits::untrusted().timeout(DEADLINE).memory(ByteSize::mib(128))
}

pub(super) async fn run(fixture: &Fixture, command: &[&str]) -> Ran {
    fixture.run_spec(hostile(fixture, command)).await
}

/// Checks that the fixture still works.
pub(super) async fn still_usable(fixture: &Fixture) {
    let ran = fixture.run("domains: []", "echo usable").await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "usable\n"), "{}", ran.stderr);
}

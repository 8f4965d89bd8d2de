//! `sandbox verify` in gVisor: the checks that fail. docs/gvisor.md explains why.

use std::collections::BTreeSet;

use e2e_tests::fixture::{self, Fixture};
use sandbox::diagnostics::VerifySpec;
use sandbox::{Isolation, Network, ResourceLimits};

use super::fixture::in_gvisor;
use super::hook;

/// The checks that fail because of gVisor itself, for any isolation.
const ALWAYS: [&str; 7] = [
    "capabilities",
    "device_nodes_refused",
    "devices_minimal",
    "memory_bounded_files",
    "mounts_bounded",
    "no_new_privileges",
    "seccomp_filter",
];

async fn check(
    fixture: &Fixture,
    isolation: Isolation,
    limits: ResourceLimits,
    network: Network,
    more: &[&str],
) {
    let spec = VerifySpec::new(fixture.image.clone(), in_gvisor(isolation), limits).network(network);
    let report = fixture.sandbox.verify(spec).await.expect("the sandbox works");
    let broken: BTreeSet<&str> = report.broken().map(|finding| finding.check.id()).collect();
    let expected: BTreeSet<&str> =
        ALWAYS.into_iter().chain(["user_namespace_refused"]).chain(more.iter().copied()).collect();
    let details: Vec<_> = report.broken().collect();
    assert_eq!(broken, expected, "{details:#?}");
    assert!(report.findings.len() > 40, "{}", report.findings.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn only_known_guarantees_for_an_agent_fail() {
    let _hook = hook::keep();
    let fixture = Fixture::new().await;
    let network = fixture::network("domains: [open.test]");
    let more = ["cgroup_readonly", "proc_sys_readonly"];
    check(&fixture, Isolation::agent(), ResourceLimits::default(), network, &more).await;
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_known_guarantees_for_the_untrusted_fail() {
    let _hook = hook::keep();
    let fixture = Fixture::new().await;
    let more = [
        "etc_readonly",
        "memory_bounded",
        "processes_bounded",
        "root_readonly",
        "setuid_blocked",
        "usr_readonly",
    ];
    let limits = ResourceLimits::untrusted();
    check(&fixture, Isolation::untrusted(), limits, Network::Disabled, &more).await;
    fixture.close().await;
}

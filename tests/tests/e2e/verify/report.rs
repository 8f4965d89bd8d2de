//! Verification with a fixture.

use std::collections::BTreeMap;

use e2e_tests::fixture::{self, Fixture};
use e2e_tests::setting::Setting;
use sandbox::diagnostics::{VerifyReport, VerifySpec};
use sandbox::{Network, ResourceLimits};

/// The limits of untrusted commands, as far as the engine supports them.
pub(super) fn untrusted_limits() -> ResourceLimits {
    Setting::of_this_run().possible(ResourceLimits::untrusted())
}

/// The failed checks with their details.
pub(super) async fn broken(fixture: &Fixture, spec: VerifySpec) -> BTreeMap<&'static str, String> {
    report(fixture, spec).await.broken().map(|finding| (finding.check.id(), finding.detail.clone())).collect()
}

pub(super) async fn report(fixture: &Fixture, spec: VerifySpec) -> VerifyReport {
    fixture.sandbox.verify(spec).await.expect("the sandbox works")
}

pub(super) fn proxied() -> Network {
    fixture::network("domains: [open.test]")
}

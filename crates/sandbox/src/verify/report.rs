//! The result.

use std::collections::BTreeMap;

use sandbox_inside::{Check, Finding};

/// The findings of all checks that apply.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyReport {
    /// One for each check.
    pub findings: Vec<Finding>,
}

impl VerifyReport {
    /// Each of `expected` with its finding. A check without a finding does not hold.
    pub(super) fn new(expected: &[Check], findings: Vec<Finding>) -> Self {
        let mut found: BTreeMap<Check, Finding> =
            findings.into_iter().map(|finding| (finding.check, finding)).collect();
        let finding = |check: &Check| {
            found
                .remove(check)
                .unwrap_or_else(|| Finding::new(*check, false, "the container reported nothing about it"))
        };
        Self { findings: expected.iter().map(finding).collect() }
    }

    /// Whether all checks hold.
    #[must_use]
    pub fn held(&self) -> bool {
        !self.findings.is_empty() && self.findings.iter().all(|finding| finding.held)
    }

    /// The checks that do not hold.
    pub fn broken(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| !finding.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_without_a_finding_does_not_hold() {
        let held = |check| Finding::new(check, true, "seen");
        let expected = [Check::Capabilities, Check::NoNewPrivileges];
        let both = VerifyReport::new(&expected, expected.map(held).to_vec());
        assert!(both.held() && both.findings.len() == 2);
        let one = VerifyReport::new(&expected, vec![held(Check::Capabilities), held(Check::MaskedPaths)]);
        assert!(!one.held());
        let broken: Vec<_> = one.broken().map(|finding| finding.check).collect();
        assert_eq!(broken, [Check::NoNewPrivileges]);
        assert!(!VerifyReport::new(&[], Vec::new()).held(), "nothing was checked");
    }
}

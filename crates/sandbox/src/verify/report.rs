//! What came of it.

use std::collections::BTreeMap;

use sandbox_verify_probe::{Category, Finding, promise};

/// A promise, and whether it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Check {
    /// Its name.
    pub id: &'static str,
    /// What it is about.
    pub category: Category,
    /// What is promised.
    pub promise: &'static str,
    /// Whether it is kept. What could not be looked at is not.
    pub held: bool,
    /// What was seen. Parts of it come from the container.
    pub detail: String,
    /// What to do when it is not kept.
    pub mend: &'static str,
}

/// All promises that apply.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyReport {
    /// One check a promise.
    pub checks: Vec<Check>,
}

impl VerifyReport {
    /// Each of `expected` with what was found about it.
    pub(super) fn new(expected: &[&'static str], findings: &[Finding]) -> Self {
        let found: BTreeMap<&str, &Finding> = findings
            .iter()
            .map(|finding| (finding.id.as_str(), finding))
            .collect();
        let checks = expected
            .iter()
            .filter_map(|id| promise(id))
            .map(|promise| {
                let finding = found.get(promise.id);
                Check {
                    id: promise.id,
                    category: promise.category,
                    promise: promise.text,
                    held: finding.is_some_and(|finding| finding.held),
                    detail: finding.map_or_else(
                        || "the probe said nothing about it".to_owned(),
                        |finding| finding.detail.clone(),
                    ),
                    mend: promise.mend,
                }
            })
            .collect();
        Self { checks }
    }

    /// Whether all are kept.
    #[must_use]
    pub fn held(&self) -> bool {
        !self.checks.is_empty() && self.checks.iter().all(|check| check.held)
    }

    /// Those that are not kept.
    pub fn broken(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|check| !check.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_a_failure() {
        let finding = |id: &str, held| Finding {
            id: id.to_owned(),
            category: Category::Rights,
            held,
            detail: "seen".to_owned(),
        };
        let expected = ["capabilities", "no_new_privileges"];
        let both = VerifyReport::new(
            &expected,
            &[finding("capabilities", true), finding("no_new_privileges", true)],
        );
        assert!(both.held() && both.checks.len() == 2);
        let one = VerifyReport::new(
            &expected,
            &[finding("capabilities", true), finding("made_up", true)],
        );
        assert!(!one.held());
        let broken: Vec<_> = one.broken().map(|check| check.id).collect();
        assert_eq!(broken, ["no_new_privileges"]);
        assert!(!VerifyReport::new(&[], &[]).held(), "nothing was looked at");
    }
}

//! Differences between a container and its plan.

use std::fmt::Debug;

/// The differences, one sentence each.
#[derive(Default)]
pub(super) struct Differences(pub(super) Vec<String>);

impl Differences {
    /// Compares the planned and the actual value. Never for values of environment variables.
    pub(super) fn compare<T: PartialEq + Debug + Copy>(&mut self, field: &str, planned: T, is: T) {
        if planned != is {
            self.0.push(format!("{field}: planned {planned:?}, is {is:?}"));
        }
    }

    pub(super) fn require(&mut self, good: bool, problem: impl FnOnce() -> String) {
        if !good {
            self.0.push(problem());
        }
    }
}

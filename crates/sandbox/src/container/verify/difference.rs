//! What is found to differ.

use std::fmt::Debug;

/// What is found to differ, one sentence each.
#[derive(Default)]
pub(super) struct Differences(pub(super) Vec<String>);

impl Differences {
    /// The value that was planned, and the one that is. Never for values of environment variables.
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

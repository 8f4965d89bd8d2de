//! The activity of a run's agent, for clients.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::printer::sanitize_name;

/// The number of calls that are kept.
const CALLS: usize = 16;
/// The number of characters kept of a tool's name.
const NAME: usize = 60;

/// The agent's activity so far; clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Activity {
    /// At most [`CALLS`] calls, whose numbers follow each other.
    seen: Arc<Mutex<Seen>>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    /// Oldest first.
    pub(super) tools: VecDeque<ToolCall>,
    /// US dollars, at list prices.
    pub(super) cost: Option<f64>,
    calls: u64,
}

/// A call of a tool. Its text comes from the task: show it sanitised.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ToolCall {
    /// Counts up in a run.
    pub(crate) number: u64,
    pub(crate) name: String,
    /// Its most informative argument.
    pub(crate) line: String,
    /// When it arrived, in milliseconds since the Unix epoch.
    pub(crate) at_ms: u64,
}

impl Activity {
    /// Adds a call of a tool, which is named by the task.
    pub(crate) fn called(&self, name: &str, line: String) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        let mut seen = self.lock();
        if seen.tools.len() == CALLS {
            seen.tools.pop_front();
        }
        let number = seen.calls;
        let name = sanitize_name(&name.chars().take(NAME).collect::<String>());
        seen.tools.push_back(ToolCall { number, name, line, at_ms });
        seen.calls += 1;
    }

    /// Takes the cost so far, where it is known.
    pub(crate) fn cost(&self, cost: Option<f64>) {
        let mut seen = self.lock();
        seen.cost = cost.or(seen.cost);
    }

    pub(super) fn seen(&self) -> Seen {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_calls_are_kept_with_their_numbers_and_the_last_cost() {
        let activity = Activity::default();
        for number in 0..20 {
            activity.called(&"é".repeat(99), format!("echo {number}"));
            activity.cost((number < 19).then_some(f64::from(number)));
        }
        let seen = activity.clone().seen();
        let calls: Vec<_> = seen.tools.iter().map(|call| (call.number, call.line.as_str())).collect();
        assert_eq!((calls.len(), calls[0], calls[15]), (CALLS, (4, "echo 4"), (19, "echo 19")));
        assert_eq!((seen.tools[0].name.chars().count(), seen.cost), (NAME, Some(18.0)));
    }
}

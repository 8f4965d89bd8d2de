//! Questions that the user had time to read. A key answers no others, because a task chooses the
//! time of its requests.

use std::time::{Duration, Instant};

/// The time from drawing a question until a key can answer it.
pub(super) const READING: Duration = Duration::from_millis(500);

/// The question on the screen, and since when it is shown.
#[derive(Debug)]
pub(super) struct Seen<T>(Option<(T, Instant)>);

impl<T: PartialEq> Seen<T> {
    /// Records that the screen showed this question at `at`, in full.
    pub(super) fn drawn(&mut self, asked: Option<T>, at: Instant) {
        if self.0.as_ref().map(|(seen, _)| seen) != asked.as_ref() {
            self.0 = asked.map(|asked| (asked, at));
        }
    }

    /// Whether a key pressed at `at` can answer `asked`.
    pub(super) fn was_read(&self, asked: Option<&T>, at: Instant) -> bool {
        let seen = self.0.as_ref().filter(|(seen, _)| Some(seen) == asked);
        seen.is_some_and(|(_, since)| at.saturating_duration_since(*since) >= READING)
    }
}

impl<T> Default for Seen<T> {
    fn default() -> Self {
        Self(None)
    }
}

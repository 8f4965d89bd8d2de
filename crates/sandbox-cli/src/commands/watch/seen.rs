//! What the person at the keys had the time to read. A key answers nothing else: a task chooses
//! when its requests come.

use std::time::{Duration, Instant};

/// From the time that something is drawn until a key can be the answer to it.
pub(super) const READING: Duration = Duration::from_millis(500);

/// What the screen asks, and since when.
#[derive(Debug)]
pub(super) struct Seen<T>(Option<(T, Instant)>);

impl<T: PartialEq> Seen<T> {
    /// The screen asked this at `at`, and nothing of it was cut off.
    pub(super) fn drawn(&mut self, asked: Option<T>, at: Instant) {
        if self.0.as_ref().map(|(seen, _)| seen) != asked.as_ref() {
            self.0 = asked.map(|asked| (asked, at));
        }
    }

    /// Whether a key that was pressed at `at` can be the answer to `asked`.
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

//! Limits how many queries a second are answered.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The maximum credit, as time: a burst of one second's queries.
const BURST: Duration = Duration::from_secs(1);

/// A bucket that fills with time, and from which every query takes its cost.
#[derive(Debug)]
pub(super) struct Rate {
    /// The time that one query costs; `None` if no query is admitted.
    cost: Option<Duration>,
    /// Held for a few instructions, never over an await. Invariant: the credit is at most
    /// [`BURST`].
    bucket: Mutex<Bucket>,
}

#[derive(Debug)]
struct Bucket {
    credit: Duration,
    filled_at: Instant,
}

impl Rate {
    /// `per_second` queries a second, and as many at once; the bucket is full at `now`.
    pub(super) fn new(per_second: u32, now: Instant) -> Self {
        let cost = BURST.checked_div(per_second);
        Self { cost, bucket: Mutex::new(Bucket { credit: BURST, filled_at: now }) }
    }

    /// Whether a query that arrived at `now` is to be answered.
    pub(super) fn admits(&self, now: Instant) -> bool {
        let Some(cost) = self.cost else {
            return false;
        };
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = now.saturating_duration_since(bucket.filled_at);
        bucket.credit = bucket.credit.saturating_add(passed).min(BURST);
        bucket.filled_at = bucket.filled_at.max(now);
        match bucket.credit.checked_sub(cost) {
            Some(rest) => {
                bucket.credit = rest;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burst_empties_the_bucket_and_time_fills_it() {
        let start = Instant::now();
        let rate = Rate::new(200, start);
        let admitted = |after_ms, queries| {
            let now = start + Duration::from_millis(after_ms);
            (0..queries).filter(|_| rate.admits(now)).count()
        };
        assert_eq!(admitted(0, 500), 200);
        assert_eq!(admitted(4, 1), 0);
        assert_eq!(admitted(100, 500), 20);
        assert_eq!(admitted(90, 500), 0, "a clock reading out of order gives nothing");
        assert_eq!(admitted(60_000, 500), 200, "no more than a second is saved up");
    }

    #[test]
    fn zero_rate_admits_nothing() {
        assert!(!Rate::new(0, Instant::now()).admits(Instant::now()));
    }
}

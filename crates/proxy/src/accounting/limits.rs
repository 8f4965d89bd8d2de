//! Counts how often a limit was reached, and records it at most once a second.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sandbox_proxy_protocol::Event;
use tokio::sync::Notify;

use crate::record::Recorder;

/// The delay from the first time that a limit is reached to its record.
const WINDOW: Duration = Duration::from_secs(1);

/// How often one limit was reached since it was last recorded.
#[derive(Debug)]
pub(crate) struct LimitCounter {
    limit: &'static str,
    count: AtomicU64,
    grown: Notify,
}

impl LimitCounter {
    /// Nothing counted yet. `limit` is a field name of [`sandbox_proxy_protocol::Limits`].
    pub(crate) fn new(limit: &'static str) -> Self {
        Self { limit, count: AtomicU64::new(0), grown: Notify::new() }
    }

    /// Counts that the limit was reached once more.
    pub(crate) fn add(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.grown.notify_one();
    }

    /// Records the count, a second after it starts to grow, until the future is dropped. Sleeps
    /// while the count is zero.
    pub(crate) async fn report(&self, recorder: &Recorder) -> Infallible {
        loop {
            self.grown.notified().await;
            // tidy: sleep: the window that one record is for.
            tokio::time::sleep(WINDOW).await;
            self.flush(recorder);
        }
    }

    /// Records the count now.
    pub(crate) fn flush(&self, recorder: &Recorder) {
        let count = self.count.swap(0, Ordering::Relaxed);
        if count == 0 {
            return;
        }
        if recorder.try_record(Event::Limit { limit: self.limit.to_owned(), count }).is_err() {
            // Kept for the next record.
            self.count.fetch_add(count, Ordering::Relaxed);
            self.grown.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record;

    #[tokio::test(start_paused = true)]
    async fn limits_reached_within_a_second_share_one_record() {
        let (recorder, records) = record::channel();
        let counter = LimitCounter::new("connections");
        for _ in 0..3 {
            counter.add();
        }
        let reported = tokio::time::timeout(WINDOW * 2, counter.report(&recorder)).await;
        assert!(reported.is_err(), "it never ends by itself");
        counter.add();
        counter.flush(&recorder);
        counter.flush(&recorder);
        drop(recorder);
        let mut lines = Vec::new();
        records.write_to(&mut lines).await.unwrap();
        let lines = String::from_utf8(lines).unwrap();
        let counts: Vec<&str> = lines
            .lines()
            .map(|line| line.split_once("\"limit\":\"connections\",\"count\":").unwrap().1)
            .collect();
        assert_eq!(counts, ["3}", "1}"]);
    }

    #[tokio::test]
    async fn count_without_room_for_its_record_is_kept() {
        let (recorder, records) = record::channel();
        drop(records);
        let counter = LimitCounter::new("connections");
        counter.add();
        counter.flush(&recorder);
        assert_eq!(counter.count.load(Ordering::Relaxed), 1);
    }
}

//! Folds repeated events: a thousand identical refusals become a few lines and a count.
//!
//! Only events that forward nothing are folded: refusals, DNS queries, warnings. Every permitted
//! request has its own line.

use std::collections::VecDeque;
use std::fmt::Write as _;

use sandbox_proxy_protocol::{Event, Record, RequestOutcome};

use crate::entry::LogEntry;
use crate::line;

/// How many identical events are written individually.
const SHOWN: u64 = 10;
/// How many different lines are remembered.
const REMEMBERED: usize = 64;
/// How long repeats may be counted before the count is written, in milliseconds.
const WINDOW_MS: u64 = 10_000;

/// One event in both its forms.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) entry: LogEntry,
    /// Without a newline.
    pub(crate) text: String,
    /// Milliseconds since the Unix epoch.
    pub(crate) at_ms: u64,
    /// Whether something may have been forwarded, so that the line must not be missing.
    pub(crate) permitted: bool,
}

impl Line {
    /// The lines of `record`, which represents `repeated` further identical events.
    pub(crate) fn of(record: &Record, repeated: u64) -> Self {
        let mut text = line::render(record);
        if repeated > 0 {
            // Writing to a string cannot fail.
            let _ = write!(text, " [repeated: {repeated}]");
        }
        Self {
            entry: LogEntry::of(record).repeated(repeated),
            text,
            at_ms: record.at_ms,
            permitted: is_permitted(&record.event),
        }
    }
}

/// Recently written events that may repeat.
#[derive(Debug, Default)]
pub(crate) struct Fold {
    /// The least recently seen first.
    recent: VecDeque<Repeats>,
}

#[derive(Debug)]
struct Repeats {
    text: String,
    /// The last of them.
    record: Record,
    shown: u64,
    /// Not written yet.
    more: u64,
    /// When the count began.
    since_ms: u64,
}

impl Fold {
    /// The lines to write for `records`, in order.
    pub(crate) fn add(&mut self, records: Vec<Record>) -> Vec<Line> {
        let Some(now_ms) = records.last().map(|record| record.at_ms) else {
            return Vec::new();
        };
        let mut lines = Vec::with_capacity(records.len());
        for record in records {
            if may_repeat(&record.event) {
                self.take(record, &mut lines);
            } else {
                lines.push(Line::of(&record, 0));
            }
        }
        self.settle(now_ms, &mut lines);
        lines
    }

    /// The counts that are not written yet.
    pub(crate) fn finish(&mut self) -> Vec<Line> {
        let recent = std::mem::take(&mut self.recent);
        recent.iter().filter_map(Repeats::count).collect()
    }

    fn take(&mut self, record: Record, lines: &mut Vec<Line>) {
        let line = Line::of(&record, 0);
        let known = self.recent.iter().position(|repeats| repeats.text == line.text);
        let mut repeats = match known.and_then(|at| self.recent.remove(at)) {
            Some(repeats) => repeats,
            None => Repeats {
                text: line.text.clone(),
                since_ms: record.at_ms,
                record: record.clone(),
                shown: 0,
                more: 0,
            },
        };
        if repeats.shown < SHOWN {
            repeats.shown += 1;
            lines.push(line);
        } else {
            if repeats.more == 0 {
                repeats.since_ms = record.at_ms;
            }
            repeats.more += 1;
        }
        repeats.record = record;
        self.recent.push_back(repeats);
        if self.recent.len() > REMEMBERED {
            lines.extend(self.recent.pop_front().and_then(|oldest| oldest.count()));
        }
    }

    /// Writes the counts that are due, and forgets events that have not been seen for as long.
    fn settle(&mut self, now_ms: u64, lines: &mut Vec<Line>) {
        let is_due = |since: u64| now_ms.saturating_sub(since) >= WINDOW_MS;
        self.recent.retain_mut(|repeats| {
            if repeats.more > 0 && is_due(repeats.since_ms) {
                lines.extend(repeats.count());
                repeats.more = 0;
            }
            repeats.more > 0 || !is_due(repeats.record.at_ms)
        });
    }
}

impl Repeats {
    fn count(&self) -> Option<Line> {
        (self.more > 0).then(|| Line::of(&self.record, self.more))
    }
}

fn may_repeat(event: &Event) -> bool {
    match event {
        Event::Dns { .. } | Event::TlsRefused { .. } | Event::PortRefused { .. } | Event::Warning { .. } => {
            true
        }
        Event::Request(request) => request.decision == RequestOutcome::Blocked,
        Event::Stream(stream) => stream.decision != RequestOutcome::Allowed,
        Event::TaskStart
        | Event::RequestOpen(_)
        | Event::Asked { .. }
        | Event::Answered { .. }
        | Event::StreamOpen(_)
        | Event::Tunnel(_)
        | Event::Traffic(_)
        | Event::Limit { .. }
        | Event::Policy { .. } => false,
    }
}

fn is_permitted(event: &Event) -> bool {
    match event {
        // Refusals of the task must not push out changes of its owner.
        Event::TaskStart
        | Event::RequestOpen(_)
        | Event::Asked { .. }
        | Event::Answered { .. }
        | Event::StreamOpen(_)
        | Event::Tunnel(_)
        | Event::Traffic(_)
        | Event::Policy { .. } => true,
        Event::Stream(stream) => stream.decision == RequestOutcome::Allowed,
        Event::Request(request) => request.decision != RequestOutcome::Blocked,
        Event::Dns { .. }
        | Event::TlsRefused { .. }
        | Event::PortRefused { .. }
        | Event::Limit { .. }
        | Event::Warning { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use sandbox_proxy_protocol::{RequestRecord, Scheme};

    use super::*;

    fn request(at_ms: u64, decision: RequestOutcome, target: &str) -> Record {
        let asked =
            RequestRecord::asked("GET".to_owned(), Scheme::Https, "a.b".to_owned(), target.to_owned());
        let event =
            Event::Request(RequestRecord { decision, status: Some(403), duration_ms: at_ms, ..asked });
        Record { at_ms, event }
    }

    fn texts(lines: &[Line]) -> Vec<&str> {
        lines.iter().map(|line| line.text.as_str()).collect()
    }

    #[test]
    fn repeated_refusal_is_written_ten_times_and_then_counted() {
        let mut fold = Fold::default();
        let refused = |at| request(at, RequestOutcome::Blocked, "/x");
        let first = fold.add((0..15).map(refused).collect());
        assert_eq!(texts(&first), ["BLOCKED GET https://a.b/x -> 403"; 10]);
        assert!(fold.add(vec![refused(9_000)]).is_empty());
        let counted = fold.add(vec![refused(10_020)]);
        assert_eq!(texts(&counted), ["BLOCKED GET https://a.b/x -> 403 [repeated: 7]"]);
        assert!(fold.add(vec![refused(10_021)]).is_empty());
        let last = fold.finish();
        assert_eq!(texts(&last), ["BLOCKED GET https://a.b/x -> 403 [repeated: 1]"]);
        assert!(fold.finish().is_empty());
    }

    #[test]
    fn refusal_after_a_pause_is_written_again() {
        let mut fold = Fold::default();
        let refused = |at| request(at, RequestOutcome::Blocked, "/x");
        fold.add(vec![refused(0); 10]);
        let other = fold.add(vec![request(20_000, RequestOutcome::Blocked, "/y")]);
        assert_eq!(other.len(), 1);
        assert_eq!(texts(&fold.add(vec![refused(20_001)])), ["BLOCKED GET https://a.b/x -> 403"]);
    }

    #[test]
    fn permitted_requests_are_never_folded() {
        let mut fold = Fold::default();
        for decision in [RequestOutcome::Allowed, RequestOutcome::Error] {
            let lines = fold.add(vec![request(0, decision, "/x"); 100]);
            assert_eq!(lines.len(), 100);
            assert!(lines.iter().all(|line| line.permitted));
        }
        assert!(fold.recent.is_empty());
    }

    #[test]
    fn no_count_is_lost_among_many_different_lines() {
        let mut fold = Fold::default();
        let mut lines = fold.add(vec![request(0, RequestOutcome::Blocked, "/x"); 13]);
        let others = (0..REMEMBERED).map(|n| request(0, RequestOutcome::Blocked, &format!("/{n}")));
        lines.extend(fold.add(others.collect()));
        assert_eq!(fold.recent.len(), REMEMBERED);
        lines.extend(fold.finish());
        let counted: Vec<_> = lines.iter().filter(|line| line.text.contains("[repeated: 3]")).collect();
        assert_eq!(counted.len(), 1);
        let json = counted[0].entry.to_line().unwrap();
        assert!(json.contains(r#""repeated":3"#), "{json}");
        assert_eq!(lines.len(), 10 + REMEMBERED + 1);
    }
}

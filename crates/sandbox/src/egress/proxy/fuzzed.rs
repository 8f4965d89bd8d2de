//! Arbitrary records of a proxy, for the fuzzers: see `fuzzing`.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt as _;
use fuzz_input::{Input, pieces};
use sandbox_proxy_protocol::{ProxyMessage, Record, from_line, to_line};

use super::lines::Lines;
use sandbox_network_log::{LogEntry, LogSink};

/// The first bytes choose how the others are split, which represent a proxy's output: its own
/// texts, and requests of a task.
///
/// # Panics
///
/// When the split changes the lines, when a record results in more than one line or one with
/// terminal control characters, or when a log entry does not survive a round trip.
pub fn proxy_records(data: &[u8]) {
    let mut input = Input::new(data);
    let sizes = input.sizes();
    let text = input.rest();
    let whole = lines(&[text]);
    for sizes in [sizes.as_slice(), &[1]] {
        assert!(lines(&pieces(text, sizes)) == whole, "a split changes the lines");
    }
    let messages = whole.iter().map_while(|line| from_line(line).ok());
    let records: Vec<Record> = messages
        .filter_map(|message| match message {
            ProxyMessage::Record(record) => Some(record),
            ProxyMessage::Ready { .. } | ProxyMessage::Traffic(_) | ProxyMessage::Failed { .. } => None,
        })
        .collect();
    for record in &records {
        let line = to_line(&ProxyMessage::Record(record.clone())).unwrap_or_else(|error| panic!("{error}"));
        let again = from_line(line.as_bytes());
        let Ok(ProxyMessage::Record(again)) = again else {
            panic!("failed to parse a record again: {line}");
        };
        assert!(again == *record, "a record does not survive a round trip: {line}");
    }
    log(records);
}

fn lines(pieces: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut lines = Lines::default();
    let add = |piece: &&[u8]| lines.add(piece).unwrap_or_else(|error| panic!("{error}"));
    pieces.iter().flat_map(add).collect()
}

fn log(records: Vec<Record>) {
    let count = records.len();
    // Filled by the callback, read after the last record.
    let seen = Arc::new(Mutex::new(Vec::new()));
    let filled = Arc::clone(&seen);
    let callback = move |entry: &LogEntry, line: &str| {
        let mut filled = filled.lock().unwrap_or_else(PoisonError::into_inner);
        filled.push((entry.clone(), line.to_owned()));
    };
    let mut sink = LogSink::default().with_callback(Arc::new(callback));
    // Without files there is nothing to wait for.
    let appended = sink.append(records).now_or_never();
    assert!(matches!(appended, Some(Ok(()))), "records are not accepted");
    let finished = sink.finish(0).now_or_never();
    assert!(matches!(finished, Some(Ok(()))), "the log does not finish");
    let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    // Each record has a line, or is counted in one.
    assert!(seen.len() <= count, "more lines than records");
    let reported: u64 = seen.iter().map(|(entry, _)| entry.repeated.max(1)).sum();
    assert_eq!(reported, count as u64, "a record is lost");
    for (entry, line) in &*seen {
        let is_plain = line.chars().all(|c| c == ' ' || c.is_ascii_graphic());
        assert!(is_plain, "a line contains {line:?}");
        let stored = entry.to_line().unwrap_or_else(|error| panic!("{error}"));
        assert!(
            stored.is_ascii() && stored.trim_end_matches('\n').chars().all(|c| !c.is_control()),
            "an entry contains {stored:?}"
        );
        assert!(
            LogEntry::parse(&stored).is_ok_and(|again| again == *entry),
            "an entry does not survive a round trip: {stored}"
        );
    }
}

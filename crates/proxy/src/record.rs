//! The path of records to the host: a bounded queue and one writer.
//!
//! Nothing happens unrecorded: a request reserves a place in the queue before it is served. If
//! there is no place, the host has stopped reading, and the request is refused.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sandbox_proxy_protocol::{Event, ProxyMessage, Record, RequestRecord, to_line};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

/// The maximum number of records that wait for the host.
const QUEUE: usize = 4096;
/// The maximum number of records in one write.
const BATCH: usize = 64;
/// The maximum length in bytes of a text in a record: a full queue holds the task's texts, and must
/// not fill the memory.
const TEXT: usize = 4096;
/// The maximum length in bytes of a name or a method: no legitimate one is longer.
const NAME: usize = 512;
/// How long a request may wait for a place in the queue.
const QUEUE_TIMEOUT: Duration = Duration::from_millis(100);

/// The length of the rest of both records of a request: everything but the texts below, including
/// an error of usual length.
const REST: u64 = 768;

/// The host does not read its records, so nothing may be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the records are not being read")]
pub(crate) struct Stalled;

/// The sending end of the queue.
#[derive(Debug, Clone)]
pub(crate) struct Recorder {
    queue: mpsc::Sender<ProxyMessage>,
}

/// The receiving end of the queue, for the one writer.
#[derive(Debug)]
pub(crate) struct Records {
    queue: mpsc::Receiver<ProxyMessage>,
}

/// A place in the queue, for one record.
#[derive(Debug)]
pub(crate) struct Slot {
    permit: mpsc::OwnedPermit<ProxyMessage>,
}

/// The space that is left in the host's log for the records of permitted requests. It only shrinks.
#[derive(Debug)]
pub(crate) struct LogBudget(AtomicU64);

impl LogBudget {
    /// A log with room for `bytes`.
    pub(crate) fn new(bytes: u64) -> Self {
        Self(AtomicU64::new(bytes))
    }

    /// Takes the space for both records of a connection to a service; `false` if there is too
    /// little.
    pub(crate) fn take_stream(&self) -> bool {
        self.take_bytes(REST)
    }

    /// Takes the space for both records of a permitted request, that it is in progress and that it
    /// ended; `false` if there is too little.
    pub(crate) fn take(&self, request: &RequestRecord) -> bool {
        let rule = request.rule.as_ref();
        let texts = [
            request.method.as_str(),
            &request.host,
            &request.target,
            rule.map_or("", |rule| &rule.host),
            rule.and_then(|rule| rule.path.as_deref()).unwrap_or_default(),
        ];
        let removed = request.removed.iter().map(|kind| weight(kind.as_str()) + 16).sum::<u64>();
        let texts: u64 = texts.into_iter().map(weight).sum::<u64>() + removed;
        let bytes = REST.saturating_add(texts.saturating_mul(2));
        self.take_bytes(bytes)
    }

    /// Takes the space for a list of names in one record; `false` if there is too little.
    pub(crate) fn take_names(&self, names: &[String]) -> bool {
        self.take_bytes(names.iter().map(|name| weight(name) + 24).sum())
    }

    fn take_bytes(&self, bytes: u64) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }
}

/// An upper bound of a text's length in either log, where all but plain characters are escaped.
fn weight(text: &str) -> u64 {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._~/?&=%:+,;@".contains(c);
    let shown = text.chars().take(TEXT);
    shown.map(|c| if plain(c) { 1 } else { 12 }).sum()
}

/// An empty queue.
pub(crate) fn channel() -> (Recorder, Records) {
    let (sender, receiver) = mpsc::channel(QUEUE);
    (Recorder { queue: sender }, Records { queue: receiver })
}

impl Recorder {
    /// Reserves a place in the queue for one record, within 100 ms; otherwise the caller must
    /// refuse service.
    pub(crate) async fn reserve(&self) -> Result<Slot, Stalled> {
        match tokio::time::timeout(QUEUE_TIMEOUT, self.queue.clone().reserve_owned()).await {
            Ok(Ok(permit)) => Ok(Slot { permit }),
            Ok(Err(_)) | Err(_) => Err(Stalled),
        }
    }

    /// Reserves a place in the queue for one record, if one is free now.
    pub(crate) fn try_reserve(&self) -> Result<Slot, Stalled> {
        let permit = self.queue.clone().try_reserve_owned().map_err(|_| Stalled)?;
        Ok(Slot { permit })
    }

    /// Records `event` as soon as there is a place for it; also returns when the records have no
    /// reader left.
    pub(crate) async fn record(&self, event: Event) {
        let _ = self.queue.send(stamp(event)).await;
    }

    /// Sends the host a message that is not a record as soon as there is a place for it.
    pub(crate) async fn send_in_turn(&self, message: ProxyMessage) {
        let _ = self.queue.send(message).await;
    }

    /// Records `event` if there is a place for it now.
    pub(crate) fn try_record(&self, event: Event) -> Result<(), Stalled> {
        self.queue.try_send(stamp(event)).map_err(|_| Stalled)
    }

    /// Returns when no record will ever be written again.
    pub(crate) async fn closed(&self) {
        self.queue.closed().await;
    }

    /// Sends the host a message that is not a record, if there is a place for it now.
    pub(crate) fn send(&self, message: ProxyMessage) -> Result<(), Stalled> {
        self.queue.try_send(message).map_err(|_| Stalled)
    }
}

impl Slot {
    /// Records `event`, now.
    pub(crate) fn record(self, event: Event) {
        self.permit.send(stamp(event));
    }
}

impl Records {
    /// Writes all messages until every [`Recorder`] and every [`Slot`] is dropped.
    pub(crate) async fn write_to<W: AsyncWrite + Unpin>(mut self, mut output: W) -> std::io::Result<()> {
        let mut batch = Vec::with_capacity(BATCH);
        let mut lines = String::new();
        while self.queue.recv_many(&mut batch, BATCH).await > 0 {
            lines.clear();
            for message in batch.drain(..) {
                lines.push_str(&to_line(&message).map_err(std::io::Error::other)?);
            }
            output.write_all(lines.as_bytes()).await?;
            output.flush().await?;
        }
        Ok(())
    }
}

fn stamp(mut event: Event) -> ProxyMessage {
    for (text, most) in texts_of(&mut event) {
        shorten(text, most);
    }
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let at_ms = u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX);
    ProxyMessage::Record(Record { at_ms, event })
}

/// Every text that may come from outside, and its maximum length.
fn texts_of(event: &mut Event) -> Vec<(&mut String, usize)> {
    match event {
        // The names of services come from the owner.
        Event::TaskStart
        | Event::PortRefused { .. }
        | Event::Traffic(_)
        | Event::Limit { .. }
        | Event::Policy { .. }
        | Event::StreamOpen(_)
        | Event::Stream(_) => Vec::new(),
        Event::Dns { kind: _, name, answer: _ } => vec![(name, 2 * NAME)],
        Event::Request(request) => {
            let mut texts =
                vec![(&mut request.method, NAME), (&mut request.host, NAME), (&mut request.target, TEXT)];
            texts.extend(request.error.as_mut().map(|error| (error, NAME)));
            texts.extend(request.region.as_mut().map(|region| (region, NAME)));
            texts
        }
        Event::RequestOpen(open) | Event::Asked { question: _, request: open } => {
            vec![(&mut open.method, NAME), (&mut open.host, NAME), (&mut open.target, TEXT)]
        }
        Event::Tunnel(tunnel) => vec![(&mut tunnel.host, NAME), (&mut tunnel.target, TEXT)],
        Event::TlsRefused { server_name, alert, reason: _ } => {
            let texts = server_name.iter_mut().chain([alert]);
            texts.map(|text| (text, NAME)).collect()
        }
        Event::Warning { text } => vec![(text, TEXT)],
        Event::Answered { question: _, verdict: _, by } => vec![(by, NAME)],
    }
}

/// Truncates a text that is too long, and marks it with an ellipsis.
fn shorten(text: &mut String, most: usize) {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most));
        text.push('…');
        text.shrink_to_fit();
    }
}

/// Milliseconds since `start`.
pub(crate) fn milliseconds(start: std::time::Instant) -> u64 {
    u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use sandbox_proxy_protocol::from_line;

    use super::*;

    fn warning(text: &str) -> Event {
        Event::Warning { text: text.to_owned() }
    }

    #[tokio::test(start_paused = true)]
    async fn full_queue_refuses_and_recovers() {
        let (recorder, mut records) = channel();
        let slots: Vec<Slot> = {
            let mut slots = Vec::new();
            for _ in 0..QUEUE {
                slots.push(recorder.reserve().await.unwrap());
            }
            slots
        };
        assert_eq!(recorder.try_record(warning("no room")), Err(Stalled));
        let began = tokio::time::Instant::now();
        assert!(recorder.reserve().await.is_err());
        assert!(began.elapsed() >= QUEUE_TIMEOUT && began.elapsed() < 2 * QUEUE_TIMEOUT);
        for slot in slots {
            slot.record(warning("kept"));
        }
        assert!(records.queue.recv().await.is_some());
        assert!(recorder.reserve().await.is_ok(), "the host reads again");
    }

    #[test]
    fn log_budget_bounds_requests_and_weight_covers_escaped_texts() {
        let request = |target: &str| {
            RequestRecord::asked(
                "GET".to_owned(),
                sandbox_proxy_protocol::Scheme::Https,
                "a.example".to_owned(),
                target.to_owned(),
            )
        };
        let plain = request("/x");
        let log = LogBudget::new(3 * (REST + 2 * (3 + 9 + 2)));
        assert_eq!([(); 5].map(|()| log.take(&plain)), [true, true, true, false, false]);
        for text in ["/plain?x=1", "\"", "\n\\", "é", "\u{10ffff}"] {
            let json = serde_json::to_string(text).unwrap().len() - 2;
            let escaped: usize = text.chars().map(|c| c.escape_unicode().count()).sum();
            assert!(weight(text) >= json as u64, "{text:?}");
            assert!(text.starts_with('/') || weight(text) >= escaped as u64, "{text:?}");
        }
        assert_eq!(weight(&"é".repeat(TEXT * 2)), 12 * TEXT as u64, "it is cut before it is written");
        assert!(LogBudget::new(0).take(&plain).eq(&false) && !LogBudget::new(REST).take(&plain));
        let names = ["KEY".to_owned()];
        assert!(LogBudget::new(27).take_names(&names) && !LogBudget::new(26).take_names(&names));
    }

    #[tokio::test]
    async fn records_are_written_as_lines_in_order() {
        let (recorder, records) = channel();
        let slot = recorder.reserve().await.unwrap();
        recorder.send(ProxyMessage::Ready { protocol: 1, unconfined: None }).unwrap();
        recorder.try_record(Event::TaskStart).unwrap();
        slot.record(warning("line\nbreak"));
        drop(recorder);
        let mut output = Vec::new();
        records.write_to(&mut output).await.unwrap();
        let lines: Vec<ProxyMessage> =
            output.split_inclusive(|byte| *byte == b'\n').map(|line| from_line(line).unwrap()).collect();
        let [
            ProxyMessage::Ready { protocol: 1, .. },
            ProxyMessage::Record(first),
            ProxyMessage::Record(second),
        ] = &lines[..]
        else {
            panic!("{lines:?}");
        };
        assert_eq!((&first.event, &second.event), (&Event::TaskStart, &warning("line\nbreak")));
        assert!(first.at_ms > 1_700_000_000_000 && second.at_ms >= first.at_ms);
    }

    #[tokio::test]
    async fn broken_output_closes_the_queue() {
        struct Broken;
        impl AsyncWrite for Broken {
            fn poll_write(
                self: Pin<&mut Self>,
                _: &mut Context<'_>,
                _: &[u8],
            ) -> Poll<std::io::Result<usize>> {
                Poll::Ready(Err(std::io::ErrorKind::BrokenPipe.into()))
            }
            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
                Poll::Ready(Ok(()))
            }
            fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
                Poll::Ready(Ok(()))
            }
        }
        let (recorder, records) = channel();
        recorder.try_record(Event::TaskStart).unwrap();
        assert!(records.write_to(Broken).await.is_err());
        recorder.closed().await;
        assert!(recorder.reserve().await.is_err());
        assert_eq!(recorder.try_record(Event::TaskStart), Err(Stalled));
    }

    #[test]
    fn texts_from_outside_are_bounded() {
        let long = "é".repeat(40_000);
        let events = [
            warning(&long),
            Event::Dns {
                kind: "A".to_owned(),
                name: long.clone(),
                answer: sandbox_proxy_protocol::DnsAnswer::Nodata,
            },
            Event::TlsRefused { server_name: Some(long.clone()), alert: long.clone(), reason: None },
        ];
        for event in events {
            let ProxyMessage::Record(mut record) = stamp(event) else { panic!("no record") };
            for (text, most) in texts_of(&mut record.event) {
                assert!(text.len() <= most + '…'.len_utf8() && text.ends_with('…'));
            }
        }
        let mut short = "é".repeat(TEXT / 2);
        shorten(&mut short, TEXT);
        assert_eq!(short, "é".repeat(TEXT / 2));
    }
}

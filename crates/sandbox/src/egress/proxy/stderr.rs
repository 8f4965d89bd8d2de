//! A proxy's standard error: its tracing events, one JSON object per line, and other output of a
//! failing program.
//!
//! The output is untrusted, like everything that a task can influence: lines are truncated, counted
//! against a budget, and escaped before they become events here.

use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::time::{Duration, Instant};

use sandbox_network_log::escape_text;

/// The maximum bytes of a line; the rest is dropped.
const LINE: usize = 2048;
/// The bytes that are kept for an error's text.
const KEPT: usize = 4096;
/// The number of lines in a burst, and the interval after which one more may come.
const BURST: u32 = 256;
const REFILL: Duration = Duration::from_millis(250);

/// The events of one proxy.
pub(super) struct ProxyLog {
    /// The context of the proxy's task.
    execution: String,
    /// The incomplete last line.
    line: Vec<u8>,
    /// The output that explains a failure.
    kept: String,
    room: u32,
    refilled: Instant,
    dropped: u64,
}

/// An event in the proxy's JSON.
#[derive(Deserialize)]
struct Event {
    level: String,
    fields: Map<String, Value>,
    #[serde(default)]
    spans: Vec<Map<String, Value>>,
}

impl ProxyLog {
    pub(super) fn new(execution: String) -> Self {
        Self {
            execution,
            line: Vec::new(),
            kept: String::new(),
            room: BURST,
            refilled: Instant::now(),
            dropped: 0,
        }
    }

    /// The context of the proxy's task.
    pub(super) fn execution(&self) -> &str {
        &self.execution
    }

    /// Emits the events that `bytes` complete.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (piece, complete) = match piece.strip_suffix(b"\n") {
                Some(end) => (end, true),
                None => (piece, false),
            };
            let room = LINE.saturating_sub(self.line.len());
            self.line.extend(piece.iter().take(room));
            if complete {
                self.take_line();
            }
        }
    }

    /// Emits the incomplete line, and the number of dropped ones.
    pub(super) fn finish(&mut self) {
        self.take_line();
        self.report_dropped();
    }

    /// The end of its warnings, errors and lines that are not events, escaped.
    pub(super) fn tail(&mut self) -> String {
        self.take_line();
        self.kept.trim_end().to_owned()
    }

    fn take_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        if line.trim().is_empty() {
            return;
        }
        let (level, text) = match serde_json::from_str::<Event>(&line) {
            Ok(event) => (event.level.clone(), event.text()),
            // A panic, or an error before events are set up.
            Err(_) => ("WARN".to_owned(), line.trim_end().to_owned()),
        };
        let text = escape_text(&text);
        // Informational events do not explain a failure.
        if !matches!(level.as_str(), "INFO" | "DEBUG" | "TRACE") {
            self.keep(&text);
        }
        if !self.admit() {
            self.dropped += 1;
            return;
        }
        self.report_dropped();
        emit(&self.execution, &level, &text);
    }

    fn keep(&mut self, text: &str) {
        // It is ASCII.
        self.kept.push_str(text);
        self.kept.push(' ');
        let excess = self.kept.len().saturating_sub(KEPT);
        self.kept.drain(..excess);
    }

    fn admit(&mut self) -> bool {
        let passed = self.refilled.elapsed().as_nanos() / REFILL.as_nanos();
        let more = u32::try_from(passed).unwrap_or(u32::MAX);
        if more > 0 {
            self.room = self.room.saturating_add(more).min(BURST);
            self.refilled = Instant::now();
        }
        let admitted = self.room > 0;
        self.room = self.room.saturating_sub(1);
        admitted
    }

    fn report_dropped(&mut self) {
        let dropped = std::mem::take(&mut self.dropped);
        if dropped > 0 {
            tracing::warn!(execution = self.execution, dropped, "the proxy logged more than is shown");
        }
    }
}

impl Event {
    /// `span{field=value}: message field=value`, not escaped.
    fn text(mut self) -> String {
        let mut text = String::new();
        for mut span in std::mem::take(&mut self.spans) {
            text.push_str(&span.remove("name").map(shown).unwrap_or_default());
            text.push('{');
            text.push_str(fields(span).trim_start());
            text.push_str("}: ");
        }
        text.push_str(&self.fields.remove("message").map(shown).unwrap_or_default());
        text.push_str(&fields(self.fields));
        text
    }
}

/// ` name=value` for each.
fn fields(fields: Map<String, Value>) -> String {
    fields.into_iter().fold(String::new(), |mut text, (name, value)| {
        // Writing to a string cannot fail.
        let _ = write!(text, " {name}={}", shown(value));
        text
    })
}

fn shown(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

/// The level is a static part of an event, so each needs its own macro.
fn emit(execution: &str, level: &str, text: &str) {
    match level {
        "ERROR" => tracing::error!(execution, "egress proxy: {text}"),
        "INFO" => tracing::info!(execution, "egress proxy: {text}"),
        "DEBUG" | "TRACE" => tracing::debug!(execution, "egress proxy: {text}"),
        _ => tracing::warn!(execution, "egress proxy: {text}"),
    }
}

/// The proxy's log level: levels that are disabled here are not sent.
pub(super) fn level() -> &'static str {
    if tracing::enabled!(tracing::Level::DEBUG) {
        "debug"
    } else if tracing::enabled!(tracing::Level::INFO) {
        "info"
    } else {
        "warn"
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Seek as _};
    use std::sync::Arc;

    use super::*;

    const EVENT: &str = r#"{"level":"ERROR","fields":{"message":"failed to\nmint","host":"a.test"},"target":"x","spans":[{"name":"connection","client":"10.0.0.2:1"}]}"#;
    const SEEN: &str = r"egress proxy: connection{client=10.0.0.2:1}: failed to\x0amint host=a.test";

    /// The events emitted for `pieces`, and the text kept for an error.
    fn seen(pieces: &[&[u8]]) -> (String, String) {
        let mut emitted = String::new();
        let file = Arc::new(tempfile::tempfile().unwrap());
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .without_time()
            .with_target(false)
            .with_writer(Arc::clone(&file))
            .finish();
        let mut proxy = ProxyLog::new("task-1".to_owned());
        tracing::subscriber::with_default(subscriber, || {
            for piece in pieces {
                proxy.add(piece);
            }
            proxy.finish();
        });
        let mut file = &*file;
        file.rewind().unwrap();
        file.read_to_string(&mut emitted).unwrap();
        (emitted, proxy.tail())
    }

    #[tokio::test(start_paused = true)]
    async fn events_keep_level_and_task_in_any_split() {
        let line = format!("{EVENT}\n");
        for size in [1, 7, line.len()] {
            let pieces: Vec<&[u8]> = line.as_bytes().chunks(size).collect();
            let (emitted, tail) = seen(&pieces);
            assert_eq!(emitted, format!("ERROR {SEEN} execution=\"task-1\"\n"));
            assert_eq!(tail, SEEN.trim_start_matches("egress proxy: "));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn informational_output_does_not_displace_the_reason_of_a_failure() {
        let ordinary = EVENT.replace("ERROR", "INFO") + "\n";
        let text = format!("{EVENT}\n{}", ordinary.repeat(100));
        let (emitted, tail) = seen(&[text.as_bytes()]);
        assert_eq!(emitted.lines().count(), 101);
        assert_eq!(tail, SEEN.trim_start_matches("egress proxy: "));
    }

    #[tokio::test(start_paused = true)]
    async fn other_lines_are_truncated_and_escaped_warnings() {
        let long = "x".repeat(LINE + 1) + "\n\u{1b}[31mlast words";
        let (emitted, tail) = seen(&[long.as_bytes()]);
        assert!(emitted.starts_with(" WARN egress proxy: xxx"), "{emitted}");
        assert!(emitted.contains(r"\x1b\x5b31mlast words") && emitted.len() < LINE + 200, "{emitted}");
        assert!(tail.ends_with(r"x \x1b\x5b31mlast words"), "{tail}");
        let (_, tail) = seen(&[&b"y\n".repeat(10 * KEPT)]);
        assert!(tail.len() <= KEPT);
    }

    #[tokio::test(start_paused = true)]
    async fn excess_lines_are_dropped_and_counted() {
        let (emitted, _) = seen(&[&b"flood\n".repeat(1000)]);
        assert_eq!(emitted.matches("flood").count(), BURST as usize);
        assert!(emitted.ends_with("dropped=744\n"), "{emitted}");
    }
}

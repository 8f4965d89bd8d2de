//! Progress reports with durations, on stderr.

use std::time::{Duration, Instant};

use anyhow::Result;

/// Prints one line.
pub(crate) fn say(line: impl AsRef<str>) {
    eprintln!("xtask: {}", line.as_ref());
}

/// Runs `action`, and prints its beginning, its outcome and its duration.
pub(crate) fn step<T>(what: &str, action: impl FnOnce() -> Result<T>) -> Result<T> {
    say(format!("{what} …"));
    let begin = Instant::now();
    let result = action();
    let verdict = if result.is_ok() { "done" } else { "FAILED" };
    say(format!("{what}: {verdict} in {}", seconds(begin.elapsed())));
    result
}

/// A duration in a readable form.
pub(crate) fn seconds(duration: Duration) -> String {
    match duration.as_secs() {
        0..60 => format!("{:.1} s", duration.as_secs_f64()),
        whole => format!("{} min {:02} s", whole / 60, whole % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_printed_in_seconds_or_minutes() {
        for (millis, expected) in [(0, "0.0 s"), (1_540, "1.5 s"), (59_900, "59.9 s"), (61_000, "1 min 01 s")]
        {
            assert_eq!(seconds(Duration::from_millis(millis)), expected);
        }
    }
}

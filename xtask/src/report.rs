//! Saying what happens and how long it takes, on stderr.

use std::time::{Duration, Instant};

use anyhow::Result;

/// Says one line.
pub(crate) fn say(line: impl AsRef<str>) {
    eprintln!("xtask: {}", line.as_ref());
}

/// Says what begins, does it, and says how long it took.
pub(crate) fn step<T>(what: &str, action: impl FnOnce() -> Result<T>) -> Result<T> {
    say(format!("{what} …"));
    let begin = Instant::now();
    let result = action();
    let verdict = if result.is_ok() { "done" } else { "FAILED" };
    say(format!("{what}: {verdict} in {}", seconds(begin.elapsed())));
    result
}

/// A duration for people.
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
    fn durations_read_well() {
        for (millis, expected) in [(0, "0.0 s"), (1_540, "1.5 s"), (59_900, "59.9 s"), (61_000, "1 min 01 s")]
        {
            assert_eq!(seconds(Duration::from_millis(millis)), expected);
        }
    }
}

//! Reads the lines of a run's output until it is ready.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use serde::Serialize;

use crate::container::{Chunk, ProgramControl, ProgramLog};
use sandbox_podman::EngineError;

/// The line by which a run reports that its set-up is complete, unless the image uses another.
pub const READY_MARKER: &str = ">> init complete";

/// The longest line that is checked as a whole; longer ones are checked in pieces.
const LONGEST: usize = 64 << 10;

/// The result of waiting for a run's readiness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Readiness {
    /// A line reported that it is ready.
    Ready,
    /// No line did within the time limit. The run continues.
    TimedOut,
    /// The run ended before any line did.
    Ended,
}

impl Readiness {
    /// Whether a line reported that it is ready.
    #[must_use]
    pub fn is_ready(self) -> bool {
        self == Self::Ready
    }
}

/// The pause between two reads of a log, as a multiple of the read's duration and within these
/// bounds: reading a large log takes processor time.
const PAUSE_FACTOR: u32 = 5;
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Passes each line of a run's log to `check` until it accepts one or the run has ended; returns
/// whether it accepted one.
pub(super) async fn wait_for_line(
    run: &dyn ProgramControl,
    mut check: impl FnMut(&str) -> bool,
) -> Result<bool, EngineError> {
    let mut given = Given::default();
    loop {
        let ProgramLog { mut ended, output } = run.log().await?;
        let since = Instant::now();
        let mut look = given.look(output, ended, &mut check).await?;
        if look == Look::Other {
            // The log was restarted: nothing of it was passed on yet.
            given = Given::default();
            let log = run.log().await?;
            ended = log.ended;
            look = given.look(log.output, ended, &mut check).await?;
        }
        if look == Look::Found {
            return Ok(true);
        }
        if ended {
            return Ok(false);
        }
        // tidy: sleep: the engine has no reliable way to follow a log
        tokio::time::sleep((since.elapsed() * PAUSE_FACTOR).clamp(SHORTEST, LONGEST_PAUSE)).await;
    }
}

/// The result of a read of a log.
#[derive(Debug, PartialEq, Eq)]
enum Look {
    /// A line was accepted.
    Found,
    /// No new line was accepted.
    Nothing,
    /// The log does not start with the known lines: it is another one.
    Other,
}

/// The lines that were passed on: their number and content.
#[derive(Debug, Default)]
struct Given {
    lines: u64,
    digest: DefaultHasher,
}

impl Given {
    /// Passes on the new part of `output`, a log from its start. An incomplete last line is passed
    /// on once the container has `ended`. Empty lines are left out; invalid UTF-8 is replaced.
    async fn look(
        &mut self,
        mut output: impl Stream<Item = Result<Chunk, EngineError>> + Unpin,
        ended: bool,
        check: &mut impl FnMut(&str) -> bool,
    ) -> Result<Look, EngineError> {
        let (before, mut known, mut digest) = (self.lines, 0, DefaultHasher::new());
        let (mut same, mut found) = (before == 0, false);
        let mut line = |line: &str| {
            if known < before {
                line.hash(&mut digest);
                known += 1;
                same = known == before && digest.finish() == self.digest.finish();
                // A log without the known lines is another one.
                return known == before && !same;
            }
            line.hash(&mut self.digest);
            self.lines += 1;
            found = check(line);
            found
        };
        let (mut stdout, mut stderr) = (Lines::default(), Lines::default());
        let mut stopped = false;
        while let Some(chunk) = output.next().await {
            stopped = match chunk? {
                Chunk::Stdout(bytes) => stdout.push(&bytes, &mut line),
                Chunk::Stderr(bytes) => stderr.push(&bytes, &mut line),
            };
            if stopped {
                break;
            }
        }
        if ended && !stopped {
            let _ = stdout.end(&mut line) || stderr.end(&mut line);
        }
        Ok(match (same, found) {
            (false, _) => Look::Other,
            (true, true) => Look::Found,
            (true, false) => Look::Nothing,
        })
    }
}

/// An incomplete line.
#[derive(Debug, Default)]
struct Lines(Vec<u8>);

impl Lines {
    fn push(&mut self, bytes: &Bytes, give: &mut impl FnMut(&str) -> bool) -> bool {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.0.extend_from_slice(piece);
            if (piece.ends_with(b"\n") || self.0.len() >= LONGEST) && self.end(give) {
                return true;
            }
        }
        false
    }

    fn end(&mut self, give: &mut impl FnMut(&str) -> bool) -> bool {
        let line = std::mem::take(&mut self.0);
        let line = String::from_utf8_lossy(&line);
        let line = line.trim();
        !line.is_empty() && give(line)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    /// The result of reading `chunks`.
    async fn look(given: &mut Given, chunks: Vec<Chunk>, ended: bool, marker: &str) -> (Look, Vec<String>) {
        let mut seen = Vec::new();
        let output = stream::iter(chunks.into_iter().map(Ok));
        let mut check = |line: &str| {
            seen.push(line.to_owned());
            line.contains(marker)
        };
        let look = given.look(output, ended, &mut check).await.unwrap();
        (look, seen)
    }

    fn out(text: &'static str) -> Chunk {
        Chunk::Stdout(Bytes::from_static(text.as_bytes()))
    }

    fn err(text: &'static str) -> Chunk {
        Chunk::Stderr(Bytes::from_static(text.as_bytes()))
    }

    #[tokio::test]
    async fn marker_is_found_in_any_split_and_stream() {
        for chunks in [
            vec![out("a\n\n>> init complete\nb\n")],
            vec![out("a\n>> in"), err("c"), out("it complete\n")],
            vec![out("a\n"), err(">> init complete")],
        ] {
            let (found, seen) = look(&mut Given::default(), chunks, true, READY_MARKER).await;
            assert!(found == Look::Found && !seen.contains(&"b".to_owned()), "{seen:?}");
        }
        let chunks = vec![out(">> init\n complete"), err("x\n")];
        let (found, seen) = look(&mut Given::default(), chunks, true, READY_MARKER).await;
        assert_eq!(found, Look::Nothing);
        assert_eq!(seen, [">> init", "x", "complete"]);
    }

    #[tokio::test]
    async fn complete_line_is_passed_on_once() {
        let mut given = Given::default();
        for (chunks, ended, expected) in [
            (vec![out("a\na\nb")], false, vec!["a", "a"]),
            (vec![out("a\na\nb")], false, vec![]),
            (vec![out("a\na\nbc\n"), err("d\n")], false, vec!["bc", "d"]),
            (vec![out("a\na\nbc\n"), err("d\n"), out("e")], true, vec!["e"]),
        ] {
            let (found, seen) = look(&mut given, chunks, ended, "never").await;
            assert_eq!((found, seen), (Look::Nothing, expected.into_iter().map(str::to_owned).collect()));
        }
    }

    #[tokio::test]
    async fn restarted_log_is_distinguished_from_a_continued_one() {
        for other in [vec![out("x\n")], vec![out("x\ny\nb\n")], vec![]] {
            let mut given = Given::default();
            look(&mut given, vec![out("a\nb\n")], false, "never").await;
            let (found, seen) = look(&mut given, other, false, "never").await;
            assert_eq!((found, seen), (Look::Other, Vec::new()));
        }
    }

    #[tokio::test]
    async fn endless_line_is_bounded() {
        let chunk = || Chunk::Stdout(Bytes::from(vec![b'x'; 8192]));
        let chunks = (0..100).map(|_| chunk()).collect();
        let (found, seen) = look(&mut Given::default(), chunks, true, "y").await;
        assert!(found == Look::Nothing && seen.iter().all(|line| line.len() <= LONGEST + 8192));
        assert!(seen.len() > 10);
    }
}

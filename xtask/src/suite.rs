//! Running test programs: their output goes on to the terminal, their results are counted.

use std::io::{BufRead, BufReader, Write};
use std::ops::AddAssign;
use std::process::{ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::process;

/// How long a program may print nothing: several times what the longest test takes. A test that waits for ever is a fault that
/// must be named, not a run that never ends.
const SILENCE: Duration = Duration::from_mins(12);

/// How many tests passed and failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    /// Programs that ended badly without saying that a test failed.
    pub(crate) broken: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.broken += other.broken;
    }
}

impl Tally {
    /// Whether tests ran and all passed. That nothing ran is a fault of the suite, not a success.
    pub(crate) fn is_good(self) -> bool {
        self.passed > 0 && self.failed == 0 && self.broken == 0
    }

    /// The closing line that continuous integration reads.
    pub(crate) fn line(self) -> String {
        format!("{} passed, {} failed", self.passed, self.failed + self.broken)
    }
}

/// Runs to the end, whatever the result; what the program prints appears on our stdout.
pub(crate) fn run(command: &mut Command) -> Result<Tally> {
    run_into(command, &mut std::io::stdout(), SILENCE)
}

fn run_into(command: &mut Command, sink: &mut dyn Write, silence: Duration) -> Result<Tally> {
    let what = process::describe(command);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {what}"))?;
    let lines = lines_of(child.stdout.take().context("the child has no stdout")?);
    let mut tally = Tally::default();
    loop {
        let mut line = match lines.recv_timeout(silence) {
            Ok(line) => line?,
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                crate::report::say(format!(
                    "{what} printed nothing for {} s and is ended: a test hangs, see \"running for over 60 seconds\" above",
                    silence.as_secs()
                ));
                child.kill().with_context(|| format!("cannot end {what}"))?;
                break;
            }
        };
        tally += result_line(&String::from_utf8_lossy(&line)).unwrap_or_default();
        line.push(b'\n');
        sink.write_all(&line)?;
        sink.flush()?;
    }
    let status = child.wait().with_context(|| format!("cannot await {what}"))?;
    if !status.success() && tally.failed == 0 {
        crate::report::say(format!("{what} ended with {status}"));
        tally.broken += 1;
    }
    Ok(tally)
}

/// Bytes, not text: what a failing test prints need not be UTF-8.
fn lines_of(output: ChildStdout) -> Receiver<std::io::Result<Vec<u8>>> {
    let (sender, receiver) = sync_channel(64);
    thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n') {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

/// `test result: ok. 3 passed; 0 failed; …`
fn result_line(line: &str) -> Option<Tally> {
    let numbers = line.trim_start().strip_prefix("test result: ")?.split_once(". ")?.1;
    let mut tally = Tally::default();
    for part in numbers.split("; ") {
        match part.split_once(' ') {
            Some((number, "passed")) => tally.passed = number.parse().ok()?,
            Some((number, "failed")) => tally.failed = number.parse().ok()?,
            _ => {}
        }
    }
    Some(tally)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::command;

    #[test]
    fn result_lines_are_counted() {
        let line = "test result: FAILED. 12 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s";
        assert_eq!(result_line(line), Some(Tally { passed: 12, failed: 3, broken: 0 }));
        assert_eq!(result_line("test foo ... ok"), None);
    }

    #[test]
    fn nothing_run_is_not_good() {
        assert!(!Tally::default().is_good());
        assert!(Tally { passed: 1, ..Tally::default() }.is_good());
    }

    #[test]
    fn a_program_that_ends_badly_counts_as_a_failure() {
        // The sink keeps the line from the terminal, where the suite around this test would count it.
        let mut sink = Vec::new();
        let mut command = command("sh", ["-c", "echo 'test result: ok. 2 passed; 0 failed; x'; exit 9"]);
        let tally = run_into(&mut command, &mut sink, SILENCE).unwrap();
        assert_eq!(sink, b"test result: ok. 2 passed; 0 failed; x\n");
        assert_eq!(tally, Tally { passed: 2, failed: 0, broken: 1 });
        assert_eq!(tally.line(), "2 passed, 1 failed");
    }

    #[test]
    fn a_program_that_hangs_is_ended_and_counts_as_a_failure() {
        let mut sink = Vec::new();
        let mut command = command("sleep", ["600"]);
        let tally = run_into(&mut command, &mut sink, Duration::from_millis(20)).unwrap();
        assert!(!tally.is_good() && tally.broken == 1);
    }
}

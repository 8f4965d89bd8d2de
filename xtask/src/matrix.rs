//! The record of the last complete matrix, and the paths that have changed since.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::process::{self, command};
use crate::report::{say, seconds, step};
use crate::results::Results;
use crate::workspace;

/// The number of tests that may pass only on the second try; more fail the matrix.
pub(crate) const FLAKY: usize = 3;
/// The path of the record in the checkout.
const FILE: &str = "tests/matrix.md";

/// The durations of the parts of a run, and the failed parts.
#[derive(Default)]
pub(crate) struct Parts {
    took: Vec<(String, Duration)>,
    failed: Vec<String>,
}

impl Parts {
    /// Runs one part, and records its duration.
    pub(crate) fn step<T>(&mut self, name: &str, action: impl FnOnce() -> Result<T>) -> Result<T> {
        let begin = Instant::now();
        let result = step(name, action);
        self.took.push((name.to_owned(), begin.elapsed()));
        result
    }

    /// Runs one part whose failure does not stop the others: one run reports every failure.
    pub(crate) fn attempt(&mut self, name: &str, action: impl FnOnce() -> Result<()>) {
        if let Err(error) = self.step(name, action) {
            say(format!("failed: {name}: {error:#}"));
            self.failed.push(name.to_owned());
        }
    }

    /// Fails if a part failed.
    pub(crate) fn verdict(&self) -> Result<()> {
        if self.failed.is_empty() { Ok(()) } else { bail!("failed: {}", self.failed.join("; ")) }
    }

    pub(crate) fn report(&self) {
        say("the parts took:");
        for (name, duration) in &self.took {
            say(format!("  {:>12}  {name}", seconds(*duration)));
        }
    }
}

/// Writes the record of a matrix that passed on the current commit.
pub(crate) fn write(parts: &Parts, results: &Results) -> Result<()> {
    let date = process::output(&mut command("date", ["--utc", "+%Y-%m-%d"]))?;
    let text = render(&head()?, date.trim(), parts, results)?;
    let file = path();
    fs::write(&file, text).with_context(|| format!("failed to write {}", file.display()))
}

fn render(commit: &str, date: &str, parts: &Parts, results: &Results) -> Result<String> {
    let total = parts.took.iter().map(|(_, duration)| *duration).sum();
    let mut text = format!(
        "# The last whole matrix\n\n`cargo xtask test --all` writes this file. What has changed since its commit decides which tests\n\
         `cargo xtask test` adds to the fast ones.\n\n- Commit: {commit}\n- Date: {date}\n- Result: {}\n- Time: {}\n\n\
         | Part | Time |\n|---|---:|\n",
        results.line(),
        seconds(total),
    );
    for (name, duration) in &parts.took {
        writeln!(text, "| {name} | {} |", seconds(*duration))?;
    }
    text += "\n| Slowest tests | Time |\n|---|---:|\n";
    for (time, name) in results.slowest(10) {
        writeln!(text, "| `{name}` | {time:.1} s |")?;
    }
    text += "\n## Tests that passed only when they ran again\n\n";
    if results.flaky().is_empty() {
        text += "None.\n";
    }
    for name in results.flaky() {
        writeln!(text, "- `{name}`")?;
    }
    Ok(text)
}

/// The paths that differ from the commit of the last matrix; none if there is no record.
pub(crate) fn changed_since() -> Result<Vec<String>> {
    let recorded = fs::read_to_string(path()).ok();
    let Some(commit) = recorded.as_deref().and_then(commit_in) else {
        say(format!("{FILE} has no record of a matrix: nothing is added to the fast tests"));
        return Ok(Vec::new());
    };
    let names = git(&["diff", "--name-only", commit])
        .with_context(|| format!("{FILE} names a commit that is not in this checkout's history"))?;
    Ok(names.lines().map(str::to_owned).collect())
}

fn commit_in(record: &str) -> Option<&str> {
    record.lines().find_map(|line| line.strip_prefix("- Commit: "))
}

/// Notes the commit that passed, if only the record differs from it.
pub(crate) fn note_passed() -> Result<()> {
    let differs = git(&["status", "--porcelain"])?;
    if differs.lines().any(|line| line.get(3..) != Some(FILE)) {
        say("no commit is noted as passed, since there are uncommitted changes");
        return Ok(());
    }
    let file = workspace::state().join("passed");
    fs::write(&file, head()? + "\n").with_context(|| format!("failed to write {}", file.display()))
}

fn head() -> Result<String> {
    Ok(git(&["rev-parse", "HEAD"])?.trim().to_owned())
}

fn git(arguments: &[&str]) -> Result<String> {
    process::output(command("git", arguments).current_dir(workspace::root()))
}

fn path() -> PathBuf {
    workspace::root().join(FILE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_is_read_back() {
        let parts = Parts { took: vec![("lints".into(), Duration::from_secs(61))], failed: Vec::new() };
        let text = render("0123abc", "2026-11-24", &parts, &Results::default()).unwrap();
        assert_eq!(commit_in(&text), Some("0123abc"));
        assert!(text.contains("| lints | 1 min 01 s |") && text.contains("None."), "{text}");
    }
}

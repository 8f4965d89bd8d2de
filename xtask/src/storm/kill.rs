//! Storms of SIGKILL to one or several commands and to the processes that remove what they left, during
//! a task that must not be disturbed; the next run must not be affected.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::field::{Field, Random};
use super::inventory::Inventory;
use super::report::{Report, spread};
use crate::process;

/// Reports of `-vv` at the steps of a task; a command is killed right after one of them.
const STEPS: [&str; 7] =
    ["instance lock", "created", "started", "ended", "removed", "handed over", "connected"];

/// The number of commands that are killed together at a random moment.
const TOGETHER: u32 = 3;

/// Runs `rounds` rounds of three kinds in turn: several commands are killed at a random moment; one is
/// killed at a step; or one ends, and its removal is killed at a random moment.
pub(crate) fn storm(field: &Field, rounds: u32, seed: u64) -> Result<Report> {
    let mut report = Report::default();
    let mut random = Random::new(seed);
    let whole = whole(field)?;
    let bystander = field.bystander()?;
    let before = Inventory::settled(field)?;
    let (mut left, mut kills, mut missed, mut next) = (0, 0, 0, Vec::new());
    for round in 0..rounds {
        // Only the first kind leaves its removal to another process.
        let (name, words) = field.kind(if round % 3 == 1 { 0 } else { round / 3 });
        let share = u32::try_from(random.below(150)).unwrap_or(0);
        let moment = if round % 3 == 0 {
            let together: Vec<_> = (0..TOGETHER).map(|more| field.kind(round / 3 + more).1).collect();
            kills += TOGETHER;
            missed += kill_after(field, &together, whole * share / 100)?;
            format!("{share} % of a whole one, with the {} after it", TOGETHER - 1)
        } else if round % 3 == 1 {
            command(field, &words).status()?;
            kills += 1;
            missed += u32::from(!kill_removal(field, whole * share / 400)?);
            format!("{} % of a whole one after its end", share / 4)
        } else {
            let step = usize::try_from(random.below(STEPS.len() as u64)).ok();
            let step = step.and_then(|step| STEPS.get(step)).copied().unwrap_or_default();
            kills += 1;
            missed += u32::from(!kill_at(field, &words, step)?);
            format!("`{step}`")
        };
        let remains = Inventory::take(field)?;
        left += u32::from(remains.count("containers") > before.count("containers"));
        let begun = Instant::now();
        if let Some(problem) = field.next_run()? {
            report.problem(format!("the run after {name} was killed at {moment} failed: {problem}"));
        }
        next.push(begun.elapsed().as_secs_f64());
        if let Some(problem) = broken_session(field) {
            report.problem(format!("the session after {name} was killed at {moment}: {problem}"));
        }
    }
    // Objects that the engine was asked to create before the kill may appear after the sweep.
    Inventory::settled(field)?;
    if let Some(problem) = field.next_run()? {
        report.problem(format!("the last run failed: {problem}"));
    }
    let after = Inventory::settled(field)?;
    report.row(
        "kills (three at a random moment, a removal, and one at a named step, in turn)",
        format!("{kills} in {rounds} rounds, {missed} of them after the end"),
    );
    report.row("containers left before the next run", format!("{left} times"));
    report.row("the next run", spread(next));
    after.compare(&before, &mut report);
    let undisturbed = Field::release(bystander)?;
    report.row("bystander disturbed", if undisturbed { "no" } else { "yes" });
    if !undisturbed {
        report.problem("the bystander was disturbed");
    }
    Ok(report)
}

/// The duration of a complete `run`. Each kind runs once before, since the first one builds the
/// image.
fn whole(field: &Field) -> Result<Duration> {
    let mut took = Duration::ZERO;
    for number in (0..4).chain([0]) {
        let (name, words) = field.kind(number);
        let begun = Instant::now();
        let status = command(field, &words).status()?;
        took = begun.elapsed();
        if !status.success() {
            bail!("`{name}` failed: {status}");
        }
    }
    Ok(took)
}

fn command(field: &Field, words: &[String]) -> std::process::Command {
    field.sandbox(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Starts commands and kills them after `delay`; returns how many had already ended.
fn kill_after(field: &Field, together: &[Vec<String>], delay: Duration) -> Result<u32> {
    let mut children = Vec::new();
    for words in together {
        children.push(command(field, words).spawn()?);
    }
    // tidy: sleep: the moment of the kill.
    std::thread::sleep(delay);
    let mut ended = 0;
    for child in &mut children {
        ended += u32::from(!kill(child)?);
    }
    Ok(ended)
}

/// Starts a command and kills it when it reports `step`; returns whether that was before its end.
fn kill_at(field: &Field, words: &[String], step: &str) -> Result<bool> {
    let verbose: Vec<&str> = ["-vv"].into_iter().chain(words.iter().map(String::as_str)).collect();
    let mut child = field.sandbox(&verbose).stderr(Stdio::piped()).spawn()?;
    let stderr = BufReader::new(child.stderr.take().context("a pipe")?);
    for line in stderr.lines() {
        if line?.contains(step) {
            return kill(&mut child);
        }
    }
    kill(&mut child)
}

/// Kills the removals of ended commands after `delay`; returns whether there was one.
fn kill_removal(field: &Field, delay: Duration) -> Result<bool> {
    // tidy: sleep: the moment of the kill.
    std::thread::sleep(delay);
    let mut killed = false;
    for lock in fs::read_dir(field.state().join("sandbox/instances"))? {
        let path = lock?.path();
        let text = fs::read_to_string(&path).unwrap_or_default();
        let Some(pid) = text.lines().nth(1).and_then(|line| line.strip_prefix("pid ")) else { continue };
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0);
        if words.nth(1) == Some(b"--removal") && words.any(|word| word == path.as_os_str().as_encoded_bytes())
        {
            process::run_quietly(&mut process::command("kill", ["-KILL", pid]))?;
            killed = true;
        }
    }
    Ok(killed)
}

fn kill(child: &mut Child) -> Result<bool> {
    let runs = child.try_wait()?.is_none();
    drop(child.kill());
    child.wait()?;
    Ok(runs)
}

/// The problem of the session of killed agents, if it is broken.
fn broken_session(field: &Field) -> Option<String> {
    let text = fs::read_to_string(field.session().join("context.json")).ok()?;
    serde_json::from_str::<Value>(&text).err().map(|error| error.to_string())
}

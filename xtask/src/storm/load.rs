//! Storms of many tasks: concurrent, in sequence, and idle.

use std::process::Child;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::field::Field;
use super::inventory::Inventory;
use super::report::{Report, spread};
use crate::process::{self, command};

/// Runs a tenth of `rounds` concurrently (at most 30), all of them in sequence, and a third of them
/// idle (at most 100).
pub(crate) fn storm(field: &Field, rounds: u32) -> Result<Report> {
    let mut report = Report::default();
    // The first run builds the image, the second creates the objects that the engine keeps for
    // ever.
    for _ in 0..2 {
        if let Some(problem) = field.next_run()? {
            report.problem(format!("the first run failed: {problem}"));
        }
    }
    let before = Inventory::settled(field)?;
    at_once(field, rounds.div_ceil(10).min(30), &mut report)?;
    in_a_row(field, rounds, &mut report)?;
    idle(field, rounds.div_ceil(3).min(100), &before, &mut report)?;
    Inventory::settled(field)?.compare(&before, &mut report);
    Ok(report)
}

fn at_once(field: &Field, count: u32, report: &mut Report) -> Result<()> {
    let begun = Instant::now();
    let mut children = Vec::new();
    for _ in 0..count {
        children.push(field.sandbox(&["run", "--", "true"]).spawn()?);
    }
    let good = ended_well(children, Some(0))?;
    report.row("at once", format!("{good} of {count} good in {:.1} s", begun.elapsed().as_secs_f64()));
    if good != count {
        report.problem(format!("{} of {count} at once failed", count - good));
    }
    Ok(())
}

fn in_a_row(field: &Field, count: u32, report: &mut Report) -> Result<()> {
    let (mut good, mut times) = (0, Vec::new());
    for _ in 0..count {
        let begun = Instant::now();
        good += u32::from(field.sandbox(&["run", "--", "true"]).status()?.success());
        times.push(begun.elapsed().as_secs_f64());
    }
    let half = times.split_off(times.len() / 2);
    report.row("in a row", format!("{good} of {count} good"));
    report.row("the first half", spread(times));
    report.row("the second half", spread(half));
    if good != count {
        report.problem(format!("{} of {count} in a row failed", count - good));
    }
    Ok(())
}

fn idle(field: &Field, count: u32, before: &Inventory, report: &mut Report) -> Result<()> {
    let begun = Instant::now();
    let mut tasks: Vec<Child> = Vec::new();
    // Ten at a time, so that their starts do not time out on a small machine.
    while tasks.len() < count as usize {
        for _ in 0..10.min(count as usize - tasks.len()) {
            tasks.push(field.bystander()?);
        }
    }
    let started = begun.elapsed();
    let during = Inventory::settled(field)?;
    let used = processor(field.engine);
    let span = Duration::from_secs(10);
    // tidy: sleep: the duration of the measurement.
    std::thread::sleep(span);
    let ticks = processor(field.engine).saturating_sub(used);
    let tenths = ticks * 10 / span.as_secs();
    report.row("idle", format!("{count}, started in {:.0} s", started.as_secs_f64()));
    report.row(
        "engine with them",
        format!(
            "{}.{} % of a processor, {} MiB, {} descriptors, interfaces +{}, mounts +{}",
            tenths / 10,
            tenths % 10,
            during.resident >> 10,
            during.descriptors,
            during.count("interfaces").saturating_sub(before.count("interfaces")),
            during.count("mounts").saturating_sub(before.count("mounts")),
        ),
    );
    let begun = Instant::now();
    for task in &mut tasks {
        if task.try_wait()?.is_some() {
            report.problem("an idle task ended by itself");
        }
        drop(process::run_quietly(&mut command("kill", ["-TERM", &task.id().to_string()])));
    }
    let good = ended_well(tasks, Some(143))?;
    report.row("all ended at once", format!("{good} of {count} in {:.1} s", begun.elapsed().as_secs_f64()));
    if good != count {
        report.problem(format!("{} of {count} idle tasks did not end when asked to", count - good));
    }
    Ok(())
}

fn ended_well(children: Vec<Child>, code: Option<i32>) -> Result<u32> {
    let mut good = 0;
    for mut child in children {
        good += u32::from(child.wait()?.code() == code);
    }
    Ok(good)
}

/// Hundredths of a second of processor time that the process has used.
fn processor(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name may contain spaces; the fields after it do not.
    let fields = text.rsplit(") ").next().unwrap_or_default().split(' ');
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
}

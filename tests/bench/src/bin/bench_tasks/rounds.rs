//! The rounds. The ways alternate, so that all see the same machine state.

use std::time::Duration;

use anyhow::{Context, Result};
use benchmarks::{Sample, machine_milliseconds};
use sandbox::Timings;

use super::Args;
use super::apply::ApplyTrees;
use super::at_once;
use super::bare::BareEngine;
use super::days;
use super::in_flight;
use super::report::{AtOnceTimes, Day, InFlight, Report, Step};
use super::sandboxed::{CommandLine, Library};
use super::terminal::{self, Shell};
use super::worktree::{Way, WorkTree};

/// A point in time of an execution, by its name in the report.
type Milestone = (&'static str, fn(&Timings) -> u64);
const MILESTONES: [Milestone; 5] = [
    ("the task's network is ready", |timings| timings.network_ready_ms),
    ("the task's container is ready", |timings| timings.container_ready_ms),
    ("the proxy serves", |timings| timings.proxy_ready_ms),
    ("the process is started", |timings| timings.started_ms),
    ("the exit code is known", |timings| timings.exited_ms),
];

const WAYS: [Way; 3] = [Way::Plain, Way::Protected, Way::Copy];

/// Runs all measurements. The library's objects are removed even if a measurement fails.
pub(crate) async fn measure(args: &Args) -> Result<Report> {
    let folder = tempfile::tempdir().context("failed to create a folder")?;
    let command = CommandLine::new(args, folder.path())?;
    let tree = WorkTree::new(&folder.path().join("worktree"), 10_000)?;
    let trees = ApplyTrees::new(&folder.path().join("apply"))?;
    let library = Library::start(args, &folder.path().join("library")).await?;
    let measured = async {
        let mut samples = rounds(args, &library, &command, &tree).await?;
        let at_once = at_once::measure(args, &command).await?;
        let in_flight = in_flight::measure(args, &library).await?;
        for _ in 0..args.rounds {
            terminal::round(args, &command, [&mut samples.shell, &mut samples.bare_shell])?;
        }
        let samples = applies(args, &library, &trees, samples).await?;
        let days = days::measure(folder.path(), &library, args.rounds.div_ceil(4)).await?;
        anyhow::Ok(samples.report(days, at_once, in_flight))
    };
    let measured = measured.await;
    let ended = library.shutdown().await;
    let report = measured?;
    ended?;
    Ok(report)
}

async fn rounds(
    args: &Args,
    library: &Library,
    command: &CommandLine<'_>,
    tree: &WorkTree,
) -> Result<Samples> {
    let bare = BareEngine::new(&args.engine);
    // The first round is a warm-up.
    let mut samples =
        round(args, &bare, library, command, tree, Samples::default()).await.map(|_| Samples::default())?;
    for _ in 0..args.rounds {
        samples = round(args, &bare, library, command, tree, samples).await?;
    }
    samples.bare_exec = bare.execs(&args.image, args.rounds).await?.into_iter().map(milliseconds).collect();
    samples.executor = library.execs(args.rounds).await?.into_iter().map(milliseconds).collect();
    Ok(samples)
}

/// Each takes many times as long as a round of the others, so there are fewer.
async fn applies(
    args: &Args,
    library: &Library,
    trees: &ApplyTrees,
    mut samples: Samples,
) -> Result<Samples> {
    trees.round(library).await?;
    for _ in 0..args.rounds.div_ceil(4) {
        let round = trees.round(library).await?;
        samples.large_plain.push(milliseconds(round.large_plain));
        samples.large_more.push(milliseconds(round.large_more));
        samples.large_apply.push(milliseconds(round.large_apply));
        samples.many_apply.push(milliseconds(round.many_apply));
        samples.many_copied.push(milliseconds(round.many_copied));
    }
    Ok(samples)
}

async fn round(
    args: &Args,
    bare: &BareEngine,
    library: &Library,
    command: &CommandLine<'_>,
    tree: &WorkTree,
    mut samples: Samples,
) -> Result<Samples> {
    let (run, processor) = machine_milliseconds(bare.run(&args.image)).await?;
    samples.bare.push(milliseconds(run.removed));
    samples.bare_exited.push(milliseconds(run.exited));
    samples.bare_processor.push(processor);
    let ((), processor) = machine_milliseconds(command.run()).await?;
    samples.command_processor.push(processor);
    let (wall, timings) = library.run("true", None).await?;
    samples.library.push(milliseconds(wall));
    samples.library_warm.push(milliseconds(library.run_warm().await?));
    for ((_, milestone), sample) in MILESTONES.iter().zip(&mut samples.steps) {
        sample.push(milliseconds(Duration::from_millis(milestone(&timings))));
    }
    for (way, sample) in WAYS.into_iter().zip(&mut samples.tree) {
        let (_, timings) = library.run("true", Some(tree.mount(way))).await?;
        sample.push(milliseconds(Duration::from_millis(timings.started_ms)));
        tree.discard()?;
    }
    Ok(samples)
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

#[derive(Default)]
struct Samples {
    bare: Sample,
    bare_exited: Sample,
    bare_processor: Sample,
    bare_exec: Sample,
    executor: Sample,
    command_processor: Sample,
    library: Sample,
    library_warm: Sample,
    steps: [Sample; MILESTONES.len()],
    tree: [Sample; WAYS.len()],
    shell: Shell,
    bare_shell: Shell,
    large_plain: Sample,
    large_more: Sample,
    large_apply: Sample,
    many_apply: Sample,
    many_copied: Sample,
}

impl Samples {
    fn report(&self, days: Vec<Day>, at_once: Vec<AtOnceTimes>, in_flight: InFlight) -> Report {
        let step = |((name, _), sample): (&Milestone, &Sample)| Step { name, at_ms: sample.spread() };
        let [plain, protected, copy] = &self.tree;
        Report {
            tree_plain_ms: plain.spread(),
            tree_protected_ms: protected.spread(),
            tree_copy_ms: copy.spread(),
            large_plain_ms: self.large_plain.spread(),
            large_more_ms: self.large_more.spread(),
            large_apply_ms: self.large_apply.spread(),
            many_apply_ms: self.many_apply.spread(),
            many_copied_ms: self.many_copied.spread(),
            bare_ms: self.bare.spread(),
            bare_exited_ms: self.bare_exited.spread(),
            bare_processor_ms: self.bare_processor.spread(),
            bare_exec_ms: self.bare_exec.spread(),
            executor_ms: self.executor.spread(),
            at_once,
            in_flight,
            command_processor_ms: self.command_processor.spread(),
            library_ms: self.library.spread(),
            library_warm_ms: self.library_warm.spread(),
            shell: self.shell.spread(),
            bare_shell: self.bare_shell.spread(),
            days,
            steps: MILESTONES.iter().zip(&self.steps).map(step).collect(),
        }
    }
}

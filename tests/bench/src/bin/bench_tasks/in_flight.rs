//! Many tasks of one process at once, compared with as many containers without a sandbox.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use benchmarks::Sample;
use futures_util::future::try_join_all;

use super::Args;
use super::bare::BareEngine;
use super::report::{InFlight, InFlightSide};
use super::sandboxed::Library;

/// How many `true` run at once.
const COUNT: u32 = 100;
const ROUNDS: u32 = 3;
/// How many idle ones the memory is measured with.
const IDLE: u32 = 20;

#[derive(Default)]
struct Side {
    per_second: Sample,
    p50: Sample,
    p99: Sample,
    memory_kib: f64,
}

impl Side {
    /// Adds a round, with the milliseconds of each to its exit code.
    fn push(&mut self, wall: Duration, each: &Sample) {
        self.per_second.push(f64::from(COUNT) / wall.as_secs_f64());
        self.p50.push(each.median());
        self.p99.push(each.quantile(99));
    }

    fn report(&self) -> InFlightSide {
        InFlightSide {
            per_second: self.per_second.median(),
            p50_ms: self.p50.median(),
            p99_ms: self.p99.median(),
            memory_kib: self.memory_kib,
        }
    }
}

pub(crate) async fn measure(args: &Args, library: &Library) -> Result<InFlight> {
    let engine = BareEngine::new(&args.engine);
    let (mut bare, mut sandboxed) = (Side::default(), Side::default());
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        let runs = try_join_all((0..COUNT).map(|_| engine.run(&args.image))).await?;
        let wall = begin.elapsed();
        bare.push(wall, &runs.iter().map(|run| run.exited.as_secs_f64() * 1e3).collect());
        let begin = Instant::now();
        let each = try_join_all((0..COUNT).map(|_| library.run_true())).await?;
        library.await_cleaning().await?;
        let wall = begin.elapsed();
        sandboxed.push(wall, &each.iter().map(|wall| wall.as_secs_f64() * 1e3).collect());
    }
    bare.memory_kib = engine.idle(&args.image, IDLE, available_kib).await? / f64::from(IDLE);
    sandboxed.memory_kib = library.idle(IDLE, available_kib).await? / f64::from(IDLE);
    Ok(InFlight { count: COUNT, bare: bare.report(), sandboxed: sandboxed.report() })
}

/// Memory that programs could get.
fn available_kib() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/meminfo").context("failed to read /proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let number = line.and_then(|line| line.split_whitespace().next()).context("no MemAvailable")?;
    number.parse().context("MemAvailable is not a number")
}

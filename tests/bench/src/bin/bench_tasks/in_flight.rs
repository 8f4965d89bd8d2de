//! Many tasks of one process at once, compared with as many containers without a sandbox.

use std::time::{Duration, Instant};

use anyhow::Result;
use benchmarks::Sample;
use futures_util::future::try_join_all;

use super::Args;
use super::bare::BareEngine;
use super::report::{InFlight, InFlightSide};
use super::sandboxed::Library;

/// How many `true` run at once.
const COUNT: u32 = 100;
const ROUNDS: u32 = 3;

#[derive(Default)]
struct Side {
    per_second: Sample,
    p50: Sample,
    p99: Sample,
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
    Ok(InFlight { count: COUNT, bare: bare.report(), sandboxed: sandboxed.report() })
}

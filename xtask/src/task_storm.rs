//! `storm`: tests that nothing is left, lost or disturbed by failures around a task. The figures in
//! `docs/reliability.md` are from here.

use std::time::Instant;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};

use crate::cargo;
use crate::engine::{Podman, PrivateEngine, ensure_image};
use crate::report::{say, seconds, step};
use crate::storm::{Field, engine, kill, load};
use crate::task_base_image::BASE;
use crate::task_proxy_image;

#[derive(Args)]
pub(crate) struct StormArgs {
    /// The kind of failures.
    #[arg(value_enum)]
    storm: Storm,
    /// Use this podman version.
    #[arg(long, value_name = "VERSION", default_value = "5")]
    podman: Podman,
    /// Run this many rounds; `docs/reliability.md` describes the rounds of each storm.
    #[arg(long, value_name = "N", default_value_t = 60)]
    rounds: u32,
    /// Seed the random moments, to make them reproducible.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Storm {
    /// SIGKILL of the command at random moments and at named steps, during a task that must not be
    /// disturbed.
    Kill,
    /// Many tasks: concurrent, in sequence, and idle.
    Load,
    /// An engine that is slow, cut off, answers with nonsense, fails, is stopped or killed.
    Engine,
}

/// Runs a few rounds of each storm, for the matrix.
pub(crate) fn short() -> Result<()> {
    [Storm::Kill, Storm::Load, Storm::Engine]
        .into_iter()
        .try_for_each(|storm| run(&StormArgs { storm, podman: Podman::Five, rounds: 6, seed: 1 }))
}

/// Prints a table, and fails if something was left, lost or disturbed.
pub(crate) fn run(args: &StormArgs) -> Result<()> {
    let engine = PrivateEngine::new(Some(args.podman));
    let version = step(&format!("starting {}", args.podman.name()), || engine.ensure())?;
    ensure_image(engine.socket(), &BASE)?;
    let sandbox = step("building the command", || cargo::program_for_tests("sandbox"))?;
    let proxy = task_proxy_image::build_for_tests()?;
    let field = Field::new(&engine, sandbox, &proxy, &BASE.reference())?;
    let begun = Instant::now();
    let report = match args.storm {
        Storm::Kill => kill::storm(&field, args.rounds, args.seed)?,
        Storm::Load => load::storm(&field, args.rounds)?,
        Storm::Engine => engine::storm(&field, args.rounds, args.seed)?,
    };
    say(format!("podman {version}: {}", seconds(begun.elapsed())));
    println!("{}", report.markdown(&version));
    if !report.problems.is_empty() {
        bail!("{} problems: {}", report.problems.len(), report.problems.join("; "));
    }
    Ok(())
}

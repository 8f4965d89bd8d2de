//! `storm`: what is left, lost or disturbed when everything around a task goes wrong. The figures
//! of `docs/reliability.md` come from here.

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
    /// What goes wrong.
    #[arg(value_enum)]
    storm: Storm,
    /// The podman version to storm on.
    #[arg(long, value_name = "VERSION", default_value = "5")]
    podman: Podman,
    /// How many rounds; each storm says in `docs/reliability.md` what one is.
    #[arg(long, value_name = "N", default_value_t = 60)]
    rounds: u32,
    /// Where the random moments begin: the same number, the same moments.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Storm {
    /// SIGKILL of the command at random moments and at named steps, beside a task that must not
    /// notice.
    Kill,
    /// Many tasks at once, in a row, and idle.
    Load,
    /// An engine that is slow, cut off, talks nonsense, fails, is stopped or killed.
    Engine,
}

/// A few rounds of each storm: what the matrix has time for.
pub(crate) fn short() -> Result<()> {
    [Storm::Kill, Storm::Load, Storm::Engine]
        .into_iter()
        .try_for_each(|storm| run(&StormArgs { storm, podman: Podman::Five, rounds: 6, seed: 1 }))
}

/// Prints a table, and fails where something was left, lost or disturbed.
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
    if !report.faults.is_empty() {
        bail!("{} faults: {}", report.faults.len(), report.faults.join("; "));
    }
    Ok(())
}

//! `e2e`: runs the end-to-end tests with real podman, the real proxy and real clients. No test is
//! skipped if something is missing.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;

use crate::e2e::{Programs, Selection, TestEngine, all, named};
use crate::engine::{Podman, PrivateEngine};
use crate::report::{say, step};
use crate::results::Results;

#[derive(Args)]
pub(crate) struct E2eArgs {
    /// Test on this engine; `both` is 4 and 5.
    #[arg(long, value_name = "ENGINE", default_value = "all")]
    podman: Engines,
    /// Test on the engine behind this socket instead, in the current network namespace.
    #[arg(long, value_name = "SOCKET", conflicts_with = "podman")]
    engine: Option<String>,
    /// Run this many tests concurrently [default: 3].
    #[arg(long, value_name = "N")]
    test_threads: Option<usize>,
    /// Stop the private engines after the tests; otherwise they are kept for the next time.
    #[arg(long)]
    stop_engines: bool,
    /// Use this program of Claude Code.
    #[arg(long, value_name = "PATH")]
    claude_bin: Option<PathBuf>,
    /// Run only tests whose names contain one of these.
    #[arg(value_name = "FILTER")]
    filters: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Engines {
    #[value(name = "4")]
    Four,
    #[value(name = "5")]
    Five,
    #[value(name = "4-rootless")]
    FourRootless,
    #[value(name = "5-rootless")]
    FiveRootless,
    Gvisor,
    Quota,
    Both,
    All,
}

impl Engines {
    fn includes(self, podman: Podman) -> bool {
        match self {
            Self::Four => podman == Podman::Four,
            Self::Five => podman == Podman::Five,
            Self::FourRootless => podman == Podman::FourRootless,
            Self::FiveRootless => podman == Podman::FiveRootless,
            Self::Gvisor => podman == Podman::Gvisor,
            Self::Quota => podman == Podman::Quota,
            Self::Both => matches!(podman, Podman::Four | Podman::Five),
            Self::All => true,
        }
    }
}

/// Fails if a test fails twice.
pub(crate) fn run(args: &E2eArgs) -> Result<()> {
    let mut selections = all();
    selections.retain(|selection| args.includes(selection.podman));
    if !args.filters.is_empty() {
        selections = selections.iter().map(|selection| named(selection.podman, &args.filters)).collect();
    }
    let programs = Programs::prepare(&selections, args.claude_bin.as_deref())?;
    let mut results = Results::default();
    for selection in &selections {
        results.extend(match &args.engine {
            Some(socket) => {
                TestEngine::named(socket)?.test(&programs, &selection.filter, args.test_threads)?
            }
            None => on_private_engine(&programs, selection, args.test_threads)?,
        });
        if args.stop_engines {
            let engine = PrivateEngine::new(Some(selection.podman));
            step(&format!("stopping {}", selection.podman.name()), || engine.stop())?;
        }
    }
    results.report();
    println!("{}", results.line());
    if !results.are_good() {
        bail!("end-to-end tests failed");
    }
    Ok(())
}

/// Starts the engine unless it is running, and runs tests on it.
pub(crate) fn on_private_engine(
    programs: &Programs,
    selection: &Selection,
    threads: Option<usize>,
) -> Result<Results> {
    let engine = TestEngine::private(selection.podman)?;
    let name = selection.podman.name();
    let results =
        step(&format!("end-to-end tests on {name}"), || engine.test(programs, &selection.filter, threads))?;
    say(format!("{name}: {}", results.line()));
    Ok(results)
}

impl E2eArgs {
    fn includes(&self, podman: Podman) -> bool {
        match self.engine {
            Some(_) => podman == Podman::Five,
            None => self.podman.includes(podman),
        }
    }
}

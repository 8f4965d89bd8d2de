//! `test`: everything that must hold before a change is good: format, lints, tidy, unit tests, docs, end to end.

use std::time::Instant;

use anyhow::{Result, bail};
use clap::Args;

use crate::cargo::{self, cargo};
use crate::deny;
use crate::process;
use crate::publishing;
use crate::report::{say, seconds, step};
use crate::reproducible;
use crate::suite::{self, Tally};
use crate::task_demo::{self, DemoArgs};
use crate::task_e2e::{self, E2eArgs};
use crate::task_fuzz;
use crate::task_proxy_image::INSIDE;
use crate::task_tidy::{self, TidyArgs};

#[derive(Args)]
pub(crate) struct TestArgs {}

/// Stops at the first step that fails.
pub(crate) fn run(_: &TestArgs) -> Result<()> {
    say("this runs everything that must hold, end to end on six engines that it brings along");
    let begin = Instant::now();
    let mut tally = Tally::default();
    step("format", || process::run(&mut cargo(["fmt", "--all", "--check"])))?;
    step("lints", lint)?;
    step("tidy", || task_tidy::run(&TidyArgs {}))?;
    step("crates that can be published", publishing::check)?;
    step("licences, sources and advisories of dependencies", deny::check)?;
    step("unit tests and examples in the docs", || {
        tally += good(unit_tests()?)?;
        tally += good(suite::run(&mut cargo(["test", "--workspace", "--doc"]))?)?;
        Ok(())
    })?;
    step("docs", || {
        process::run(cargo(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))
    })?;
    step("a few seconds of every fuzz target", task_fuzz::smoke)?;
    step("programs that do not depend on where they were built", || {
        // The proxy takes minutes: `cargo xtask dist --verify` builds it twice too.
        reproducible::check(&[INSIDE])
    })?;
    step("end to end", || {
        tally += good(task_e2e::run_all(&E2eArgs::default())?)?;
        Ok(())
    })?;
    step("demo", || task_demo::run(&DemoArgs::for_tests()))?;
    say(format!("everything is in order after {}", seconds(begin.elapsed())));
    println!("{}", tally.line());
    Ok(())
}

fn lint() -> Result<()> {
    let options = ["--workspace", "--all-targets", "--all-features"];
    process::run(cargo(["clippy"]).args(options).args(["--", "-D", "warnings"]))
}

/// All that needs no engine. One selection of packages in every step, so that nothing is built twice.
fn unit_tests() -> Result<Tally> {
    let (ends, units): (Vec<_>, Vec<_>) =
        cargo::integration_tests()?.into_iter().partition(|test| test.package == task_e2e::PACKAGE);
    if let Some(twin) = ends.iter().find(|end| units.iter().any(|unit| unit.name == end.name)) {
        bail!("two packages have tests/{}.rs: one of them would run without its engine", twin.name);
    }
    let mut command = cargo(["test", "--workspace", "--lib", "--bins"]);
    for unit in units {
        command.args(["--test", &unit.name]);
    }
    suite::run(&mut command)
}

fn good(tally: Tally) -> Result<Tally> {
    if !tally.is_good() {
        println!("{}", tally.line());
        bail!("tests failed, or none ran");
    }
    Ok(tally)
}

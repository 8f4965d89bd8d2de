//! `test`: runs all checks that a change must pass, and with `--all` all checks.

use std::process::Command;
use std::thread;
use std::time::Instant;

use anyhow::{Result, anyhow, bail};
use clap::Args;

use crate::archive::{self, Build};
use crate::cargo::{FOR_TESTS, cargo};
use crate::deny::{self, Advisories};
use crate::e2e::{self, Programs, Selection, TestEngine};
use crate::matrix::{self, Parts};
use crate::nextest;
use crate::process::{self, command};
use crate::publishing;
use crate::report::{say, seconds};
use crate::reproducible;
use crate::results::Results;
use crate::task_browser::{self, BrowserArgs};
use crate::task_demo::{self, DemoArgs};
use crate::task_e2e;
use crate::task_fuzz;
use crate::task_proxy_image::INSIDE;
use crate::task_storm;
use crate::task_tidy::{self, TidyArgs};
use crate::workspace;

#[derive(Args)]
pub(crate) struct TestArgs {
    /// Run the matrix: all checks, on all engines, with storms and fuzzing; and write its record.
    #[arg(long)]
    all: bool,
}

/// The tests that do not need an engine.
const UNITS: &str = "not package(e2e-tests)";

/// Stops if a check of the sources or the build fails; the parts after that all run.
pub(crate) fn run(args: &TestArgs) -> Result<()> {
    let begin = Instant::now();
    let mut parts = Parts::default();
    let mut results = Results::default();
    let outcome =
        if args.all { everything(&mut parts, &mut results) } else { fast(&mut parts, &mut results) };
    results.report();
    parts.report();
    if outcome.is_ok() {
        say(format!("everything passed after {}", seconds(begin.elapsed())));
        if args.all {
            matrix::write(&parts, &results)?;
        }
        matrix::note_passed()?;
    }
    println!("{}", results.line());
    outcome
}

/// Runs the checks that every change must pass, and those that the changes since the last matrix
/// add.
fn fast(parts: &mut Parts, results: &mut Results) -> Result<()> {
    let changed = matrix::changed_since()?;
    let additions = e2e::additions(&changed);
    for added in &additions {
        say(format!("changed since the last matrix, so on {} also {}", added.podman.name(), added.filter));
    }
    let selections = e2e::joined(e2e::fast().into_iter().chain(additions));
    let programs = beside_engines(&selections, || {
        checks(parts, Advisories::IfReachable)?;
        if changed.iter().any(|path| path.ends_with("Cargo.toml") || path.ends_with("Cargo.lock")) {
            parts.step("crates that can be published", publishing::check)?;
        }
        build(parts, &selections)
    })?;
    tests(parts, results, &programs, &selections, Build::Dev);
    parts.verdict()
}

/// Runs the matrix.
fn everything(parts: &mut Parts, results: &mut Results) -> Result<()> {
    let selections = e2e::all();
    let programs = beside_engines(&selections, || {
        checks(parts, Advisories::Required)?;
        parts.step("crates that can be published", publishing::check)?;
        build(parts, &selections)
    })?;
    tests(parts, results, &programs, &selections, Build::Release);
    parts.attempt("a few seconds of every fuzz target", task_fuzz::smoke);
    parts.attempt("programs that do not depend on where they were built", || {
        // The proxy is not checked here, since its build takes minutes; `cargo xtask dist --verify`
        // checks it too.
        reproducible::check(&[INSIDE])
    });
    parts.attempt("storms", task_storm::short);
    parts.verdict()?;
    let flaky = results.flaky().len();
    if flaky > matrix::FLAKY {
        bail!("{flaky} tests passed only on the second try; at most {} may", matrix::FLAKY);
    }
    Ok(())
}

/// Prepares engines and images for tasks during `action`: the preparation waits for the network and
/// the disk.
fn beside_engines<T>(selections: &[Selection], action: impl FnOnce() -> Result<T>) -> Result<T> {
    let prepare =
        || selections.iter().try_for_each(|selection| TestEngine::private(selection.podman).map(drop));
    thread::scope(|scope| {
        let engines = scope.spawn(prepare);
        let result = action()?;
        engines.join().map_err(|_| anyhow!("the preparation of the engines panicked"))??;
        Ok(result)
    })
}

/// Checks the sources.
fn checks(parts: &mut Parts, advisories: Advisories) -> Result<()> {
    parts.step("format", || process::run(&mut cargo(["fmt", "--all", "--check"])))?;
    parts.step("tidy", || task_tidy::run(&TidyArgs {}))?;
    parts.step("licences, sources and advisories of dependencies", || deny::check(advisories))?;
    parts.step("lints", || {
        let options = ["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"];
        process::run(&mut cargo(options))
    })
}

fn build(parts: &mut Parts, selections: &[Selection]) -> Result<Programs> {
    let programs = parts.step("building all programs and tests", || Programs::prepare(selections, None))?;
    e2e::check(&programs.tests)?;
    Ok(programs)
}

/// Runs the tests.
fn tests(
    parts: &mut Parts,
    results: &mut Results,
    programs: &Programs,
    selections: &[Selection],
    build: Build,
) {
    parts.attempt("tests without an engine", || {
        let mut units = programs.tests.command("run", with_tmp_in_memory());
        let mut ran = Results::default();
        ran.add("", nextest::run(units.args(["-E", UNITS]))?);
        add(results, ran)
    });
    parts.attempt("examples in the docs", || {
        process::run(cargo(["test", "--quiet", "--doc", "--no-fail-fast"]).args(FOR_TESTS))
    });
    parts.attempt("docs", || {
        process::run(
            cargo(["doc", "--workspace", "--all-features", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"),
        )
    });
    parts.attempt("reports in a browser", || task_browser::run(&BrowserArgs::for_tests()));
    for selection in selections {
        parts.attempt(&format!("end to end on {}", selection.podman.name()), || {
            add(results, task_e2e::on_private_engine(programs, selection, None)?)
        });
    }
    parts.attempt("demo", || task_demo::run(&DemoArgs::for_tests()));
    parts.attempt("the archive, as users use it", || archive::tested(build).map(drop));
}

/// The beginning of a command that has a `/tmp` of its own in memory, if it may. Tests create and remove
/// trees of small files: ext4 without a journal searches for each new file among those just removed.
fn with_tmp_in_memory() -> Command {
    const MOUNT: &str = "mount -t tmpfs -o mode=1777 tmpfs /tmp && exec \"$@\"";
    let inside = ["--mount", "sh", "-c", MOUNT, "sh"];
    let may = || process::run_quietly(command("unshare", inside).arg("true")).is_ok();
    if workspace::root().starts_with("/tmp") || !may() {
        return command("env", ["--"]);
    }
    let mut command = command("unshare", inside);
    command.env_remove("TMPDIR");
    command
}

/// Fails unless tests `ran` and all passed.
fn add(results: &mut Results, ran: Results) -> Result<()> {
    let verdict = if ran.are_good() { Ok(()) } else { Err(anyhow!("{}", ran.line())) };
    results.extend(ran);
    verdict
}

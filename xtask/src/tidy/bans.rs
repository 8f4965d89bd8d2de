//! Code that is forbidden in parts of the repository.

use super::source::{Finding, Source, is_comment};

/// The marker of the reason for a sleep, which must be on its line or shortly before it.
const SLEEP_REASON: &str = "// tidy: sleep:";

/// Everything this module checks.
pub(crate) fn check_bans(source: &Source) -> Vec<Finding> {
    // The rules themselves contain the forbidden code.
    if !source.is_rust() || source.is_under("xtask/src/tidy/") {
        return Vec::new();
    }
    let mut findings = Vec::new();
    findings.extend(sleeps(source));
    findings.extend(ignored_tests(source));
    findings
}

fn sleeps(source: &Source) -> Vec<Finding> {
    if !source.is_under("crates/") {
        return Vec::new();
    }
    let lines: Vec<_> = source.lines().collect();
    let explained = |number: usize| {
        let from = number.saturating_sub(4);
        lines.iter().take(number).skip(from).any(|(_, line)| line.contains(SLEEP_REASON))
    };
    lines
        .iter()
        .filter(|(_, line)| {
            !is_comment(line) && (line.contains("thread::sleep") || line.contains("time::sleep"))
        })
        .filter(|(number, _)| !explained(*number))
        .map(|(n, _)| source.finding(*n, format!("await an event, or justify it with `{SLEEP_REASON} …`")))
        .collect()
}

fn ignored_tests(source: &Source) -> Vec<Finding> {
    source
        .lines()
        .filter(|(_, line)| line.trim_start().starts_with("#[ignore"))
        .map(|(n, _)| source.finding(n, "a test that does not run is not a test"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::source::source;
    use super::*;

    fn check(path: &str, text: &str, expected: &[&str]) {
        let found: Vec<_> = check_bans(&source(path, text)).iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), expected.len(), "{path} {text:?}: {found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.contains(expected), "{found:?} lacks {expected:?}");
        }
    }

    #[test]
    fn sleep_without_a_reason_is_found() {
        check("crates/proxy/src/x.rs", "tokio::time::sleep(d).await", &["await an event"]);
        check(
            "crates/proxy/src/x.rs",
            "// tidy: sleep: the deadline itself\ntokio::time::sleep(d).await",
            &[],
        );
        check("crates/proxy/src/x.rs", "// tidy: sleep: far\n\n\n\n\nthread::sleep(d)", &["x.rs:6:"]);
        check("xtask/src/x.rs", "thread::sleep(d)", &[]);
    }

    #[test]
    fn ignored_test_is_found() {
        check("tests/src/x.rs", "    #[ignore = \"slow\"]", &["not a test"]);
    }
}

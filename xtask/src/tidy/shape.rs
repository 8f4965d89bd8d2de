//! The shape of source files: an opening comment, a bounded size, no logic in façades, meaningful
//! names.

use super::source::{Finding, Source, is_comment};

/// The maximum number of lines of a file before its tests.
const FILE_CEILING: usize = 600;
/// The first line of the library of a public crate.
const README: &str = "#![doc = include_str!(\"../README.md\")]";
/// Names that describe the place of code, not its purpose.
const EMPTY_NAMES: [&str; 9] =
    ["utils", "util", "helpers", "helper", "common", "misc", "manager", "managers", "stuff"];

/// Everything this module checks.
pub(crate) fn check_shape(source: &Source) -> Vec<Finding> {
    if !source.is_rust() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    findings.extend(opening(source));
    findings.extend(size(source));
    findings.extend(name(source));
    findings.extend(facade(source));
    findings
}

fn opening(source: &Source) -> Option<Finding> {
    let first = source.text.lines().next().unwrap_or_default();
    (!first.starts_with("//!") && first != README)
        .then(|| source.finding(1, "the file must open with a `//!` comment about its purpose"))
}

fn size(source: &Source) -> Option<Finding> {
    let lines = source.program_lines().count();
    (lines > FILE_CEILING).then(|| {
        Finding::whole(&source.path, format!("{lines} lines before the tests; the ceiling is {FILE_CEILING}"))
    })
}

fn name(source: &Source) -> Option<Finding> {
    let path = source.path.trim_end_matches(".rs");
    let empty = path.split('/').find(|part| {
        EMPTY_NAMES.iter().any(|name| {
            part == name || part.ends_with(&format!("_{name}")) || part.ends_with(&format!("-{name}"))
        })
    })?;
    Some(Finding::whole(&source.path, format!("`{empty}` does not describe the content; name the concept")))
}

/// `mod.rs` and `lib.rs` must have only docs, declarations and re-exports.
fn facade(source: &Source) -> Vec<Finding> {
    if !(source.path.ends_with("/mod.rs") || source.path.ends_with("/lib.rs")) {
        return Vec::new();
    }
    source
        .program_lines()
        .filter(|(_, line)| !is_comment(line) && (function_name(line).is_some() || line.starts_with("impl")))
        .map(|(number, _)| {
            source.finding(number, "a façade must have only docs, declarations and re-exports, no code")
        })
        .collect()
}

fn function_name(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    if rest.starts_with("//") {
        return None;
    }
    if let Some(after) = rest.strip_prefix("pub") {
        rest = after.strip_prefix('(').and_then(|r| r.split_once(')')).map_or(after, |(_, r)| r).trim_start();
    }
    for word in ["default ", "const ", "async ", "unsafe ", "extern \"C\" "] {
        rest = rest.strip_prefix(word).unwrap_or(rest);
    }
    let name = rest.strip_prefix("fn ")?;
    name.split(|c: char| !c.is_alphanumeric() && c != '_').next()
}

#[cfg(test)]
mod tests {
    use super::super::source::source;
    use super::*;

    fn messages(path: &str, text: &str) -> Vec<String> {
        check_shape(&source(path, text)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn file_that_follows_the_rules_passes() {
        assert_eq!(messages("crates/a/src/name.rs", "//! Names.\n\nfn one() {}\n"), Vec::<String>::new());
    }

    #[test]
    fn file_without_an_opening_comment_is_found() {
        assert!(
            messages("crates/a/src/name.rs", "use std::fs;\n")[0].starts_with("crates/a/src/name.rs:1: ")
        );
    }

    #[test]
    fn file_above_the_ceiling_is_found() {
        let file = |lines: usize| format!("//! X.\n{}#[cfg(test)]\nmod tests {{}}\n", "x\n".repeat(lines));
        assert_eq!(messages("a/src/x.rs", &file(599)), Vec::<String>::new());
        assert!(messages("a/src/x.rs", &file(600))[0].contains("601 lines"));
    }

    #[test]
    fn meaningless_name_is_found() {
        for path in
            ["a/src/utils.rs", "a/src/common/x.rs", "a/src/net_helpers.rs", "crates/x-common/src/x.rs"]
        {
            assert!(messages(path, "//! X.\n")[0].contains("name the concept"), "{path}");
        }
        assert_eq!(messages("a/src/commonwealth.rs", "//! X.\n"), Vec::<String>::new());
    }

    #[test]
    fn code_in_a_facade_is_found() {
        let good = "//! X.\n//! fn example() {}\nmod a;\npub use a::A;\n#[cfg(test)]\nmod tests {\n    fn t() {}\n}\n";
        assert_eq!(messages("a/src/lib.rs", good), Vec::<String>::new());
        assert!(messages("a/src/x/mod.rs", "//! X.\npub fn code() {}\n")[0].contains("mod.rs:2: a façade"));
    }
}

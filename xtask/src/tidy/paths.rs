//! Calls that open, test or change a file by a path of the host: each must be in
//! `docs/host-paths.md`, which explains why it is safe.

use std::collections::BTreeMap;

use super::source::{Finding, Source, is_comment};

/// The list of all such calls.
const LIST: &str = "docs/host-paths.md";
/// The crates that are checked, whose code runs on the host.
const CRATES: [&str; 10] = [
    "crates/files/src/",
    "crates/host-git/src/",
    "crates/network-log/src/",
    "crates/podman/src/",
    "crates/sandbox/src/",
    "crates/sandbox-cli/src/",
    "crates/session/src/",
    "crates/logins/src/",
    "crates/ssh/src/",
    "crates/workspace/src/",
];
/// The resolver for all paths that configuration and flags name.
const RESOLVER: &str = "crates/files/src/host_path/";

/// Calls that reach a file by a path.
const CALLS: [&str; 48] = [
    "fs::read(",
    "fs::write(",
    "fs::read_to_string(",
    "fs::read_dir(",
    "fs::read_link(",
    "fs::metadata(",
    "fs::symlink_metadata(",
    "fs::create_dir(",
    "fs::create_dir_all(",
    "fs::remove_file(",
    "fs::remove_dir(",
    "fs::remove_dir_all(",
    "fs::rename(",
    "fs::copy(",
    "fs::hard_link(",
    "fs::symlink(",
    "fs::set_permissions(",
    "fs::canonicalize(",
    "fs::exists(",
    "fs::open(",
    "File::open(",
    "File::create(",
    "File::create_new(",
    "OpenOptions::new(",
    "DirBuilder::new(",
    ".canonicalize()",
    ".read_link()",
    ".exists()",
    ".try_exists()",
    ".is_dir()",
    ".is_file()",
    ".is_symlink()",
    ".symlink_metadata()",
    ".read_dir()",
    "openat(",
    "openat2(",
    "renameat(",
    "renameat_with(",
    "unlinkat(",
    "linkat(",
    "symlinkat(",
    "readlinkat(",
    "mkdirat(",
    "statx(",
    "chmodat(",
    "create_folder(",
    "read_if_present(",
    "Replacement::",
];

/// Compares the code with the list, in both directions.
pub(crate) fn check_paths(sources: &[Source]) -> Vec<Finding> {
    let Some(list) = sources.iter().find(|source| source.path == LIST) else {
        return vec![Finding::whole(LIST, "is missing")];
    };
    let mut listed = rows(list);
    let mut findings = Vec::new();
    for source in sources.iter().filter(|source| is_checked(source)) {
        let (calls, first) = calls(source);
        let known = listed.remove(source.path.as_str()).unwrap_or(0);
        if calls != known {
            let message = format!(
                "{calls} calls reach files by a path, but {LIST} lists {known}: use `host_path`, or explain there why each is safe"
            );
            findings.push(source.finding(first, message));
        }
    }
    let gone = listed
        .into_keys()
        .map(|path| Finding::whole(LIST, format!("`{path}` is not checked: remove its row")));
    findings.extend(gone);
    findings
}

fn is_checked(source: &Source) -> bool {
    CRATES.iter().any(|folder| source.is_under(folder))
        && !source.is_under(RESOLVER)
        && source.is_rust()
        && !source.is_test()
        && !is_fuzz_target(source)
}

/// Whether a file is only compiled with the feature `fuzzing`, which no shipped program has.
fn is_fuzz_target(source: &Source) -> bool {
    source.path.contains("/fuzzing/") || source.path.ends_with("/fuzzed.rs")
}

/// The number of calls in a file, and the line of the first.
fn calls(source: &Source) -> (usize, usize) {
    let lines = source.program_lines().filter(|(_, line)| !is_comment(line));
    let mut found = lines.flat_map(|(number, line)| {
        let count = CALLS.iter().map(|call| occurrences(line, call)).sum();
        std::iter::repeat_n(number, count)
    });
    let first = found.next();
    (first.map_or(0, |_| 1 + found.count()), first.unwrap_or(0))
}

/// The number of occurrences of `call` as a whole name: `fs::reopen(` is not `fs::open(`, and
/// `reopenat(` is not `openat(`.
fn occurrences(line: &str, call: &str) -> usize {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let begins = |at: usize| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        call.starts_with('.') || !before.is_some_and(is_name)
    };
    line.match_indices(call).filter(|(at, _)| begins(*at)).count()
}

/// The rows `| file | calls | … |` of the list.
fn rows(list: &Source) -> BTreeMap<&str, usize> {
    let row = |line: &'_ str| -> Option<(usize, usize)> {
        let start = line.strip_prefix("| `")?;
        let (path, rest) = start.split_once("` | ")?;
        Some((path.len(), rest.split_once(' ')?.0.parse().ok()?))
    };
    list.text
        .lines()
        .filter_map(|line| {
            let (length, calls) = row(line)?;
            Some((line.get(3..3 + length)?, calls))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::source::source;
    use super::*;

    const CODE: &str = "//! fs::read(\nfn f() {\n    fs::read(x);\n    // fs::read(\n    y.exists() && y.is_dir();\n}\n#[cfg(test)]\nfs::read(";

    fn found(rows: &str) -> usize {
        let code = source("crates/sandbox/src/x.rs", CODE);
        let own = source("crates/files/src/host_path/resolver.rs", "openat(");
        check_paths(&[code, own, source(LIST, rows)]).len()
    }

    #[test]
    fn unlisted_calls_and_obsolete_rows_are_found() {
        let good = "| File | Calls | Why |\n|---|---|---|\n| `crates/sandbox/src/x.rs` | 3 | ours |\n";
        assert_eq!(found(good), 0);
        assert_eq!(found(&good.replace("| 3 |", "| 2 |")), 1);
        assert_eq!(found(""), 1);
        assert_eq!(found(&format!("{good}| `crates/sandbox/src/gone.rs` | 1 | ours |\n")), 1);
        assert_eq!(check_paths(&[]).len(), 1);
        assert_eq!(occurrences("fs::reopen(fs::open(", "fs::open("), 1);
    }
}

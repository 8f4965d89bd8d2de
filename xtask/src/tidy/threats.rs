//! Every test that `docs/threats.md` names must exist.

use super::source::{Finding, Source};

const TABLE: &str = "docs/threats.md";

/// Finds the names in the last column of the tables that are neither a test function nor a module
/// or crate with tests.
pub(crate) fn check_threats(sources: &[Source]) -> Vec<Finding> {
    let tables = sources.iter().filter(|source| source.path == TABLE);
    let rows = tables.flat_map(|table| table.lines().map(move |(number, line)| (table, number, line)));
    rows.flat_map(|(table, number, line)| {
        let missing = named(line).filter(|name| !sources.iter().any(|source| holds(source, name)));
        missing
            .map(move |name| table.finding(number, format!("there is no test `{name}`")))
            .collect::<Vec<_>>()
    })
    .collect()
}

/// The names in backticks in the last cell of a row.
fn named(line: &str) -> impl Iterator<Item = &str> {
    let cell = line.strip_suffix('|').and_then(|row| row.rsplit_once('|')).map_or("", |(_, cell)| cell);
    cell.split('`').skip(1).step_by(2)
}

/// Whether a file is the module `name` or in the crate `name`, or has the function with the name of
/// its last part.
fn holds(source: &Source, name: &str) -> bool {
    if name.contains('/') || name.contains('-') {
        let folder = name.strip_prefix("sandbox-").unwrap_or(name);
        return source.is_rust() && source.path.contains(folder);
    }
    let mut parts = name.rsplit("::");
    let last = parts.next().unwrap_or_default();
    let is_below = |module: &str| source.path.trim_end_matches(".rs").split('/').any(|part| part == module);
    source.is_rust()
        && parts.all(is_below)
        && (is_below(last)
            || source.text.contains(&format!("fn {last}("))
            || source.text.contains(&format!("mod {last} {{")))
}

#[cfg(test)]
mod tests {
    use super::super::source::source;
    use super::*;

    #[test]
    fn missing_test_is_found() {
        let table = "| a | b | `git::one`, unit `git`, `crates/x`, `sandbox-x`, `git::tests` |\n| a | `no_test` | `git::two`, `other::one` |\n";
        let code = "//! X.\nfn one() {}\n#[cfg(test)]\nmod tests {\n}\n";
        let sources = [source(TABLE, table), source("crates/x/src/git.rs", code)];
        let findings: Vec<String> = check_threats(&sources).iter().map(ToString::to_string).collect();
        assert_eq!(
            findings,
            [
                "docs/threats.md:2: there is no test `git::two`",
                "docs/threats.md:2: there is no test `other::one`"
            ]
        );
    }
}

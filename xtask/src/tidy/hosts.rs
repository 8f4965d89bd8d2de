//! The repository must not contain host names of package registries: the machine configures the
//! source of packages.

use super::source::{Finding, Source};

/// The labels of host names, separated so that this file passes its own check.
const REGISTRIES: [&[&str]; 11] = [
    &["crates", "io"],
    &["pypi", "org"],
    &["files", "pythonhosted", "org"],
    &["registry", "npmjs", "org"],
    &["deb", "debian", "org"],
    &["security", "debian", "org"],
    &["docker", "io"],
    &["ghcr", "io"],
    &["quay", "io"],
    &["proxy", "golang", "org"],
    &["rubygems", "org"],
];

/// Lock files are written by cargo.
const WRITTEN_BY_TOOLS: [&str; 2] = ["Cargo.lock", "fuzz/Cargo.lock"];

/// Everything this module checks.
pub(crate) fn check_hosts(source: &Source) -> Vec<Finding> {
    if WRITTEN_BY_TOOLS.contains(&source.path.as_str()) {
        return Vec::new();
    }
    let registries: Vec<String> = REGISTRIES.iter().map(|labels| labels.join(".")).collect();
    let found = |line: &str| registries.iter().find(|host| contains_host(line, host)).cloned();
    source
        .lines()
        .filter_map(|(number, line)| Some((number, found(line)?)))
        .map(|(number, host)| source.finding(number, format!("`{host}` is a package registry's host name")))
        .collect()
}

/// Whether a line contains `host` as a host name or as the end of one; similar names such as
/// `NAME-index` do not count.
fn contains_host(line: &str, host: &str) -> bool {
    line.match_indices(host).any(|(at, _)| {
        let is_name = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        let after = line.get(at + host.len()..).and_then(|text| text.chars().next());
        !before.is_some_and(is_name) && !after.is_some_and(is_name)
    })
}

#[cfg(test)]
mod tests {
    use super::super::source::source;
    use super::*;

    #[test]
    fn registry_hosts_are_found_and_similar_names_are_not() {
        let host = REGISTRIES[0].join(".");
        for (line, expected) in [
            (format!("see https://{host}/x"), 1),
            (format!("static.{host}"), 1),
            (format!("github/{host}-index"), 0),
            (format!("my{host}"), 0),
            ("example.org".to_owned(), 0),
        ] {
            assert_eq!(check_hosts(&source("README.md", &line)).len(), expected, "{line}");
            assert!(check_hosts(&source("Cargo.lock", &line)).is_empty());
        }
    }
}

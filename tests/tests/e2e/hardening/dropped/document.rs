//! The table in docs/podman.md and the tests name the same fields, and say the same of each.

use std::collections::BTreeMap;

use super::row::{Gives, Row};
use super::{files, identity, limits, network, special};

const DOCUMENT: &str = include_str!("../../../../../docs/podman.md");
const HEAD: &str = "| Field of the Docker-compatible API | 4.3.1 | 5.4.2 | What we do |";

/// What the table says of 4.3.1 and 5.4.2, by field.
fn documented() -> BTreeMap<&'static str, [&'static str; 2]> {
    let (_, table) = DOCUMENT.split_once(HEAD).expect("the table");
    let lines = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let row = |line: &'static str| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        match cells.as_slice() {
            [field, four, "same", _] => (*field, [*four, *four]),
            [field, four, five, _] => (*field, [*four, *five]),
            _ => panic!("not four cells: {line}"),
        }
    };
    lines.map(row).collect()
}

fn rows() -> impl Iterator<Item = &'static Row> {
    [files::ROWS, identity::ROWS, limits::ROWS, network::ROWS].into_iter().flatten()
}

#[test]
fn each_field_of_the_table_is_asked_for_and_each_that_is_asked_for_is_in_the_table() {
    let documented: Vec<&str> = documented().into_keys().collect();
    let special = [special::AUTO_REMOVE, special::LOG_SIZE, network::NETWORKS];
    let mut asked: Vec<&str> = rows().map(|row| row.field).chain(special).collect();
    asked.sort_unstable();
    asked.dedup();
    assert_eq!(asked, documented);
}

#[test]
fn the_table_says_of_each_version_what_is_seen_on_it() {
    let documented = documented();
    for row in rows() {
        for (gives, said) in [row.four, row.five].into_iter().zip(documented[row.field]) {
            let fits = match gives {
                Gives::Ignored => said.starts_with("ignored"),
                Gives::Obeyed => said.starts_with("obeyed"),
                Gives::Refused => said.contains("error"),
                Gives::Other(_) => !["ignored", "obeyed", "error"].iter().any(|word| said.starts_with(word)),
            };
            assert!(fits, "{}: {gives:?} and `{said}`", row.field);
        }
    }
}

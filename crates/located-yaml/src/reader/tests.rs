//! Values of types, and messages about mismatches.

use serde::Deserialize;

use crate::{Entries, InvalidFile, Location, Position, Spanned, read};

#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    on: Option<bool>,
    #[serde(default)]
    ports: Vec<Spanned<u16>>,
    #[serde(default)]
    share: Option<f64>,
    #[serde(default)]
    level: Option<Level>,
    #[serde(default)]
    choice: Option<Choice>,
    #[serde(default)]
    any: Entries<String, Inner>,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Level {
    Low,
    High,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Choice {
    Number(u8),
    Name(String),
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Inner {
    value: String,
}

fn at(line: usize, column: usize) -> Location {
    Location::new("t", Position { line, column })
}

#[test]
fn values_have_their_positions() {
    let text = "name: x\nports: [80, 0x10]\nshare: 2\nlevel: high\nchoice: {name: y}\nany: {b: {value: z}, a: {value: z}}\n";
    let document: Document = read("t", text).unwrap();
    assert_eq!(document.name.as_deref(), Some("x"));
    assert_eq!(document.ports, [Spanned::new(80, at(2, 9)), Spanned::new(16, at(2, 13))]);
    assert_eq!(document.share, Some(2.0));
    assert_eq!(document.level, Some(Level::High));
    assert_eq!(document.choice, Some(Choice::Name("y".to_owned())));
    let keys: Vec<Spanned<String>> = document.any.into_iter().map(|(key, _)| key).collect();
    let key = |name: &str, location| Spanned::new(name.to_owned(), location);
    assert_eq!(keys, [key("b", at(6, 7)), key("a", at(6, 22))]);
    assert!(read::<Document>("t", "").unwrap().ports.is_empty());
}

/// Documents, and the beginnings of their errors.
const INVALID: &[(&str, &str)] = &[
    ("- a", "t:1:1: the document must be a mapping, not a list"),
    ("name: 3", "t:1:7: `name` must be a text, not a number: put it in quotes"),
    ("name: !env A", "t:1:7: `name` must be a text, not a tagged value: no tag belongs here"),
    ("on: no", "t:1:5: `on` must be true or false, not a text"),
    ("ports: x", "t:1:8: `ports` must be a list, not a text: write it as in [one, another]"),
    ("ports: [80, x]", "t:1:13: an item of `ports` must be a whole number, not a text"),
    (
        "ports: [99999999999999999999]",
        "t:1:9: an item of `ports` must be a whole number; this one is out of range",
    ),
    ("ports:\n  -\n", "t:2:4: an item of `ports` must be a whole number, not nothing"),
    ("level: middle", "t:1:8: `level` must be `low` or `high`, not `middle`"),
    ("level: {low: 1}", "t:1:14: `low` must be nothing, not a number"),
    ("choice: {}", "t:1:9: `choice` is empty: give it one entry"),
    ("choice: {name: x, number: 1}", "t:1:19: `choice` has more than one entry: keep one of them"),
    ("choice: name", "t:1:9: `name` has no value: give it one"),
    ("any: {a: {}}", "t:1:10: there is no `value` here: add it"),
    ("any: {a: {value: x}, a: {value: x}}", "t:1:22: `a` is here a second time: merge the two"),
    ("level: !high x", "t:1:8: `level` must be a mapping with one entry, not a tagged value"),
    ("nam: x", "t:1:1: unknown key `nam`: did you mean `name`?"),
    ("other: x", "t:1:1: unknown key `other`: use `name`, `on`, `ports`"),
    ("name:", "t:1:1: `name` has no value: give it one or remove the key"),
    ("1: x", "t:1:1: a key must be a text, not a number"),
    ("!env name: x", "t:1:1: a key must be a text, not a tagged value"),
    ("\"a\\e[2Jb\": x", "t:1:1: unknown key `a\\u{1b}[2Jb`: use "),
    ("name: [", "t:2:1: not valid YAML: "),
];

#[test]
fn mismatch_has_position_and_fix() {
    for (text, expected) in INVALID {
        let error = read::<Document>("t", text).err().map(|error: InvalidFile| error.to_string());
        let error = error.unwrap_or_else(|| panic!("{text:?} is accepted"));
        assert!(error.starts_with(expected), "{text:?}:\n  got      {error}\n  expected {expected}");
    }
}

#[test]
fn mismatch_does_not_quote_the_value() {
    for text in [
        "name: 12345678",
        "ports: hunter2",
        "on: hunter2",
        "any: {a: hunter2}",
        "share: hunter2",
        "any: {a: {value: [hunter2]}}",
    ] {
        let error = read::<Document>("t", text).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(!error.is_empty() && !error.contains("hunter2") && !error.contains("12345678"), "{error}");
    }
}

#[test]
fn other_formats_have_no_positions() {
    let mut unplaced = serde_yaml::Deserializer::from_str("80");
    let port = Spanned::<u16>::deserialize(unplaced.next().unwrap());
    assert!(port.unwrap_err().to_string().contains("no places"));
}

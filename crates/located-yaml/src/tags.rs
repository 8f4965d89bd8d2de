//! Tags that the parser drops silently.
//!
//! `serde_yaml` passes on the document's own tags (`!env`). It drops a tag of another namespace,
//! such as `!!python/object`, which changes the meaning of the value. Only the parser can
//! distinguish such a tag from ordinary text, so the text is parsed a second time with these tags
//! rewritten as own tags of the same length.

use serde::de::DeserializeSeed as _;

use crate::fault::Fault;
use crate::locate::locate;
use crate::node::{Budget, Node, NodeSeed, Step};
use crate::position::Position;

/// The tags of YAML's core schema, which only repeat the type of the value.
const CORE: [&str; 7] = ["str", "int", "float", "bool", "null", "seq", "map"];
/// The prefix of a rewritten tag's name.
const MARK: char = '-';

/// The first tag that is neither the document's own nor part of the core schema.
pub(crate) fn unknown_tag(text: &str) -> Option<Fault> {
    if let Some(position) = tag_directive(text) {
        return Some(Fault {
            position,
            message: "a `%TAG` directive gives tags another meaning: remove it".to_owned(),
        });
    }
    let rewritten = rewritten(text)?;
    let budget = Budget::new(usize::MAX);
    let document = serde_yaml::Deserializer::from_str(&rewritten).next()?;
    let node = match NodeSeed(&budget).deserialize(document) {
        Ok(node) => node,
        Err(error) => {
            return Some(Fault {
                position: Position::of(&error),
                message: "this tag cannot be read: remove it, or put the text in quotes".to_owned(),
            });
        }
    };
    let mut steps = Vec::new();
    let tag = find(&node, &mut steps)?;
    Some(Fault {
        position: locate(&rewritten, &steps),
        message: format!("unknown tag {:?}: remove it", format!("!!{tag}")),
    })
}

/// The line of a `%TAG` directive.
fn tag_directive(text: &str) -> Option<Position> {
    let index = text.lines().position(|line| line.starts_with("%TAG"))?;
    Some(Position { line: index + 1, column: 1 })
}

/// `text` with `!!name` and `!<name>` as `!-name`; `None` if there are none.
fn rewritten(text: &str) -> Option<String> {
    if !text.contains("!!") && !text.contains("!<") {
        return None;
    }
    let mut rewritten = String::with_capacity(text.len());
    let mut verbatim = false;
    let mut before = ' ';
    for character in text.chars() {
        let next = match character {
            '!' if before == '!' => MARK,
            '<' if before == '!' => {
                verbatim = true;
                MARK
            }
            // A comma would end the name of an own tag.
            '>' | ',' if verbatim => MARK,
            other => other,
        };
        verbatim &= !character.is_whitespace() && character != '>';
        before = next;
        rewritten.push(next);
    }
    Some(rewritten)
}

/// The name of the first unknown tag, with the path to it in `steps`.
fn find<'a>(node: &'a Node, steps: &mut Vec<Step>) -> Option<&'a str> {
    let children: Vec<(Step, &Node)> = match node {
        Node::Tagged(tag, value) => {
            let name = tag.strip_prefix(MARK).map(|name| name.trim_end_matches(MARK));
            let core = |name: &str| CORE.contains(&name.strip_prefix("tag:yaml.org-2002:").unwrap_or(name));
            return match name {
                Some(name) if !core(name) => Some(name),
                _ => find(value, &mut Vec::new()),
            };
        }
        Node::List(items) => {
            let items = items.iter().enumerate();
            items.map(|(index, item)| (Step::Item(index), item)).collect()
        }
        Node::Map(entries) => {
            let entries = entries.iter().enumerate();
            let both = |(index, (key, value)): (usize, &'a (Node, Node))| {
                [(Step::Key(index), key), (Step::Value(index), value)]
            };
            entries.flat_map(both).collect()
        }
        Node::Null | Node::Boolean(_) | Node::Integer(_) | Node::Number(_) | Node::Text(_) => Vec::new(),
    };
    for (step, child) in children {
        steps.push(step);
        if let Some(tag) = find(child, steps) {
            return Some(tag);
        }
        steps.pop();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_tag_is_found_except_in_text() {
        for (text, expected) in [
            ("a: [b, !own c]", None),
            ("a: !!str 1", None),
            ("a: !<tag:yaml.org,2002:int> 1", None),
            ("a: !!seq [b]\nc: !!map {d: e}", None),
            ("a: wow!! really", None),
            ("a: wow !!really", None),
            ("a: 'x !!y'", None),
            ("a: |\n  !!text\n  !<text>\n# !!comment", None),
            ("a: !!python/object/apply:os.system [b]", Some((1, 4))),
            ("a:\n  - b\n  - !!binary aGk=", Some((3, 5))),
            ("!!set {a}", Some((1, 1))),
            ("!!x a: b", Some((1, 1))),
            ("a: !own [!!x b]", Some((1, 4))),
            ("a: !<tag:example.org,2000:x> b", Some((1, 4))),
            ("%TAG ! tag:example.org,2000:\n---\na: !x b", Some((1, 1))),
        ] {
            let found = unknown_tag(text).map(|error| (error.position.line, error.position.column));
            assert_eq!(found, expected, "{text:?}");
        }
    }

    #[test]
    fn unknown_tag_is_named() {
        let error = unknown_tag("a: !!python/object/apply:os.system [b]").unwrap();
        assert_eq!(error.message, "unknown tag \"!!python/object/apply:os.system\": remove it");
    }
}

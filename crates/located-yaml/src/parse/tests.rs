//! Parsing of arbitrary texts, and positions of their parts.

use proptest::prelude::*;

use super::*;
use crate::Step;
use crate::locate::locate;

#[track_caller]
fn check(text: &str, line: usize, column: usize, words: &str) {
    let error = parse(text).err().expect("an error");
    assert_eq!(error.position, Position { line, column }, "{text:?}: {error:?}");
    assert!(error.message.contains(words), "{text:?}: {error:?}");
}

fn node(text: &str) -> Node {
    parse(text).unwrap_or_else(|error| panic!("{text:?}: {error:?}"))
}

fn text(text: &str) -> Node {
    Node::Text(text.to_owned())
}

#[test]
fn kinds_of_values_are_distinguished() {
    for (written, expected, kind) in [
        ("", Node::Null, "nothing"),
        ("\u{feff}# nothing\n", Node::Null, "nothing"),
        ("---\n", Node::Null, "nothing"),
        ("~", Node::Null, "nothing"),
        ("true", Node::Boolean(true), "true or false"),
        ("yes", text("yes"), "a text"),
        ("12", Node::Integer(12), "a number"),
        ("-12", Node::Integer(-12), "a number"),
        ("0x10", Node::Integer(16), "a number"),
        ("1.5", Node::Number(1.5), "a number"),
        ("9223372036854775808", Node::Number(f64::INFINITY), "a number"),
        ("99999999999999999999", Node::Number(f64::INFINITY), "a number"),
        ("'12'", text("12"), "a text"),
        ("[a, 1]", Node::List(vec![text("a"), Node::Integer(1)]), "a list"),
        ("{a: }", Node::Map(vec![(text("a"), Node::Null)]), "a mapping"),
        ("!env HOME", Node::Tagged("env".to_owned(), Box::new(text("HOME"))), "a tagged value"),
    ] {
        let found = node(written);
        assert!(found == expected, "{written:?} is {}", found.kind());
        assert_eq!(found.kind(), kind, "{written:?}");
    }
}

#[test]
fn duplicate_keys_are_kept_and_aliases_are_expanded() {
    let entry = |value| (text("a"), Node::Integer(value));
    assert!(node("a: 1\na: 2\n") == Node::Map(vec![entry(1), entry(2)]));
    assert!(node("[&x b, *x]") == Node::List(vec![text("b"), text("b")]));
}

#[test]
fn second_document_is_found() {
    for (text, line) in [
        ("a\n---\nb\n", 2),
        ("---\na\n---\nb\n", 3),
        ("# one\n%YAML 1.1\n---\na: b\n...\n# two\n--- {}\n", 7),
        ("---\n---\n", 2),
        ("a\r\n---\r\nb\r\n", 2),
        ("a: b\n---", 2),
    ] {
        check(text, line, 1, "second document");
    }
}

#[test]
fn syntax_error_has_position_and_fix() {
    check("- *.example.com\n", 1, 4, "in quotes");
    check("a:\n  - *all\n", 2, 5, "begins with `*` or `&`");
    check("a:\n  - @all\n", 2, 5, "begins with this character");
    check("a: [b\nc: []\n", 2, 2, "not valid YAML");
    check("a:\n\t- b\n", 2, 1, "indent with spaces");
    check("a: b\nx: \u{7}\n", 2, 4, "does not allow the character");
    check("a: b\r\nx: \u{7}\r\n", 2, 4, "does not allow the character");
    check("\u{feff}x: \u{7}\n", 1, 4, "does not allow the character");
    check("a: &a [*a]\n", 1, 4, "recursion");
}

#[test]
fn syntax_error_does_not_quote_a_value() {
    for text in ["a: 'hunter2\n", "a: [hunter2\nb: 1\n", "hunter2: *hunter3\n", "a: !hunter2"] {
        if let Err(error) = parse(text) {
            assert!(!error.message.contains("hunter"), "{text:?}: {error:?}");
        }
    }
}

#[test]
fn alias_bomb_is_refused() {
    let all = vec!["some-text"; 20_000].join(",");
    let text = format!("a: &all [{all}]\nb: [{}]\n", vec!["*all"; 500].join(","));
    let error = parse(&text).err().expect("an error");
    assert!(error.message.contains("aliases"), "{error:?}");
}

#[test]
fn positions_of_parts_are_found() {
    let text = "\u{feff}a: [é, 日本, {b: c}]\nd:\n? e\n: - f\n  - *x\n";
    let text = text.replace("*x", "g");
    for (steps, line, column) in [
        (&[][..], 1, 1),
        (&[Step::Key(0)], 1, 1),
        (&[Step::Value(0)], 1, 4),
        (&[Step::Value(0), Step::Item(1)], 1, 8),
        (&[Step::Value(0), Step::Item(2), Step::Value(0)], 1, 16),
        (&[Step::Key(1)], 2, 1),
        (&[Step::Value(2), Step::Item(1)], 5, 5),
        (&[Step::Item(9)], 1, 1),
    ] {
        assert_eq!(locate(&text, steps), Position { line, column }, "{steps:?}");
    }
}

proptest! {
    #[test]
    fn arbitrary_text_gets_an_answer(text in prop_oneof![
        "\\PC{0,60}",
        "[-&*!|>{}\\[\\]:,?'\"#%@ \\n\\r\\ta-c~.]{0,60}",
        "(a|bc|[:\\-\\n \\[\\]{}*&,/.]){0,30}",
    ], index in 0..4_usize) {
        if let Err(error) = parse(&text) {
            prop_assert!(error.position.line >= 1 && error.position.column >= 1);
        }
        for step in [Step::Key(index), Step::Value(index), Step::Item(index)] {
            let position = locate(&text, &[step, step]);
            prop_assert!(position.line >= 1 && position.column >= 1);
        }
    }
}

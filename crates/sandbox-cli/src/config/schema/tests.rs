//! The schema against the reader, and against the README's example.

use std::collections::BTreeSet;

use located_yaml::Node;

use super::*;
use crate::config::ConfigFile;
use crate::config::build::BUILD_KEYS;
use crate::config::credentials::{MASKED_KEYS, SIGNING_KEYS};
use crate::config::file::{KEYS, LIMIT_KEYS, UPSTREAM_KEYS};

fn at<'a>(schema: &'a Value, pointer: &str) -> &'a Value {
    schema
        .pointer(pointer)
        .unwrap_or_else(|| panic!("the schema has no {pointer}"))
}

#[test]
fn the_schema_has_the_keys_of_the_reader_and_no_other() {
    let schema = schema();
    for (pointer, keys) in [
        ("", &KEYS[..]),
        ("/properties/upstream", &UPSTREAM_KEYS),
        ("/properties/resource_limits", &LIMIT_KEYS),
        ("/properties/build", &BUILD_KEYS),
        ("/$defs/masked_secret", &MASKED_KEYS),
        ("/$defs/signing_credential", &SIGNING_KEYS),
    ] {
        let part = at(&schema, pointer);
        let known: BTreeSet<&str> = keys.iter().copied().collect();
        let described: BTreeSet<&str> = part["properties"]
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        assert_eq!(described, known, "{pointer}");
        assert_eq!(part["additionalProperties"], false, "{pointer}");
    }
}

#[test]
fn every_reference_leads_somewhere() {
    fn follow(schema: &Value, part: &Value) {
        if let Some(reference) = part.get("$ref").and_then(Value::as_str) {
            at(schema, reference.strip_prefix('#').unwrap());
        }
        match part {
            Value::Object(map) => map.values().for_each(|part| follow(schema, part)),
            Value::Array(items) => items.iter().for_each(|part| follow(schema, part)),
            _ => {}
        }
    }
    let schema = schema();
    follow(&schema, &schema);
}

/// As much of the standard as the schema uses, for the shape of a document.
fn faults(schema: &Value, part: &Value, node: &Value, place: &str) -> Vec<String> {
    if let Some(reference) = part.get("$ref").and_then(Value::as_str) {
        return faults(
            schema,
            at(schema, reference.strip_prefix('#').unwrap()),
            node,
            place,
        );
    }
    let kinds = match &part["type"] {
        Value::String(kind) => vec![kind.as_str()],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let is = |kind: &str| match kind {
        "string" => node.is_string(),
        "integer" => node.is_i64(),
        "number" => node.is_number(),
        "boolean" => node.is_boolean(),
        "array" => node.is_array(),
        _ => node.is_object(),
    };
    if !kinds.is_empty() && !kinds.iter().any(|kind| is(kind)) {
        return vec![format!("{place}: no {}", kinds.join(" or "))];
    }
    let mut found = Vec::new();
    if let Some(choices) = part["enum"].as_array()
        && !choices.contains(node)
    {
        found.push(format!("{place}: none of the choices"));
    }
    for (index, item) in node.as_array().into_iter().flatten().enumerate() {
        found.extend(faults(schema, &part["items"], item, &format!("{place}/{index}")));
    }
    for (key, value) in node.as_object().into_iter().flatten() {
        let below = format!("{place}/{key}");
        match (part["properties"].get(key), &part["additionalProperties"]) {
            (Some(known), _) => found.extend(faults(schema, known, value, &below)),
            (None, Value::Bool(false)) => found.push(format!("{below}: unknown")),
            (None, any) => found.extend(faults(schema, any, value, &below)),
        }
    }
    found
}

/// A document as the schema sees it: tags are nothing to it.
fn untagged(text: &str) -> Value {
    fn value(node: &Node) -> Value {
        match node {
            Node::Null => Value::Null,
            Node::Boolean(value) => json!(value),
            Node::Integer(value) => json!(value),
            Node::Number(value) => json!(value),
            Node::Text(text) => json!(text),
            Node::List(items) => items.iter().map(value).collect(),
            Node::Map(entries) => {
                let entry =
                    |(key, node): &(Node, Node)| (value(key).as_str().unwrap().to_owned(), value(node));
                Value::Object(entries.iter().map(entry).collect())
            }
            Node::Tagged(_, content) => value(content),
        }
    }
    value(&located_yaml::parse(text).unwrap())
}

/// The blocks of YAML in the README that are a configuration.
fn examples() -> Vec<&'static str> {
    let readme = include_str!("../../../../../README.md");
    let blocks = readme.split("```yaml\n").skip(1);
    blocks.filter_map(|block| block.split("```").next()).collect()
}

#[test]
fn the_example_in_the_readme_has_the_shape() {
    let schema = schema();
    let examples = examples();
    assert!(examples.iter().any(|example| example.contains("masked_secrets:")));
    for example in examples {
        assert_eq!(
            faults(&schema, &schema, &untagged(example), ""),
            Vec::<String>::new(),
            "{example}"
        );
        ConfigFile::parse(example, "README.md", "/project".as_ref()).unwrap();
    }
}

#[test]
fn a_document_of_another_shape_is_told_apart() {
    let schema = schema();
    for (text, fault) in [
        ("imge: x", "/imge: unknown"),
        ("env: {A: 1}", "/env/A: no string"),
        (
            "masked_secrets: {A: {scope: []}}",
            "/masked_secrets/A/scope: unknown",
        ),
        (
            "masked_secrets: {A: {preset: none}}",
            "/masked_secrets/A/preset: none of the choices",
        ),
        (
            "signing_credentials: {A: {scopes: x}}",
            "/signing_credentials/A/scopes: no array",
        ),
        ("network_sandbox: 'no'", "/network_sandbox: no boolean"),
        ("mounts: [1]", "/mounts/0: no string"),
    ] {
        assert_eq!(faults(&schema, &schema, &untagged(text), ""), [fault], "{text}");
    }
}

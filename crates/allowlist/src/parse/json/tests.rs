//! Every error of a document in JSON, which is also YAML: both parsers report it at the same
//! position.

use crate::Allowlist;
use proptest::prelude::*;

fn check(text: &str, line: usize, column: usize, words: &str) {
    check_json(text, line, column, words);
    let error = Allowlist::from_yaml(text, "policy.yaml").expect_err(text);
    assert_eq!((error.line(), error.column()), (line, column), "{text:?}: {error}");
    assert!(error.message().contains(words), "{text:?}: {error}");
}

/// For errors that only JSON has, or reports at this position.
fn check_json(text: &str, line: usize, column: usize, words: &str) {
    let error = Allowlist::from_json(text, "policy.json").expect_err(text);
    assert_eq!((error.line(), error.column()), (line, column), "{text:?}: {error}");
    assert!(error.message().contains(words), "{text:?}: {error}");
    assert_eq!(error.to_string(), format!("policy.json:{line}:{column}: {}", error.message()));
}

#[test]
fn wrong_types() {
    check(
        r#"{"domains": "api.github.com"}"#,
        1,
        13,
        "`domains` must be a list, not a text: write it as in [one, another]",
    );
    check(r#"{"domains": {"a": 1}}"#, 1, 13, "not a mapping");
    check(
        " [1]",
        1,
        2,
        "the document must be a mapping with the keys `presets`, `deny`, `domains`, `url_prefixes`, `vendor_tools` and `budget`",
    );
    // In YAML that is an empty document.
    check_json(
        "null",
        1,
        1,
        "the document must be a mapping with the keys `presets`, `deny`, `domains`, `url_prefixes`, `vendor_tools` and `budget`",
    );
    check(
        "{\n  \"domains\": [\"a\", 12]\n}",
        2,
        20,
        "an item of `domains` must be a text, not a number: put it in quotes",
    );
    check("{\"domains\": [\n  true]}", 2, 3, "not true or false");
    check("{\"domains\": [null]}", 1, 14, "not nothing");
    check_json("{\"domains\": [1e400]}", 1, 18, "number out of range");
    check(r#"{"url_prefixes": {"host": "a"}}"#, 1, 18, "`url_prefixes` must be a list");
    check(r#"{"url_prefixes": ["a"]}"#, 1, 19, "must be a mapping");
    check(r#"{"url_prefixes": [{"host": []}]}"#, 1, 28, "`host` must be a text");
    check(r#"{"url_prefixes": [{"host": "a", "path": 7}]}"#, 1, 41, "`path` must be a text");
    check(r#"{"url_prefixes": [{"host": "a", "methods": "GET"}]}"#, 1, 44, "`methods` must be a list");
    check(
        r#"{"url_prefixes": [{"host": "a", "methods": ["GET", 1]}]}"#,
        1,
        52,
        "an item of `methods` must be a text",
    );
}

#[test]
fn missing_values_and_keys() {
    check("{\n  \"domains\": null}", 2, 3, "`domains` has no value");
    check(r#"{"url_prefixes": [{"path": "/"}]}"#, 1, 19, "no `host`");
    check(r#"{"url_prefixes": [{"host": "a"}, {}]}"#, 1, 34, "no `host`");
    check(r#"{"domain": []}"#, 1, 2, "unknown key `domain`");
    check(r#"{"url_prefixes": [{"host": "a", "graphql": {}}]}"#, 1, 33, "`graphql` is not supported");
    check("{\"domains\": [],\n \"domains\": []}", 2, 2, "a second time");
    check("{\"domains\": [],\n \"domain\\u0073\": []}", 2, 2, "a second time");
}

#[test]
fn documents_and_syntax() {
    check_json("{}\n{}", 2, 1, "second document");
    check_json("{} x", 1, 4, "second document");
    check_json("", 1, 1, "not valid JSON");
    check_json("{\"domains\": [\n", 2, 1, "not valid JSON");
    check_json("{\"domains\": [\"a\",]}", 1, 18, "trailing comma");
    check_json("{\"é\": é}", 1, 7, "expected value");
    check_json("// no\n{}", 1, 1, "not valid JSON");
    check_json("\u{feff}{\"x\": 1}", 1, 2, "unknown key");
}

#[test]
fn rules_that_never_match() {
    check(r#"{"domains": ["ok", ""]}"#, 1, 20, "the host is empty");
    check(r#"{"url_prefixes": [{"host": ""}]}"#, 1, 28, "the host is empty");
    check(r#"{"domains": ["\u0061 b"]}"#, 1, 14, "must not contain ' '");
    check(r#"{"domains": ["é", "a:80"]}"#, 1, 19, "no port");
    check(r#"{"url_prefixes": [{"host": "a", "path": "x"}]}"#, 1, 41, "begins with `/` or `*`");
    check(r#"{"url_prefixes": [{"host": "a", "path": "/\\"}]}"#, 1, 41, "backslash");
    check(r#"{"url_prefixes": [{"host": "a", "methods": ["GET", "*"]}]}"#, 1, 52, "is not a method");
}

#[test]
fn embedded_policy_is_validated_as_strictly() {
    for (text, message) in [
        (r#"{"domains": "a"}"#, "`domains` must be a list"),
        (r#"{"domains": ["a", "b c"]}"#, "a host must not contain ' '"),
        (r#"{"url_prefixes": [{"host": "a"}, {"host": "a", "path": "/.."}]}"#, "the path"),
        (r#"{"x": 1}"#, "unknown key"),
        (
            "1",
            "the document must be a mapping with the keys `presets`, `deny`, `domains`, `url_prefixes`, `vendor_tools` and `budget`",
        ),
    ] {
        let error = serde_json::from_str::<Allowlist>(text).unwrap_err().to_string();
        assert!(error.starts_with(message), "{text}: {error}");
    }
    let value = serde_json::json!({"domains": ["a.example"], "url_prefixes": []});
    let policy: Allowlist = serde_json::from_value(value.clone()).unwrap();
    assert_eq!(serde_json::to_value(&policy).unwrap(), value);
}

#[test]
fn serialized_keys_are_stable() {
    let text = r#"{"domains":["*.A.example"],"url_prefixes":[{"host":"b","path":"/x*","methods":["get"]},{"host":"c"}]}"#;
    let policy = Allowlist::from_json(text, "policy.json").unwrap();
    assert_eq!(
        serde_json::to_string(&policy).unwrap(),
        r#"{"domains":["*.a.example"],"url_prefixes":[{"host":"b","path":"/x*","methods":["GET"]},{"host":"c","path":""}]}"#
    );
}

proptest! {
    #[test]
    fn arbitrary_text_gets_an_answer(text in prop_oneof!["\\PC{0,60}", "[{}\\[\\]\":,\\\\nul0-9e. \\n]{0,60}"]) {
        if let Err(error) = Allowlist::from_json(&text, "p") {
            prop_assert!(error.line() >= 1 && error.column() >= 1);
        }
    }
}

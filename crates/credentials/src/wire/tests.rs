//! The JSON form in both directions, and that no error shows its content.

use std::collections::BTreeMap;

use allowlist::{Glob, HostPattern};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{MaskedReplacement, Replacement, ReplacementMap, SigningReplacement};
use crate::{HeaderPattern, Injection, SecretReplacements, SecretValue};

fn masked(change: impl Fn(&mut Value)) -> Value {
    let mut entry = json!({"value": "real", "scopes": ["example.com"], "headers": ["x-key"]});
    change(&mut entry);
    json!({"surrogate": entry})
}

fn signing(change: impl Fn(&mut Value)) -> Value {
    let mut entry = json!({
        "type": "aws-sigv4", "access_key_id": "real-id", "secret_access_key": "real-key", "session_token": "real-token",
        "surrogate_session_token": "token-surrogate", "surrogate_secret_access_key": "key-surrogate", "scopes": ["*.amazonaws.com"],
    });
    change(&mut entry);
    json!({"id-surrogate": entry})
}

fn read(document: &Value) -> Result<ReplacementMap, String> {
    serde_json::from_str(&document.to_string()).map_err(|error| error.to_string())
}

fn only(replacements: &ReplacementMap) -> (&str, &Replacement) {
    assert_eq!(replacements.iter().count(), 1);
    replacements.iter().next().unwrap()
}

#[test]
fn masked_entry_round_trips_without_defaults() {
    let document = masked(|_| ());
    let replacements = read(&document).unwrap();
    let expected = Replacement::Masked(MaskedReplacement {
        name: String::new(),
        value: SecretValue::new("real"),
        injection: Injection {
            scopes: vec![HostPattern::new("example.com").unwrap()],
            headers: vec![HeaderPattern::new("X-Key").unwrap()],
            ..Injection::default()
        },
    });
    assert_eq!(only(&replacements), ("surrogate", &expected));
    assert_eq!(serde_json::to_value(&replacements).unwrap(), document);
}

#[test]
fn options_round_trip() {
    let document = masked(|entry| {
        for key in ["allow_foreign_credentials", "allow_plaintext", "allow_echo"] {
            entry[key] = json!(true);
        }
        entry["basic_user"] = json!("x-*");
    });
    let replacements = read(&document).unwrap();
    let (_, Replacement::Masked(entry)) = only(&replacements) else {
        panic!("a masked secret became a key");
    };
    let injection = &entry.injection;
    assert!(injection.allow_foreign_credentials && injection.allow_plaintext && injection.allow_echo);
    assert_eq!(injection.basic_user, Some(Glob::new("x-*")));
    assert_eq!(serde_json::to_value(&replacements).unwrap(), document);
}

#[test]
fn signing_entry_round_trips() {
    let document = signing(set("name", json!("AWS")));
    let replacements = read(&document).unwrap();
    let expected = Replacement::Signing(SigningReplacement {
        name: "AWS".to_owned(),
        access_key_id: SecretValue::new("real-id"),
        secret_access_key: SecretValue::new("real-key"),
        surrogate_secret_access_key: "key-surrogate".to_owned(),
        session_token: Some((SecretValue::new("real-token"), "token-surrogate".to_owned())),
        scopes: vec![HostPattern::new("*.amazonaws.com").unwrap()],
        allow_foreign_credentials: false,
    });
    assert_eq!(only(&replacements), ("id-surrogate", &expected));
    assert_eq!(serde_json::to_value(&replacements).unwrap(), document);
}

#[test]
fn signing_entry_may_allow_foreign_credentials() {
    for (document, allowed) in [
        (signing(set("allow_foreign_credentials", json!(true))), true),
        (signing(set("allow_foreign_credentials", json!(false))), false),
        (signing(|_| ()), false),
    ] {
        let replacements = read(&document).unwrap();
        let (_, Replacement::Signing(entry)) = only(&replacements) else {
            panic!("a key became a masked secret");
        };
        assert_eq!(entry.allow_foreign_credentials, allowed, "{document}");
        let written = serde_json::to_value(&replacements).unwrap();
        let flag = written["id-surrogate"].get("allow_foreign_credentials");
        assert_eq!(flag, allowed.then_some(&json!(true)), "{document}");
    }
}

#[test]
fn optional_fields_may_be_missing_or_null() {
    let keys = ["session_token", "surrogate_session_token", "surrogate_secret_access_key"];
    for remove in [true, false] {
        let document = signing(|entry| {
            for key in keys {
                if remove {
                    entry.as_object_mut().unwrap().remove(key);
                } else {
                    entry[key] = Value::Null;
                }
            }
        });
        let replacements = read(&document).unwrap();
        let (_, Replacement::Signing(entry)) = only(&replacements) else {
            panic!("a key became a masked secret");
        };
        assert_eq!((entry.session_token.as_ref(), entry.surrogate_secret_access_key.as_str()), (None, ""));
        let written = serde_json::to_value(&replacements).unwrap();
        assert!(keys.iter().all(|key| written["id-surrogate"].get(*key).is_none()));
    }
    assert_eq!(read(&json!({})), Ok(ReplacementMap::default()));
    let null = masked(|entry| entry["basic_user"] = Value::Null);
    assert_eq!(read(&null), read(&masked(|_| ())));
}

fn remove(key: &'static str) -> impl Fn(&mut Value) {
    move |entry| drop(entry.as_object_mut().unwrap().remove(key))
}

fn set(key: &'static str, value: Value) -> impl Fn(&mut Value) {
    move |entry| entry[key] = value.clone()
}

#[test]
fn malformed_entry_is_refused() {
    for document in [
        json!([]),
        json!("hunter2"),
        json!({"a": "hunter2"}),
        json!({"": masked(|_| ())["surrogate"]}),
        masked(remove("value")),
        masked(remove("scopes")),
        masked(remove("headers")),
        masked(set("value", json!(""))),
        masked(set("value", json!(7))),
        masked(set("value", Value::Null)),
        masked(set("value", json!("x".repeat(32 * 1024 + 1)))),
        masked(set("value", json!("surrogate"))),
        masked(set("scopes", json!("hunter2"))),
        masked(set("scopes", json!(["example.com", "hunter2/"]))),
        masked(set("headers", json!(["hunter2:"]))),
        masked(set("headers", json!([true]))),
        masked(set("allow_echo", json!("hunter2"))),
        masked(set("basic_user", json!(["hunter2"]))),
        masked(set("hunter2", json!(1))),
        masked(set("access_key_id", json!("x"))),
        masked(set("type", json!("hunter2"))),
        masked(set("type", json!("aws-sigv4"))),
        masked(set("type", json!(1))),
        signing(set("headers", json!([]))),
        signing(set("value", json!("x"))),
        signing(remove("type")),
        signing(remove("access_key_id")),
        signing(remove("secret_access_key")),
        signing(remove("session_token")),
        signing(remove("surrogate_session_token")),
        signing(set("session_token", json!(""))),
        signing(set("surrogate_session_token", json!(""))),
        signing(set("access_key_id", json!("id-surrogate"))),
        signing(set("scopes", json!({}))),
        signing(set("allow_foreign_credentials", json!("hunter2"))),
    ] {
        let message = read(&document).expect_err(&document.to_string());
        assert!(message.starts_with("the replacement map is malformed"), "{message}");
    }
    let twice = r#"{"a": {"value": "x", "value": "y", "scopes": [], "headers": []}}"#;
    assert!(serde_json::from_str::<ReplacementMap>(twice).is_err());
}

/// Every variant of `whole` in which one part, at any depth, is replaced with some form of
/// `marker`.
fn variants_with(whole: &Value, marker: &str) -> Vec<Value> {
    let guises = [
        json!(marker),
        json!([marker]),
        json!({marker: marker}),
        json!([[{marker: 1}]]),
        json!(-1),
        json!(1.5),
        json!(u64::MAX),
        json!(false),
    ];
    let mut all = guises.to_vec();
    match whole {
        Value::Object(fields) => {
            for (key, value) in fields {
                let with = |key: &str, value: Value| {
                    let mut fields = fields.clone();
                    fields.insert(key.to_owned(), value);
                    Value::Object(fields)
                };
                all.extend(variants_with(value, marker).into_iter().map(|value| with(key, value)));
                all.push(with(marker, value.clone()));
            }
        }
        Value::Array(list) => {
            for index in 0..list.len() {
                for value in variants_with(&list[index], marker) {
                    let mut list = list.clone();
                    list[index] = value;
                    all.push(Value::Array(list));
                }
            }
        }
        _ => (),
    }
    all
}

#[test]
fn error_quotes_no_part_of_a_document() {
    let mut refused = 0;
    for marker in ["hunter2", "hunter2 with \"quotes\"", "hunter2/\n\u{1b}"] {
        for whole in [masked(|_| ()), signing(|_| ())] {
            for document in variants_with(&whole, marker) {
                let text = document.to_string();
                let errors = [
                    serde_json::from_str::<ReplacementMap>(&text).err(),
                    serde_json::from_slice::<ReplacementMap>(text.as_bytes()).err(),
                    serde_json::from_value::<ReplacementMap>(document).err(),
                ];
                for error in errors.into_iter().flatten() {
                    refused += 1;
                    let shown = format!("{error} {error:?}");
                    assert!(!shown.contains("hunter2") && !shown.contains("real-"), "{shown}");
                }
            }
        }
    }
    assert!(refused > 500, "{refused}");
}

#[test]
fn truncated_document_is_an_error_without_quotes() {
    for whole in [masked(|_| ()), signing(|_| ())] {
        let text = whole.to_string();
        for length in 0..text.len() {
            let error = serde_json::from_str::<ReplacementMap>(&text[..length]).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("real"), "{error}");
        }
    }
}

fn scopes() -> impl Strategy<Value = Vec<HostPattern>> {
    let scope = prop::sample::select(vec![
        "example.com",
        "*.example.com",
        "[a-c].Example.com",
        "10.0.0.1",
        "bücher.example",
    ]);
    prop::collection::vec(scope.prop_map(|text| HostPattern::new(text).unwrap()), 0..4)
}

fn injections() -> impl Strategy<Value = Injection> {
    let header = prop::sample::select(vec!["Authorization", "x-*", "X-[!a]?", "cookie"]);
    let headers = prop::collection::vec(header.prop_map(|text| HeaderPattern::new(text).unwrap()), 0..4);
    let basic_user = prop::option::of(any::<String>().prop_map(|text| Glob::new(&text)));
    (scopes(), headers, basic_user, any::<[bool; 3]>()).prop_map(|(scopes, headers, basic_user, flags)| {
        let [allow_foreign_credentials, allow_plaintext, allow_echo] = flags;
        Injection { scopes, headers, basic_user, allow_foreign_credentials, allow_plaintext, allow_echo }
    })
}

fn secrets() -> impl Strategy<Value = SecretValue> {
    "(?s).{1,40}".prop_map(SecretValue::new)
}

fn replacements() -> impl Strategy<Value = Replacement> {
    let masked = (any::<String>(), secrets(), injections()).prop_map(|(name, value, injection)| {
        Replacement::Masked(MaskedReplacement { name, value, injection })
    });
    let token = prop::option::of((secrets(), "[a-z]{1,9}"));
    let signing = (secrets(), secrets(), "[a-z]{0,9}", token, scopes(), any::<bool>()).prop_map(
        |(access_key_id, secret_access_key, surrogate_secret_access_key, session_token, scopes, foreign)| {
            Replacement::Signing(SigningReplacement {
                name: String::new(),
                access_key_id,
                secret_access_key,
                surrogate_secret_access_key,
                session_token,
                scopes,
                allow_foreign_credentials: foreign,
            })
        },
    );
    prop_oneof![masked, signing]
}

proptest! {
    #[test]
    fn replacement_map_round_trips(
        // Longer than any real value above, so never equal to one.
        entries in prop::collection::btree_map("(?s).{41,50}", replacements(), 0..5),
    ) {
        let entries: BTreeMap<String, Replacement> = entries;
        let map = ReplacementMap(SecretReplacements::new(entries));
        let text = serde_json::to_string(&map).unwrap();
        prop_assert_eq!(&serde_json::from_str::<ReplacementMap>(&text).unwrap(), &map);
        let value = serde_json::to_value(&map).unwrap();
        prop_assert_eq!(serde_json::from_value::<ReplacementMap>(value).unwrap(), map);
    }

    #[test]
    fn arbitrary_text_is_an_error_or_a_map(text in "(?s).{0,60}|[{}\\[\\]\":,a-z0-9 ]{0,60}") {
        if let Ok(map) = serde_json::from_str::<ReplacementMap>(&text) {
            let written = serde_json::to_string(&map).unwrap();
            prop_assert_eq!(serde_json::from_str::<ReplacementMap>(&written).unwrap(), map);
        }
    }
}

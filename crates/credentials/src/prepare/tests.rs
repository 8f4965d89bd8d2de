//! Tests of [`prepare_secrets`], from the outside.

use allowlist::HostPattern;
use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::*;
use crate::{HeaderPattern, Injection};

const TOKEN: &str = "ghp_aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5";
const KEY_ID: &str = "ASIAIOSFODNN7EXAMPLE";
const SECRET_KEY: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";

fn hosts(texts: &[&str]) -> Vec<HostPattern> {
    texts.iter().map(|text| HostPattern::new(text).unwrap()).collect()
}

fn injection() -> Injection {
    Injection {
        scopes: hosts(&["api.example.com"]),
        headers: vec![HeaderPattern::new("Authorization").unwrap()],
        ..Injection::default()
    }
}

fn masked(variable: &str, value: &str) -> MaskedSecret {
    MaskedSecret::new(variable, SecretValue::new(value), injection())
}

fn aws(name: &str, variables: [&str; 2], values: [&str; 2]) -> SigningCredential {
    let [id, key] = variables;
    let [id_value, key_value] = values;
    SigningCredential::aws(AwsAccessKey {
        name: name.to_owned(),
        access_key_id: SecretVariable::new(id, SecretValue::new(id_value)),
        secret_access_key: SecretVariable::new(key, SecretValue::new(key_value)),
        session_token: None,
        scopes: hosts(&["*.amazonaws.com"]),
    })
}

fn temporary(mut credential: SigningCredential, variable: &str, token: &str) -> SigningCredential {
    credential.key.session_token = Some(SecretVariable::new(variable, SecretValue::new(token)));
    credential
}

fn error(masked: &[MaskedSecret], signing: &[SigningCredential]) -> String {
    prepare_secrets(masked, signing).unwrap_err().to_string()
}

#[test]
fn masked_secret_becomes_a_variable_and_an_entry() {
    let prepared = prepare_secrets(&[masked("GH_TOKEN", TOKEN)], &[]).unwrap();
    let surrogate = &prepared.env_vars()["GH_TOKEN"];
    assert_ne!(surrogate, TOKEN);
    assert!(surrogate.starts_with("ghp_") && surrogate.len() == TOKEN.len());
    let entries: Vec<_> = prepared.replacements().iter().collect();
    let (name, value) = ("GH_TOKEN".to_owned(), SecretValue::new(TOKEN));
    let expected = Replacement::Masked(MaskedReplacement { name, value, injection: injection() });
    assert_eq!(entries, [(surrogate.as_str(), &expected)]);
    assert_eq!(prepared.replacements().clone(), prepared.into_replacements());
}

#[test]
fn signing_credential_becomes_three_variables_and_one_entry() {
    let credential =
        temporary(aws("AWS", ["ID", "KEY"], [KEY_ID, SECRET_KEY]), "TOKEN", "IQoJb3JpZ2luX2VjEJr");
    let prepared = prepare_secrets(&[], &[credential]).unwrap();
    let variables = prepared.env_vars();
    assert_eq!(variables["ID"].len(), KEY_ID.len());
    assert!(variables["ID"].starts_with("ASIA") && variables["ID"] != KEY_ID);
    assert_eq!(variables["KEY"].len(), SECRET_KEY.len());
    assert_ne!(variables["KEY"], SECRET_KEY);
    assert_eq!(variables["TOKEN"].len(), 512);
    let entries: Vec<_> = prepared.replacements().iter().collect();
    let expected = Replacement::Signing(SigningReplacement {
        name: "AWS".to_owned(),
        access_key_id: SecretValue::new(KEY_ID),
        secret_access_key: SecretValue::new(SECRET_KEY),
        surrogate_secret_access_key: variables["KEY"].clone(),
        session_token: Some((SecretValue::new("IQoJb3JpZ2luX2VjEJr"), variables["TOKEN"].clone())),
        scopes: hosts(&["*.amazonaws.com"]),
        allow_foreign_credentials: false,
    });
    assert_eq!(entries, [(variables["ID"].as_str(), &expected)]);
}

#[test]
fn signing_credential_may_allow_foreign_credentials() {
    for allow in [true, false] {
        let credential = aws("AWS", ["ID", "KEY"], [KEY_ID, SECRET_KEY]).allow_foreign_credentials(allow);
        let prepared = prepare_secrets(&[], &[credential]).unwrap();
        let entry = prepared.replacements().iter().next();
        assert!(
            matches!(entry, Some((_, Replacement::Signing(key))) if key.allow_foreign_credentials == allow)
        );
    }
}

#[test]
fn short_keys_keep_their_length() {
    let prepared = prepare_secrets(&[], &[aws("S3", ["ID", "KEY"], ["minio", "minio123"])]).unwrap();
    assert_eq!(prepared.env_vars()["ID"].len(), 5);
    assert_eq!(prepared.env_vars()["KEY"].len(), 8);
}

#[test]
fn empty_value_has_no_entry() {
    let credential = temporary(aws("AWS", ["ID", "KEY"], ["", ""]), "TOKEN", "");
    let stale = temporary(aws("OLD", ["ID2", "KEY2"], ["", ""]), "TOKEN2", "stale");
    let prepared = prepare_secrets(&[masked("GH_TOKEN", "")], &[credential, stale]).unwrap();
    assert!(prepared.replacements().is_empty());
    let expected =
        ["GH_TOKEN", "ID", "ID2", "KEY", "KEY2", "TOKEN2"].map(|name| (name.to_owned(), String::new()));
    assert_eq!(prepared.env_vars(), &BTreeMap::from(expected));
}

#[test]
fn empty_session_token_is_absent() {
    let credential = temporary(aws("AWS", ["ID", "KEY"], [KEY_ID, SECRET_KEY]), "TOKEN", "");
    let prepared = prepare_secrets(&[], &[credential]).unwrap();
    assert!(!prepared.env_vars().contains_key("TOKEN"));
    let replacements = prepared.into_replacements();
    let (_, replacement) = replacements.iter().next().unwrap();
    assert!(matches!(replacement, Replacement::Signing(key) if key.session_token.is_none()));
}

#[test]
fn equal_values_get_different_surrogates() {
    let prepared = prepare_secrets(&[masked("GH_TOKEN", TOKEN), masked("GITHUB_TOKEN", TOKEN)], &[]).unwrap();
    assert_ne!(prepared.env_vars()["GH_TOKEN"], prepared.env_vars()["GITHUB_TOKEN"]);
    assert_eq!(prepared.replacements().iter().count(), 2);
}

#[test]
fn surrogates_are_new_with_each_call() {
    let secrets = [masked("GH_TOKEN", TOKEN)];
    let first = prepare_secrets(&secrets, &[]).unwrap();
    let second = prepare_secrets(&secrets, &[]).unwrap();
    assert_ne!(first.env_vars(), second.env_vars());
}

#[test]
fn second_secret_of_a_variable_is_an_error() {
    let expected = "the variable `X` would get two secrets: give each secret a variable of its own";
    for (secrets, credentials) in [
        (vec![masked("X", "a"), masked("X", "b")], vec![]),
        (vec![masked("X", "a"), masked("X", "")], vec![]),
        (vec![masked("X", "a")], vec![aws("AWS", ["X", "KEY"], [KEY_ID, SECRET_KEY])]),
        (vec![], vec![aws("AWS", ["X", "X"], [KEY_ID, SECRET_KEY])]),
        (vec![masked("X", "a")], vec![temporary(aws("AWS", ["ID", "KEY"], [KEY_ID, SECRET_KEY]), "X", "")]),
    ] {
        assert_eq!(error(&secrets, &credentials), expected);
    }
}

#[test]
fn duplicate_name_of_a_signing_credential_is_an_error() {
    let credentials =
        [aws("AWS", ["A", "B"], [KEY_ID, SECRET_KEY]), aws("AWS", ["C", "D"], [KEY_ID, SECRET_KEY])];
    assert_eq!(error(&[], &credentials), "duplicate signing credential `AWS`: give each its own name");
}

#[test]
fn invalid_variable_is_an_error_without_the_value() {
    for (variable, shown) in
        [("", "``"), ("=", "``"), ("GH_TOKEN=hunter2", "`GH_TOKEN`"), ("A\0hunter2", "`A`")]
    {
        let message = error(&[masked(variable, "x")], &[]);
        assert!(message.starts_with(shown) && !message.contains("hunter2"), "{message}");
    }
    let message = error(&[], &[aws("AWS", ["ID", "B=C"], [KEY_ID, SECRET_KEY])]);
    assert!(message.starts_with("`B` is not a valid name"), "{message}");
}

#[test]
fn scopes_and_headers_are_required_even_of_empty_secrets() {
    for value in ["x", ""] {
        let mut secret = masked("GH_TOKEN", value);
        secret.injection.scopes.clear();
        assert_eq!(
            error(&[secret], &[]),
            "the credential `GH_TOKEN` has no scopes: name the hosts that get it, such as `scopes: [api.example.com]`"
        );
        let mut secret = masked("GH_TOKEN", value);
        secret.injection.headers.clear();
        assert_eq!(
            error(&[secret], &[]),
            "the credential `GH_TOKEN` has no headers: name those that carry it, such as `headers: [Authorization]`"
        );
    }
    let mut credential = aws("AWS", ["ID", "KEY"], [KEY_ID, SECRET_KEY]);
    credential.key.scopes.clear();
    assert!(error(&[], &[credential]).starts_with("the credential `AWS` has no scopes: "));
}

#[test]
fn half_a_key_is_an_error() {
    for (values, variable) in [(["", SECRET_KEY], "ID"), ([KEY_ID, ""], "KEY")] {
        assert_eq!(
            error(&[], &[aws("AWS", ["ID", "KEY"], values)]),
            format!(
                "the signing credential `AWS` has half a key: the value for `{variable}` is empty; set both parts or none"
            )
        );
    }
}

#[test]
fn unusable_value_is_an_error_that_does_not_show_it() {
    let longest = "x".repeat(32 * 1024);
    assert!(prepare_secrets(&[masked("X", &longest)], &[]).is_ok());
    for (value, expected) in [
        ("hunter2\0".to_owned(), "contains NUL"),
        ("\0".to_owned(), "contains NUL"),
        (format!("{longest}x"), "longer than 32768 bytes"),
    ] {
        let signing =
            |id: &str, key: &str, token: &str| temporary(aws("AWS", ["ID", "KEY"], [id, key]), "X", token);
        for (message, variable) in [
            (error(&[masked("X", &value)], &[]), "`X`"),
            (error(&[], &[signing(&value, SECRET_KEY, "t")]), "`ID`"),
            (error(&[], &[signing(KEY_ID, &value, "t")]), "`KEY`"),
            (error(&[], &[signing(KEY_ID, SECRET_KEY, &value)]), "`X`"),
        ] {
            assert!(message.contains(expected) && message.contains(variable), "{message}");
            assert!(!message.contains("hunter2") && message.len() < 200, "{message}");
        }
    }
}

#[test]
fn non_ascii_is_replaced_and_a_value_without_letters_is_an_error() {
    let prepared = prepare_secrets(&[masked("X", "пароль-доступа")], &[]).unwrap();
    let surrogate = &prepared.env_vars()["X"];
    assert!(surrogate.is_ascii() && surrogate.chars().nth(6) == Some('-'), "{surrogate}");
    for value in ["----", "ghp_"] {
        let message = error(&[masked("X", value)], &[]);
        assert!(message.contains("`X` has too few letters and digits"), "{message}");
    }
}

#[test]
fn real_value_is_found_in_other_texts() {
    let credentials =
        [temporary(aws("AWS", ["ID", "KEY"], [KEY_ID, SECRET_KEY]), "TOKEN", "session-token-value")];
    let secrets = [masked("GH_TOKEN", TOKEN), masked("PIN", "1234567")];
    let prepared = prepare_secrets(&secrets, &credentials).unwrap();
    let (env, replacements) = (prepared.env_vars(), prepared.replacements());
    for (text, variable) in [
        (TOKEN.to_owned(), Some("GH_TOKEN")),
        (format!("https://x:{TOKEN}@a.example"), Some("GH_TOKEN")),
        (KEY_ID.to_owned(), Some("ID")),
        (SECRET_KEY.to_owned(), Some("ID")),
        ("session-token-value".to_owned(), Some("ID")),
        (env["GH_TOKEN"].clone(), None),
        ("1234567".to_owned(), None),
        (String::new(), None),
    ] {
        let expected = variable.map(|variable| env[variable].as_str());
        assert_eq!(replacements.surrogate_of(&text), expected, "{variable:?}");
    }
}

#[test]
fn renewed_value_keeps_its_surrogate() {
    let signing =
        temporary(aws("K", ["ID", "KEY"], ["AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI"]), "TOKEN", "tok");
    let secrets = [masked("A", "ghp_0123456789abcdefghij"), masked("NONE", "")];
    let mut prepared = prepare_secrets(&secrets, &[signing]).unwrap();
    let (variables, before) = (prepared.env_vars().clone(), prepared.replacements().clone());
    for (variable, value) in
        [("A", "ghp_next"), ("ID", "AKIANEXT"), ("KEY", "next-secret"), ("TOKEN", "next-token")]
    {
        prepared.renew(variable, SecretValue::new(value)).unwrap();
        assert_eq!(prepared.replacements().surrogate_of(value).is_some(), value.len() >= 8, "{variable}");
        assert!(before.surrogate_of(value).is_none(), "clones stay as they were");
    }
    assert_eq!(prepared.env_vars(), &variables);
    assert!(prepared.replacements().surrogate_of("ghp_0123456789abcdefghij").is_none());
    let long = "x".repeat(1 << 20);
    let shown = variables["A"].clone();
    for (variable, value) in
        [("A", ""), ("A", "a\0b"), ("A", long.as_str()), ("A", &shown), ("NONE", "x"), ("OTHER", "x")]
    {
        let unchanged = prepared.replacements().clone();
        let error = prepared.renew(variable, SecretValue::new(value)).unwrap_err().to_string();
        assert!(error.contains(&format!("`{variable}`")) && !error.contains(&shown), "{error}");
        assert!(*prepared.replacements() == unchanged);
    }
}

#[test]
fn debug_form_hides_values() {
    let secrets = [masked("GH_TOKEN", TOKEN)];
    let credentials =
        [temporary(aws("AWS", ["ID", "KEY"], [KEY_ID, SECRET_KEY]), "TOKEN", "session-token-value")];
    let prepared = prepare_secrets(&secrets, &credentials).unwrap();
    let entries: Vec<_> = prepared.replacements().iter().collect();
    let shown = format!("{secrets:?} {credentials:?} {prepared:?} {entries:?}");
    for value in [TOKEN, KEY_ID, SECRET_KEY, "session-token-value"] {
        assert!(!shown.contains(value), "{shown}");
    }
    assert!(shown.contains("SecretReplacements(2 entries)"));
}

proptest! {
    #[test]
    fn surrogates_differ_from_one_another_and_from_all_real_values(
        // Each has a random part, or is empty.
        values in prop::collection::vec("([ -~é]{0,23}[0-9é])?", 1..12),
        seed: u64,
    ) {
        let secrets: Vec<_> = values
            .iter()
            .enumerate()
            .map(|(index, value)| masked(&format!("S{index}"), value))
            .collect();
        let prepared = prepare_with(&secrets, &[], &mut StdRng::seed_from_u64(seed)).unwrap();
        prop_assert_eq!(prepared.env_vars().len(), values.len());
        let filled = values.iter().filter(|value| !value.is_empty()).count();
        prop_assert_eq!(prepared.replacements().iter().count(), filled);
        for (surrogate, replacement) in prepared.replacements().iter() {
            prop_assert!(values.iter().all(|value| value != surrogate));
            let Replacement::Masked(masked) = replacement else {
                return Err(TestCaseError::fail("a masked secret became a key"));
            };
            let variables = prepared.env_vars().iter();
            let holders: Vec<_> = variables.filter(|(_, held)| *held == surrogate).collect();
            prop_assert_eq!(holders.len(), 1);
            let index: usize = holders[0].0[1..].parse().unwrap();
            prop_assert_eq!(masked.value.expose(), values[index].as_str());
            prop_assert!(!surrogate.contains(masked.value.expose()));
        }
    }
}

#[test]
fn surrogate_in_a_file_has_no_variable_and_the_given_start() {
    for (start, value) in [("", TOKEN), ("eyJhbGciOiJub25lIn0.e30.", "eyJ4.eyJ5.c2lnbmF0dXJl")] {
        let secret = MaskedSecret::in_file("login", SecretValue::new(value), injection(), start);
        let mut prepared = prepare_secrets(&[secret, masked("A", TOKEN)], &[]).unwrap();
        let surrogate = prepared.surrogate("login").unwrap().to_owned();
        assert_eq!(prepared.env_vars().keys().collect::<Vec<_>>(), ["A"]);
        let rest = surrogate.strip_prefix(start).unwrap();
        assert!(if start.is_empty() { rest.starts_with("ghp_") } else { rest.len() == 86 }, "{surrogate}");
        assert_ne!(surrogate, value);
        prepared.renew("login", SecretValue::new("another-value-0123456789")).unwrap();
        assert_eq!(
            prepared.replacements().surrogate_of("another-value-0123456789"),
            Some(surrogate.as_str()),
            "the surrogate stays"
        );
    }
    let twice = [masked("A", TOKEN), MaskedSecret::in_file("A", SecretValue::new(TOKEN), injection(), "")];
    assert!(matches!(prepare_secrets(&twice, &[]), Err(SecretError::DuplicateVariable { .. })));
}

#[test]
fn decoy_has_the_form_and_represents_nothing() {
    let refresh = SecretValue::new("sk-ant-ort01-aB3dE5gH7jK9mN1pQ3sT5vW7yZ9");
    let decoy = decoy("refresh token", &refresh).unwrap();
    assert!(decoy.starts_with("sk-ant-ort01-") && decoy.len() == refresh.expose().len(), "{decoy}");
    assert_ne!(decoy, refresh.expose());
}

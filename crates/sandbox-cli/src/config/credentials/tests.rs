//! Valid entries, the errors of invalid ones, and their evaluation.

use allowlist::Allowlist;
use sandbox::credentials::Preset;
use sandbox_credentials::wire::ReplacementMap;

use super::*;
use crate::config::{ConfigFile, Environment};

fn parse(text: &str) -> Result<CredentialsFile, String> {
    let file = ConfigFile::parse(text, "sandbox.yaml", "/project".as_ref());
    file.map(|file| file.credentials).map_err(|error| error.to_string())
}

/// Each entry in one line: variables, sources of the values, hosts, headers, flags.
fn summary(text: &str) -> Vec<String> {
    let credentials = parse(text).unwrap();
    let from = |source: &Source| match source.kept() {
        Some(kept) => format!("({})", **kept),
        None => source.variable_name().unwrap_or("(text)").to_owned(),
    };
    let masked = credentials.masked.iter().map(|entry| {
        let injection = &entry.injection;
        let scopes: Vec<&str> = injection.scopes.iter().map(allowlist::HostPattern::as_str).collect();
        let headers: Vec<&str> =
            injection.headers.iter().map(sandbox::credentials::HeaderPattern::as_str).collect();
        let flags = [
            (injection.allow_foreign_credentials, " foreign"),
            (injection.allow_plaintext, " plaintext"),
            (injection.allow_echo, " echo"),
        ];
        let flags = flags.into_iter().filter(|(set, _)| *set).map(|(_, flag)| flag);
        let user = injection.basic_user.as_ref().map(|user| format!(" user={user}"));
        format!(
            "{}={} {} {}{}{}",
            entry.variable,
            from(&entry.value),
            scopes.join(","),
            headers.join(","),
            flags.collect::<String>(),
            user.unwrap_or_default()
        )
    });
    let signing = credentials.signing.iter().map(|entry| {
        let token = match &entry.session_token {
            entry::SessionToken::None => String::new(),
            entry::SessionToken::Required(setting) => format!("+{}", from(setting)),
            entry::SessionToken::IfSet(setting) => format!("+{}?", from(setting)),
        };
        let scopes: Vec<&str> = entry.scopes.iter().map(allowlist::HostPattern::as_str).collect();
        let flag = if entry.allow_foreign_credentials { " foreign" } else { "" };
        format!(
            "{} {}={}+{}{token} {}{flag}",
            entry.name,
            entry.variables().join(","),
            from(&entry.access_key_id),
            from(&entry.secret_access_key),
            scopes.join(",")
        )
    });
    masked.chain(signing).collect()
}

#[test]
fn entries_are_complete_or_use_defaults() {
    for (text, expected) in [
        (
            "masked_secrets: {A: {scopes: [a.example], headers: [Authorization]}}",
            "A=A a.example authorization",
        ),
        (
            "masked_secrets: {A: {value: !env B, scopes: [A.Example, '*.b.example'], headers: [X-*-Key], allow_foreign_credentials: true, allow_plaintext: true, allow_echo: true, basic_user: 'x-*'}}",
            "A=B a.example,*.b.example x-*-key foreign plaintext echo user=x-*",
        ),
        (
            "masked_secrets: {A: {value: written out, scopes: [a.example], headers: [x], allow_echo: false}}",
            "A=(text) a.example x",
        ),
        (
            "masked_secrets: {A: {value: !command [op, read, 'op://a b/c', ''], scopes: [a.example], headers: [x]}}",
            r#"A=(run `op read "op://a b/c" ""` on the host) a.example x"#,
        ),
        (
            "masked_secrets: {A: {value: !file ../token, scopes: [a.example], headers: [x], ttl: 50m}}",
            "A=(read `/project/../token` of the host) a.example x",
        ),
        (
            "masked_secrets: {A: {value: !keyring my token, scopes: [a.example], headers: [x]}}",
            "A=(read the key `my token` of your keyring) a.example x",
        ),
        (
            "masked_secrets: {A: {value: !github_app {app: 12, installation: 34, key: ../app.pem, repositories: [tool, docs]}, scopes: [a.example], headers: [x]}}",
            "A=(make tokens of the GitHub App 12 from https://api.github.com/app/installations/34/access_tokens, for tool, docs, with the key in `/project/../app.pem`) a.example x",
        ),
        (
            "masked_secrets: {A: {value: !github_app {app: Iv23, installation: 34, key: /app.pem, repositories: [tool], api: 'https://git.example/api/v3'}, ttl: 10m, scopes: [a.example], headers: [x]}}",
            "A=(make tokens of the GitHub App Iv23 from https://git.example/api/v3/app/installations/34/access_tokens, for tool, with the key in `/app.pem`) a.example x",
        ),
        (
            "signing_credentials: {K: {preset: aws, access_key_id: !file /id, secret_access_key: !command [/bin/key], ttl: 1h, scopes: [s3.example]}}",
            "K AWS_ACCESS_KEY_ID,AWS_SECRET_ACCESS_KEY=(read `/id` of the host)+(run `/bin/key` on the host) s3.example",
        ),
        (
            "signing_credentials: {K: {type: aws-sigv4, access_key_id: !env ID, secret_access_key: !env KEY, scopes: [s3.example]}}",
            "K ID,KEY=ID+KEY s3.example",
        ),
        (
            "signing_credentials: {K: {type: aws-sigv4, access_key_id: AKIA, secret_access_key: x, session_token: !env T, scopes: [s3.example]}}",
            "K AWS_ACCESS_KEY_ID,AWS_SECRET_ACCESS_KEY,T=(text)+(text)+T s3.example",
        ),
        (
            "signing_credentials: {K: {preset: aws, scopes: [s3.example], allow_foreign_credentials: true}}",
            "K AWS_ACCESS_KEY_ID,AWS_SECRET_ACCESS_KEY,AWS_SESSION_TOKEN=AWS_ACCESS_KEY_ID+AWS_SECRET_ACCESS_KEY+AWS_SESSION_TOKEN? s3.example foreign",
        ),
        (
            "signing_credentials: {K: {preset: aws, scopes: [s3.example], allow_foreign_credentials: false}}",
            "K AWS_ACCESS_KEY_ID,AWS_SECRET_ACCESS_KEY,AWS_SESSION_TOKEN=AWS_ACCESS_KEY_ID+AWS_SECRET_ACCESS_KEY+AWS_SESSION_TOKEN? s3.example",
        ),
        (
            "signing_credentials: {K: {preset: aws, scopes: [s3.example]}}",
            "K AWS_ACCESS_KEY_ID,AWS_SECRET_ACCESS_KEY,AWS_SESSION_TOKEN=AWS_ACCESS_KEY_ID+AWS_SECRET_ACCESS_KEY+AWS_SESSION_TOKEN? s3.example",
        ),
    ] {
        assert_eq!(summary(text), [expected], "{text}");
    }
    assert!(summary("masked_secrets: {}\nsigning_credentials: {}").is_empty());
}

/// Every preset with hosts provides scopes and headers, in any order of the keys; the entry
/// overrides them.
#[test]
fn presets_complete_entries() {
    for preset in Preset::ALL {
        let usual = preset.injection();
        let name = preset.name();
        if *preset == Preset::Aws {
            let key = &parse("signing_credentials: {K: {preset: aws}}").unwrap().signing[0];
            assert_eq!(key.scopes, preset.signing_scopes());
            continue;
        }
        let named = format!(
            "masked_secrets: {{A: {{scopes: [a.example], preset: {name}, headers: [x-a], allow_echo: true}}}}"
        );
        let entry = &parse(&named).unwrap().masked[0];
        assert_eq!(entry.preset, Some(*preset));
        assert_eq!(entry.injection.scopes, [allowlist::HostPattern::new("a.example").unwrap()]);
        assert_eq!(entry.injection.headers, [sandbox::credentials::HeaderPattern::new("x-a").unwrap()]);
        assert_eq!(entry.injection.basic_user, usual.basic_user);
        assert!(entry.injection.allow_echo);

        let alone = parse(&format!("masked_secrets: {{A: {{preset: {name}}}}}"));
        if usual.scopes.is_empty() {
            let expected = format!(
                "sandbox.yaml:1:18: `A` has no `scopes`: name the hosts that get it, as in [api.example.com]; the preset `{name}` does not set them"
            );
            assert_eq!(alone.unwrap_err(), expected);
        } else {
            assert_eq!(alone.unwrap().masked[0].injection, usual);
        }
    }
    let entry = &parse("masked_secrets: {GH_TOKEN: {preset: github}}").unwrap().masked[0];
    assert_eq!(entry.value.variable_name(), Some("GH_TOKEN"));
}

/// Documents with one error each.
const INVALID: &[&str] = &[
    "masked_secrets: [A]",
    "masked_secrets:\n  A: secret",
    "masked_secrets:\n  A: {scope: [a.example]}",
    "masked_secrets:\n  A: {headers: [x]}",
    "masked_secrets:\n  A: {scopes: [a.example]}",
    "masked_secrets:\n  A: {scopes: [], headers: [x]}",
    "masked_secrets:\n  A: {scopes: [a.example], headers: []}",
    "masked_secrets: {A: {scopes: [https://a.example], headers: [x]}}",
    "masked_secrets: {A: {scopes: a.example, headers: [x]}}",
    "masked_secrets: {A: {value: 12345, scopes: [a.example], headers: [x]}}",
    "masked_secrets: {A: {value: !vault /x, scopes: [a.example], headers: [x]}}",
    "masked_secrets: {A: {value: !github_app {app: 1, installation: 2, key: /k}, scopes: [a.example], headers: [x]}}",
    "masked_secrets: {A: {value: !github_app {app: 1, installation: 2, key: /k, repositories: []}, scopes: [a.example], headers: [x]}}",
    "masked_secrets: {A: {value: !github_app {app: 1, installation: 2, key: /k, repositories: [owner/tool]}, scopes: [a.example], headers: [x]}}",
    "masked_secrets: {A: {value: !github_app {app: 1, installation: 2, key: /k, repositories: [a], api: 'http://git.example'}, scopes: [a.example], headers: [x]}}",
    "masked_secrets: {A: {value: !github_app {app: 1, installation: x, key: /k, repositories: [a]}, scopes: [a.example], headers: [x]}}",
    "masked_secrets: {A: {value: !github_app {app: [], installation: 2, key: /k, repositories: [a]}, scopes: [a.example], headers: [x]}}",
    "masked_secrets: {A: {value: !github_app {app: '1 from here', installation: 2, key: /k, repositories: [a]}, scopes: [a.example], headers: [x]}}",
    "masked_secrets: {A: {value: !file [x], scopes: [a.example], headers: [x]}}",
    "masked_secrets: {A: {value: !command op, scopes: [a.example], headers: [x]}}",
    "masked_secrets: {A: {value: !command [], scopes: [a.example], headers: [x]}}",
    "masked_secrets: {A: {value: !command [./get], scopes: [a.example], headers: [x]}}",
    "masked_secrets: {A: {value: !command [sub/get], scopes: [a.example], headers: [x]}}",
    "masked_secrets: {A: {value: !keyring '', scopes: [a.example], headers: [x]}}",
    "masked_secrets: {A: {value: !file /x, ttl: 50, scopes: [a.example], headers: [x]}}",
    "masked_secrets: {A: {value: !file /x, ttl: 2d, scopes: [a.example], headers: [x]}}",
    "masked_secrets: {A: {ttl: 50m, scopes: [a.example], headers: [x]}}",
    "signing_credentials: {K: {preset: aws, ttl: 50m}}",
    "env: {A: !command [op]}",
    "masked_secrets: {A: {allow_echo: sure}}",
    "masked_secrets: {A=B: {preset: github}}",
    "masked_secrets: {A: {preset: nonesuch}}",
    "masked_secrets: {A: {preset: aws}}",
    "signing_credentials: {K: {preset: github}}",
    "signing_credentials: {K: {type: oauth}}",
    "signing_credentials: {K: {scopes: [s3.example]}}",
    "signing_credentials: {K: {type: aws-sigv4}}",
    "signing_credentials: {K: {type: aws-sigv4, scopes: [s3.example]}}",
    "signing_credentials: {K: {type: aws-sigv4, scopes: [s3.example], access_key_id: x}}",
    "signing_credentials: {K: {preset: aws, scopes: [s3.example], session_token: x}}",
    "signing_credentials: {K: {preset: aws, allow_foreign_credentials: 1}}",
    "signing_credentials: {K: {preset: aws, allow_echo: true}}",
    "env: {A: x}\nmasked_secrets: {A: {scopes: [a.example], headers: [x]}}",
    "masked_secrets: {A: {scopes: [a.example], headers: [x]}}\npass_env: [B, A]",
    "pass_env: [AWS_SESSION_TOKEN]\nsigning_credentials: {K: {preset: aws, scopes: [s3.example], access_key_id: a, secret_access_key: b}}",
    "pass_env: [B]\nmasked_secrets: {A: {value: !env B, scopes: [a.example], headers: [x]}}",
    "env: {X: !env B}\nmasked_secrets: {A: {value: !env B, scopes: [a.example], headers: [x]}}",
    "masked_secrets: {A: {scopes: [a.example], headers: [x]}}\nsigning_credentials: {K: {type: aws-sigv4, access_key_id: !env A, secret_access_key: !env B, scopes: [s3.example]}}",
];

#[test]
fn errors_name_their_place_and_fix() {
    let error = |text: &&str| format!("{text:?}\n  {}\n", parse(text).err().unwrap_or_default());
    insta::assert_snapshot!(INVALID.iter().map(error).collect::<String>());
}

const TWO: &str = "masked_secrets:
  A: {scopes: [a.example], headers: [x]}
  B: {value: !env C, scopes: [a.example], headers: [x]}
signing_credentials:
  K: {type: aws-sigv4, access_key_id: !env ID, secret_access_key: !env KEY, session_token: !env TOKEN, scopes: [s3.example]}
";
const SET: [(&str, &str); 5] = [
    ("A", "real-value-of-a-0123456789"),
    ("C", "real-value-of-c-0123456789"),
    ("ID", "AKIAIOSFODNN7EXAMPLE"),
    ("KEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
    ("TOKEN", ""),
];

#[test]
fn all_unset_variables_are_reported() {
    let problems = parse(TWO).unwrap().prepare(&Environment::default()).unwrap_err();
    let places: Vec<String> = problems
        .iter()
        .map(|problem| problem.to_string().split(" is not set").next().unwrap().to_owned())
        .collect();
    assert_eq!(
        places,
        [
            "sandbox.yaml:2:3: the variable `A`",
            "sandbox.yaml:3:14: the variable `C`",
            "sandbox.yaml:5:39: the variable `ID`",
            "sandbox.yaml:5:67: the variable `KEY`",
            "sandbox.yaml:5:92: the variable `TOKEN`",
        ]
    );
}

#[test]
fn task_gets_surrogates_and_proxy_gets_their_values() {
    let prepared = parse(TWO).unwrap().prepare(&Environment::from(SET)).unwrap();
    let variables: Vec<&str> = prepared.env_vars().keys().map(String::as_str).collect();
    for expected in ["A", "B", "ID", "KEY"] {
        assert!(variables.contains(&expected), "{variables:?}");
    }
    for (_, real) in SET.iter().filter(|(_, real)| !real.is_empty()) {
        assert!(prepared.env_vars().values().all(|surrogate| surrogate != real));
    }
    let replacements = format!("{:?}", prepared.replacements());
    assert_eq!(replacements, "SecretReplacements(3 entries)");
}

#[test]
fn proxy_gets_the_options_of_signing_entries() {
    for (text, allowed) in [
        ("", false),
        (", allow_foreign_credentials: false", false),
        (", allow_foreign_credentials: true", true),
    ] {
        let text = format!("signing_credentials: {{K: {{preset: aws, scopes: [s3.example]{text}}}}}");
        let environment = [
            ("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE"),
            ("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
        ];
        let prepared = parse(&text).unwrap().prepare(&Environment::from(environment)).unwrap();
        let json = serde_json::to_value(ReplacementMap(prepared.into_replacements())).unwrap();
        let entry = json.as_object().unwrap().values().next().unwrap();
        let flag = entry.get("allow_foreign_credentials");
        assert_eq!(flag, allowed.then_some(&true.into()), "{text}");
    }
}

#[test]
fn preset_without_session_token_in_the_environment_has_none() {
    let credentials = parse("signing_credentials: {K: {preset: aws, scopes: [s3.example]}}").unwrap();
    let environment = [
        ("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE"),
        ("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
    ];
    assert!(credentials.prepare(&Environment::from(environment)).is_ok());
    let problems = credentials.prepare(&Environment::default()).unwrap_err();
    assert_eq!(problems.len(), 2, "{problems:?}");
}

#[test]
fn probable_mistakes_are_reported() {
    let advice = |text: &str, policy: &str| -> Vec<String> {
        let policy = Allowlist::from_yaml(policy, "policy").unwrap();
        let environment = Environment::from([("A", "x"), ("NOTHING", "")]);
        let advice = parse(text).unwrap().advice(&environment, &policy);
        advice.iter().map(|advice| format!("{}: {}", advice.location, advice.message)).collect()
    };
    let secret = |scopes: &str| format!("masked_secrets: {{A: {{scopes: {scopes}, headers: [x]}}}}");
    for (scopes, policy, expected) in [
        ("[a.example]", "domains: [a.example]", None),
        ("[a.example]", "domains: ['*.example']", None),
        ("['*.a.example']", "url_prefixes: [{host: b.a.example, path: /}]", None),
        ("['*.a.example']", "domains: ['b.*']", None),
        ("[a.example, b.example]", "domains: [b.example]", None),
        (
            "[a.example, c.example]",
            "domains: [b.example]",
            Some("`A` is sent to a.example, c.example only, which the allowlist does not permit"),
        ),
        ("[a.example]", "{}", Some("`A` is sent to a.example only")),
        ("['*']", "domains: [b.example]", Some("`A` is sent to every host that the allowlist permits")),
    ] {
        let given = advice(&secret(scopes), policy);
        match expected {
            None => assert!(given.is_empty(), "{scopes} {policy}: {given:?}"),
            Some(expected) => assert!(
                matches!(given.as_slice(), [one] if one.starts_with(&format!("sandbox.yaml:1:18: {expected}"))),
                "{scopes} {policy}: {given:?}"
            ),
        }
    }
    let empty = "masked_secrets: {A: {value: !env NOTHING, scopes: [a.example], headers: [x]}}";
    assert_eq!(
        advice(empty, "domains: [a.example]"),
        ["sandbox.yaml:1:29: `A` is empty, so the task gets an empty value"]
    );
}

#[test]
fn secret_in_the_file_is_reported_without_its_value() {
    let text = "masked_secrets:\n  A: {value: hunter2, scopes: [a.example], headers: [x]}\n  B: {scopes: [a.example], headers: [x]}\n";
    let literals = parse(text).unwrap().literals();
    let [literal] = literals.as_slice() else { panic!("{literals:?}") };
    assert_eq!(literal.location.to_string(), "sandbox.yaml:2:14");
    assert!(!literal.message.contains("hunter2"));
}

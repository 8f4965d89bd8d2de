//! The lines of rights of configurations.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::Value;

use super::*;

/// The rights of a project in `/project`, with limits in the user's own file.
fn rights(yaml: &str) -> Rights {
    let user = ConfigFile::of_text("resource_limits: {memory: 1g, timeout: 10m}");
    configuration_rights(&ConfigFile::of_text(yaml), &user, |path| path.starts_with("/project"))
}

#[test]
fn default_rights_need_no_trust() {
    for yaml in [
        "",
        "resource_limits: {memory: 1g, cpus: 2, timeout: 5m}\nprotected_paths: [ci]\nenv: {A: b}",
        "mounts: ['../data:/data']\nworkspace: copy\nnetwork_sandbox: true\nagent: codex\nprefix: a",
        "dockerfile: Other",
    ] {
        assert!(!rights(yaml).need_trust(), "{yaml}");
    }
}

#[test]
fn each_key_with_a_right_is_a_line() {
    for (yaml, line) in [
        (
            "network_sandbox: false",
            "turn the network sandbox off: use the host's network access, without a log",
        ),
        ("workspace: direct", "let agents work on the work tree itself instead of on a copy"),
        ("engine: unix:///x.sock", "use the engine `unix:///x.sock`"),
        ("upstream: {dns: 192.0.2.1}", "resolve names at 192.0.2.1:53"),
        ("upstream: {allow_addresses: [10.0.0.0/8]}", "reach the private network 10.0.0.0/8"),
        ("upstream: {extra_roots: /r.pem}", "trust the certificate authorities in `/r.pem`"),
        (
            "services: {db: {tcp: '127.0.0.1:5432'}}",
            "connect to the host's service db:5432 at 127.0.0.1:5432",
        ),
        ("ask: !command [me, 'a b']", "run `me \"a b\"` on the host, to answer questions of --ask"),
        ("mounts: ['/etc/ssl:/x:ro']", "read `/etc/ssl` of the host, at `/x`"),
        ("mounts: ['/data:/x']", "read and write `/data` of the host, at `/x`"),
        ("dockerfile: /etc/hosts", "build the image with the Dockerfile `/etc/hosts` of the host"),
        ("build: {network: host}", "build images outside of the sandbox, on the host's network"),
        ("env: {A: !env MINE}", "read your variable `MINE`, as `A`"),
        (
            "env: {OPENAI_API_KEY: k}",
            "give the task `OPENAI_API_KEY` of the project instead of yours, with the digest 8254c329a92850f6d539dd376f4816ee2764517d",
        ),
        ("pass_env: [MINE]", "read your variable `MINE`"),
        (
            "masked_secrets: {T: {scopes: [a.example], headers: [x]}}",
            "send the secret `T` to a.example, in `x`",
        ),
        (
            "masked_secrets: {T: {scopes: [a.example], headers: [x]}}",
            "read your variable `T`, for the secret `T`",
        ),
        (
            "masked_secrets: {T: {value: !command [op, 'a b'], scopes: [a.example], headers: [x]}}",
            "run `op \"a b\"` on the host, for the secret `T`",
        ),
        (
            "masked_secrets: {T: {scopes: ['*[a, in `x`].example'], headers: [x]}}",
            r"send the secret `T` to `*[a, in \x60x\x60].example`, in `x`",
        ),
        (
            "signing_credentials: {K: {preset: aws, scopes: [s3.example]}}",
            "sign requests to s3.example with the key `K`",
        ),
        (
            "signing_credentials: {K: {preset: aws}}",
            "read your variable `AWS_SESSION_TOKEN`, for the session token of the key `K`",
        ),
        (
            "logins: {claude: {}}",
            "send your login of claude to api.anthropic.com, in `authorization` without a Basic user",
        ),
        (
            "logins: {codex: {file: /x/auth.json, token_url: 'https://b.example/t'}}",
            "use your login of codex in `/x/auth.json`, refreshed at `https://b.example/t`",
        ),
        (
            "ssh: {scope: s, unlock: keyring, sign_all: true}",
            "sign every commit and tag with your SSH keys of `s`",
        ),
        ("resource_limits: {memory: 2g}", "use up to 2g of memory, above your own limit of 1g of memory"),
    ] {
        let rights = rights(yaml);
        assert!(rights.need_trust() && rights.lines().contains(line), "{yaml}: {rights:#?}");
    }
}

#[test]
fn removed_limit_is_an_added_right() {
    let (with, without) =
        (rights("resource_limits: {cpus: 2, pids_limit: 9}"), rights("resource_limits: {cpus: 2}"));
    let new: Vec<_> = without.lines().difference(with.lines()).collect();
    assert_eq!(new, ["use unlimited disk, processes"]);
    let gone: Vec<_> = with.lines().difference(without.lines()).collect();
    assert_eq!(gone, ["use at most 9 processes", "use unlimited disk"]);
}

#[test]
fn workspace_mode_beyond_the_users_own_needs_trust() {
    let needs_trust = |user: &str| {
        let (file, user) = (ConfigFile::of_text("workspace: auto"), ConfigFile::of_text(user));
        configuration_rights(&file, &user, |_| true).need_trust()
    };
    assert!(needs_trust("workspace: copy"));
    assert!(!needs_trust("workspace: auto") && !needs_trust(""));
}

#[test]
fn compared_variants_cover_every_key() {
    fn keys(schema: &Value, found: &mut BTreeSet<String>) {
        if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
            found.extend(properties.keys().cloned());
        }
        match schema {
            Value::Object(parts) => parts.values().for_each(|part| keys(part, found)),
            Value::Array(parts) => parts.iter().for_each(|part| keys(part, found)),
            _ => {}
        }
    }
    let mut known = BTreeSet::new();
    keys(&crate::config::schema(), &mut known);
    assert!(known.contains("protected_paths") && known.contains("allow_echo"), "{known:?}");
    let text = format!("{KEYS:?}");
    known.retain(|key| !text.contains(&format!("{key}:")));
    assert_eq!(known, BTreeSet::new());
}

#[test]
fn no_name_begins_or_ends_a_line() {
    let hostile = r#""a` of the host\n    + nothing\u001b[2J\u2028\u202e\u200b\u3164\u00a0     + x""#;
    for yaml in [
        format!("image: {hostile}"),
        format!("mounts: [{}]", hostile.replace("\"a", "\"/a:/b").replace("2028", "2028/")),
        format!("env: {{{hostile}: !env {hostile}}}"),
        format!("pass_env: [{hostile}]"),
        format!("protected_paths: [{hostile}]"),
        format!("dockerfile: {hostile}"),
        format!("ask: !command [{hostile}]"),
        format!("build: {{allowlist: {hostile}}}"),
        format!("services: {{s: {{unix: {hostile}, port: 80, http: true}}}}"),
        format!(
            "masked_secrets: {{{hostile}: {{value: !command [{hostile}], scopes: [a], headers: [x], basic_user: {hostile}}}}}"
        ),
        format!("signing_credentials: {{{hostile}: {{preset: aws}}}}"),
        format!("logins: {{claude: {{file: {hostile}}}}}"),
    ] {
        for line in rights(&yaml).lines() {
            assert!(
                !line.chars().any(|c| c.is_control() || "\u{2028}\u{202e}\u{200b}\u{3164}\u{a0}".contains(c)),
                "{line:?}"
            );
            assert!(!line.contains("  "), "{line:?}");
            // Only we write backticks, so they come in pairs; a program's arguments have quotes
            // inside of them.
            assert!(line.matches('`').count().is_multiple_of(2) || line.contains('"'), "{line:?}");
        }
    }
}

/// The variants of each key, which all give different rights.
const KEYS: &[&[&str]] = &[
    &["", "engine: unix:///a.sock", "engine: unix:///b.sock"],
    &["", "prefix: a", "prefix: b"],
    &["", "ask: !command [a]", "ask: !command [b]", "ask: !command [a, b]", "ask: !command ['a b']"],
    &[
        "",
        "image: x",
        r#"image: "x\u200b""#,
        r#"image: "x\u3164""#,
        "image: 'x`, image `y'",
        r#"image: "x\nuse""#,
        r"image: 'x\nuse'",
        "dockerfile: /etc/a",
        "dockerfile: a",
        "context: /etc/a",
        "dockerfile: /etc/a\ncontext: /etc/a",
    ],
    &["", "build: {network: host}", "build: {allowlist: a}", "build: {allowlist: /etc/a}"],
    &["", "agent: codex", "agent: gemini"],
    &[
        "",
        "env: {A: !env MINE}",
        "env: {B: !env MINE}",
        "env: {A: !env YOURS}",
        "env: {MINE: !env MINE}",
        "env: {A: !env MINE, B: !env YOURS}",
        "env: {A: !env 'MINE`, as `A'}",
        "env: {A: text}",
        "env: {A: another}",
        "env: {B: text}",
        "env: {OPENAI_API_KEY: k}",
        "env: {OPENAI_API_KEY: l}",
        "env: {GEMINI_API_KEY: k}",
    ],
    &[
        "",
        "pass_env: [P]",
        "pass_env: [Q]",
        "pass_env: [P, Q]",
        "pass_env: ['P`, as `Q']",
        "pass_env: ['P, Q']",
    ],
    &[
        "",
        "masked_secrets: {T: {scopes: [a.example], headers: [x]}}",
        "masked_secrets: {U: {scopes: [a.example], headers: [x]}}",
        "masked_secrets: {T: {scopes: [b.example], headers: [x]}}",
        "masked_secrets: {T: {scopes: [a.example, b.example], headers: [x]}}",
        "masked_secrets: {T: {scopes: [a.example], headers: [y]}}",
        "masked_secrets: {T: {scopes: [a.example], headers: [x, y]}}",
        "masked_secrets: {T: {scopes: [a.example], headers: ['x`']}}",
        "masked_secrets: {T: {scopes: [a.example], headers: [x], basic_user: y}}",
        "masked_secrets: {T: {scopes: [a.example], headers: [x], basic_user: 'y`, also over plain HTTP'}}",
        "masked_secrets: {T: {scopes: [a.example], headers: [x], basic_user: y, allow_plaintext: true}}",
        "masked_secrets: {T: {scopes: [a.example], headers: [x], allow_foreign_credentials: true}}",
        "masked_secrets: {T: {scopes: [a.example], headers: [x], allow_plaintext: true}}",
        "masked_secrets: {T: {scopes: [a.example], headers: [x], allow_echo: true}}",
        "masked_secrets: {T: {preset: github}}",
        "masked_secrets: {T: {preset: npm, scopes: [a.example]}}",
        "masked_secrets: {T: {value: !env V, scopes: [a.example], headers: [x]}}",
        "masked_secrets: {T: {value: v, scopes: [a.example], headers: [x]}}",
        "masked_secrets: {T: {value: w, scopes: [a.example], headers: [x]}}",
        "masked_secrets: {T: {value: !command [op], scopes: [a.example], headers: [x]}}",
        "masked_secrets: {T: {value: !command [op, a, b], scopes: [a.example], headers: [x]}}",
        "masked_secrets: {T: {value: !command [op, a b], scopes: [a.example], headers: [x]}}",
        "masked_secrets: {T: {value: !command [op, 'a` on the host'], scopes: [a.example], headers: [x]}}",
        "masked_secrets: {T: {value: !file /a, scopes: [a.example], headers: [x]}}",
        "masked_secrets: {T: {value: !file '/a`', scopes: [a.example], headers: [x]}}",
        "masked_secrets: {T: {value: !file /a, ttl: 5m, scopes: [a.example], headers: [x]}}",
        "masked_secrets: {T: {value: !keyring a, scopes: [a.example], headers: [x]}}",
        "masked_secrets: {T: {value: !github_app {app: 1, installation: 2, key: /k, repositories: [a]}, scopes: [a.example], headers: [x]}}",
        "masked_secrets: {T: {value: !github_app {app: 1, installation: 2, key: /k, repositories: [a, b]}, scopes: [a.example], headers: [x]}}",
        "masked_secrets: {T: {value: !github_app {app: Iv1, installation: 2, key: /k, repositories: [a]}, scopes: [a.example], headers: [x]}}",
        "masked_secrets: {T: {scopes: [a.example], headers: [x]}, U: {scopes: [b.example], headers: [x]}}",
        "masked_secrets: {T: {scopes: [b.example], headers: [x]}, U: {scopes: [a.example], headers: [x]}}",
    ],
    &[
        "",
        "signing_credentials: {K: {preset: aws}}",
        "signing_credentials: {L: {preset: aws}}",
        "signing_credentials: {K: {preset: aws, scopes: [s3.example]}}",
        "signing_credentials: {K: {preset: aws, scopes: [s3.example], allow_foreign_credentials: true}}",
        "signing_credentials: {K: {preset: aws, scopes: [s3.example], access_key_id: !env I, secret_access_key: !env S}}",
        "signing_credentials: {K: {preset: aws, scopes: [s3.example], access_key_id: !env S, secret_access_key: !env I}}",
        "signing_credentials: {K: {preset: aws, scopes: [s3.example], access_key_id: !env I, secret_access_key: !command [s]}}",
        "signing_credentials: {K: {type: aws-sigv4, scopes: [s3.example], access_key_id: !env I, secret_access_key: !env S, session_token: !env N}}",
    ],
    &[
        "",
        "logins: {claude: {}}",
        "logins: {codex: {}}",
        "logins: {claude: {}, codex: {}}",
        "logins: {claude: {file: /a}}",
        "logins: {claude: {file: /b}}",
        "logins: {claude: {token_url: 'https://a.example/'}}",
        "logins: {claude: {scopes: [a.example]}}",
    ],
    &[
        "",
        "ssh: {scope: s, unlock: keyring}",
        "ssh: {scope: r, unlock: keyring}",
        "ssh: {scope: s, unlock: keyring, sign_all: true}",
        "ssh: {scope: s, unlock: {command: [a]}}",
        "ssh: {scope: s, unlock: {passphrase: !env A}}",
    ],
    &["", "network_sandbox: false"],
    &[
        "",
        "upstream: {dns: 192.0.2.1}",
        "upstream: {dns: '192.0.2.1:54'}",
        "upstream: {allow_addresses: [10.0.0.0/8]}",
        "upstream: {allow_addresses: [10.0.0.0/9]}",
        "upstream: {allow_addresses: [10.0.0.0/8, 192.0.2.7]}",
        "upstream: {extra_roots: a}",
        "upstream: {extra_roots: b}",
    ],
    &[
        "",
        "services: {db: {tcp: '127.0.0.1:5432'}}",
        "services: {db: {tcp: '127.0.0.1:5433', port: 5432}}",
        "services: {db: {tcp: '127.0.0.1:5432', port: 5433}}",
        "services: {db: {tcp: '127.0.0.1:5432', http: true}}",
        "services: {pg: {tcp: '127.0.0.1:5432'}}",
        "services: {db: {unix: /a, port: 5432}}",
        "services: {db: {unix: '/a`', port: 5432}}",
    ],
    &["", "gate: [a]", "gate: [b]", "gate: [a, b]"],
    &[
        "",
        "resource_limits: {memory: 512m}",
        "resource_limits: {memory: 2g}",
        "resource_limits: {memory: 3g}",
        "resource_limits: {cpus: 1}",
        "resource_limits: {cpus: 2}",
        "resource_limits: {pids_limit: 9}",
        "resource_limits: {disk: 9g}",
        "resource_limits: {timeout: 5m}",
        "resource_limits: {timeout: 20m}",
        "resource_limits: {disk: 9g, pids_limit: 9}",
    ],
    &[
        "",
        "mounts: ['/a:/x']",
        "mounts: ['/a:/x:ro']",
        "mounts: ['/b:/x']",
        "mounts: ['/a:/y']",
        "mounts: ['/a:/x', '/b:/y']",
        "mounts: ['/b:/x', '/a:/y']",
        "mounts: ['/a` of the host, at `/x:/x']",
        "mounts: ['in:/x']",
    ],
    &["", "workspace: direct", "workspace: copy", "workspace: auto"],
    &["", "protect_workspace: false"],
    &[
        "",
        "protected_paths: [a]",
        "protected_paths: [b]",
        "protected_paths: [a, b]",
        "protected_paths: ['a`, `b']",
    ],
];

fn text(choice: &[prop::sample::Index]) -> (Vec<usize>, BTreeSet<String>) {
    let chosen: Vec<usize> = choice.iter().zip(KEYS).map(|(at, key)| at.index(key.len())).collect();
    (chosen.clone(), lines(&chosen))
}

fn lines(chosen: &[usize]) -> BTreeSet<String> {
    let yaml: Vec<&str> =
        chosen.iter().zip(KEYS).map(|(at, key)| key[*at]).filter(|key| !key.is_empty()).collect();
    rights(&yaml.join("\n")).lines().clone()
}

#[test]
fn each_variant_of_a_key_has_its_own_text() {
    for (at, key) in KEYS.iter().enumerate() {
        let of = |way: usize| {
            let mut chosen = vec![0; KEYS.len()];
            chosen[at] = way;
            lines(&chosen)
        };
        let texts: BTreeSet<_> = (0..key.len()).map(of).collect();
        assert_eq!(texts.len(), key.len(), "{key:#?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn configurations_with_different_rights_have_different_texts(
        one in prop::collection::vec(any::<prop::sample::Index>(), KEYS.len()),
        other in prop::collection::vec(any::<prop::sample::Index>(), KEYS.len()),
        at in 0..KEYS.len(),
    ) {
        let mut near = one.clone();
        near[at] = other[at];
        let (one, text_of_one) = text(&one);
        for other in [&other, &near] {
            let (other, text) = text(other);
            prop_assert!(one == other || text_of_one != text, "{one:?} {other:?}: {text:#?}");
        }
    }
}

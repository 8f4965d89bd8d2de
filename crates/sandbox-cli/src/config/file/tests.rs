//! What `sandbox.yaml` may say, and what is said about what it may not.

use super::*;
use crate::config::Environment;
use crate::config::WorkspaceMode;
use located_yaml::{Location, Position};

fn parse(text: &str) -> Result<ConfigFile, String> {
    ConfigFile::parse(text, "sandbox.yaml", Path::new("/project/.sandbox")).map_err(|error| error.to_string())
}

fn at(line: usize, column: usize) -> Location {
    Location::new("sandbox.yaml", Position { line, column })
}

#[test]
fn everything_at_once() {
    let file = parse(
        r#"
engine: unix:///run/podman/podman.sock
prefix: mine
dockerfile: Dockerfile
context: ../context
env: {CI: "true", EMPTY: "", FROM: !env ELSEWHERE}
pass_env: [TERM, LANG]
network_sandbox: true
upstream:
  dns: 192.0.2.1
  extra_roots: corporate-ca.pem
  allow_addresses: [10.20.0.0/16, 192.0.2.7]
resource_limits: {memory: 4g, cpus: 1.5, pids_limit: 256, disk: 10g, timeout: 600}
mounts: ["../data:/data:ro", "/abs:/abs"]
workspace: copy
protect_workspace: false
protected_paths: [ci/deploy.sh, .bazelrc]
build: {allowlist: policy.yaml}
"#,
    )
    .unwrap();
    let expected = ConfigFile {
        engine: Some(EngineAddress::unix("/run/podman/podman.sock")),
        prefix: Some("mine".to_owned()),
        image: None,
        dockerfile: Some("/project/.sandbox/Dockerfile".into()),
        context: Some("/project/.sandbox/../context".into()),
        build: Some(BuildFile::Allowlist("/project/.sandbox/policy.yaml".into())),
        env: [
            ("CI", Setting::literal("true", at(6, 11))),
            ("EMPTY", Setting::literal("", at(6, 26))),
            ("FROM", Setting::variable("ELSEWHERE", at(6, 36))),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into(),
        pass_env: [("TERM".to_owned(), at(7, 12)), ("LANG".to_owned(), at(7, 18))].into(),
        credentials: CredentialsFile::default(),
        network_sandbox: Some(true),
        upstream: UpstreamFile {
            dns: Some("192.0.2.1:53".parse().unwrap()),
            extra_roots: Some("/project/.sandbox/corporate-ca.pem".into()),
            allow_addresses: vec!["10.20.0.0/16".parse().unwrap(), "192.0.2.7/32".parse().unwrap()],
        },
        resource_limits: ResourceLimits {
            memory: Some(4 << 30),
            cpus: Some(1.5),
            pids: Some(256),
            disk: Some(10 << 30),
            timeout: Some(Duration::from_mins(10)),
        },
        mounts: vec![
            (
                Mount::read_only_at("/project/.sandbox/../data", "/data"),
                at(14, 10),
            ),
            (Mount::read_write("/abs", "/abs"), at(14, 30)),
        ],
        workspace: WorkspaceFile {
            mode: Some(WorkspaceMode::Copy),
            protect: Some(false),
            protected_paths: vec!["ci/deploy.sh".to_owned(), ".bazelrc".to_owned()],
        },
    };
    assert_eq!(file, expected);
}

#[test]
fn an_empty_file_says_nothing() {
    for text in ["", "# nothing\n", "---\n", "{}", "\u{feff}"] {
        assert_eq!(parse(text), Ok(ConfigFile::default()), "{text:?}");
    }
}

/// Documents, and how their errors begin.
const FAULTS: &[(&str, &str)] = &[
    (
        "imge: x",
        "sandbox.yaml:1:1: unknown key `imge`: use `engine`, `prefix`, `image`, `dockerfile`, `context`, `build`, `env`, `pass_env`, `masked_secrets`, `signing_credentials`, `network_sandbox`, `upstream`, `resource_limits`, `mounts`, `workspace`, `protect_workspace` or `protected_paths`",
    ),
    (
        "image: a\nimage: b",
        "sandbox.yaml:2:1: `image` is here a second time: merge the two",
    ),
    (
        "image:",
        "sandbox.yaml:1:1: `image` has no value: give it one or remove the key",
    ),
    (
        "workspace: copied",
        "sandbox.yaml:1:12: `workspace` is `auto`, `copy` or `direct`, not `copied`",
    ),
    (
        "protected_paths: [../x]",
        "sandbox.yaml:1:19: a path is relative to the work tree",
    ),
    (
        "image: 3",
        "sandbox.yaml:1:8: `image` is a text, not a number: put it in quotes",
    ),
    (
        "image: a\ndockerfile: b",
        "sandbox.yaml:2:13: `image` names an image that is there",
    ),
    (
        "context: b\nimage: a",
        "sandbox.yaml:2:8: `image` names an image that is there",
    ),
    (
        "build: {network: engine}",
        "sandbox.yaml:1:18: `network` is `host`, not `engine`",
    ),
    (
        "build: {network: host, allowlist: a}",
        "sandbox.yaml:1:24: `build` has more than one entry: keep one of them",
    ),
    (
        "build: {}",
        "sandbox.yaml:1:8: `build` is empty: give it one entry",
    ),
    ("- a", "sandbox.yaml:1:1: the document is a mapping, not a list"),
    ("text", "sandbox.yaml:1:1: the document is a mapping, not a text"),
    ("env: [A]", "sandbox.yaml:1:6: `env` is a mapping, not a list"),
    (
        "env:\n  CI: true",
        "sandbox.yaml:2:7: `CI` is a text or `!env NAME`, not true or false: put it in quotes",
    ),
    (
        "env:\n  CI: 1\n",
        "sandbox.yaml:2:7: `CI` is a text or `!env NAME`, not a number: put it in quotes",
    ),
    (
        "env:\n  A: x\n  A: y",
        "sandbox.yaml:3:3: `A` is here a second time: merge the two",
    ),
    (
        "env: {\"A=B\": x}",
        "sandbox.yaml:1:7: this is no name of a variable",
    ),
    (
        "env: {A: !evn B}",
        "sandbox.yaml:1:10: `!evn` means nothing here: use `!env NAME`",
    ),
    (
        "env:\n  A: !env\n  B: x",
        "sandbox.yaml:2:6: `!env` is followed by the name of a variable, as in `!env GH_TOKEN`",
    ),
    (
        "env: {A: !env [B]}",
        "sandbox.yaml:1:10: `!env` is followed by the name of a variable",
    ),
    (
        "env: {A: !env B=C}",
        "sandbox.yaml:1:10: `!env` is followed by the name of a variable",
    ),
    (
        "image: !env IMAGE",
        "sandbox.yaml:1:8: `image` is a text, not a tagged value: no tag belongs here",
    ),
    (
        "upstream: !env UP",
        "sandbox.yaml:1:11: `upstream` is a mapping, not a tagged value",
    ),
    (
        "!env A: b",
        "sandbox.yaml:1:1: a key is a text, not a tagged value",
    ),
    (
        "pass_env: TERM",
        "sandbox.yaml:1:11: `pass_env` is a list, not a text: write it as in [one, another]",
    ),
    (
        "pass_env: [TERM, 3]",
        "sandbox.yaml:1:18: an item of `pass_env` is a text, not a number: put it in quotes",
    ),
    (
        "network_sandbox: no",
        "sandbox.yaml:1:18: `network_sandbox` is true or false, not a text",
    ),
    (
        "network_sandbox: 'false'",
        "sandbox.yaml:1:18: `network_sandbox` is true or false, not a text",
    ),
    (
        "engine: tcp://127.0.0.1:1",
        "sandbox.yaml:1:9: `tcp://127.0.0.1:1` is no engine address; write unix://",
    ),
    (
        r#"engine: "unix:\e[2J""#,
        r"sandbox.yaml:1:9: `unix:\u{1b}[2J` is no engine address",
    ),
    (
        "upstream: {dns: here}",
        "sandbox.yaml:1:17: `dns` is an address such as 192.0.2.53 or 192.0.2.53:5353, not `here`",
    ),
    (
        "upstream: {dsn: here}",
        "sandbox.yaml:1:12: unknown key `dsn`: use `dns`, `extra_roots` or `allow_addresses`",
    ),
    (
        "upstream:\n  allow_addresses: [10.0.0.0/8, 10.0.0.0/99]",
        "sandbox.yaml:2:33: a network is written as in 10.20.0.0/16, not `10.0.0.0/99`",
    ),
    (
        "resource_limits: {memory: lots}",
        "sandbox.yaml:1:27: `memory` is a size such as 512m or 4g, not `lots`",
    ),
    (
        "resource_limits: {memory: 1.5}",
        "sandbox.yaml:1:27: `memory` is a size such as 512m or 4g, not a number with a fraction",
    ),
    (
        "resource_limits: {cpus: two}",
        "sandbox.yaml:1:25: `cpus` is a number, not a text",
    ),
    (
        "resource_limits: {disk: all}",
        "sandbox.yaml:1:25: `disk` is a size such as 512m or 4g, not `all`",
    ),
    (
        "resource_limits: {pids_limit: -1}",
        "sandbox.yaml:1:31: `pids_limit` is a whole number; this one is out of range",
    ),
    (
        "resource_limits: {timeout: 1.5}",
        "sandbox.yaml:1:28: `timeout` is a whole number, not a number with a fraction",
    ),
    (
        "resource_limits: {timeout: 99999999999999999999}",
        "sandbox.yaml:1:28: `timeout` is a whole number; this one is out of range",
    ),
    (
        "resource_limits: {timeout: 0}",
        "sandbox.yaml:1:28: `timeout` must be longer than 0 seconds",
    ),
    (
        "resource_limits: {timeout: 60, memory: 0}",
        "sandbox.yaml:1:40: `memory` must be at least 6m",
    ),
    (
        "resource_limits: {cpus: -1}",
        "sandbox.yaml:1:25: `cpus` must be between 0.01 and 1024",
    ),
    (
        "resource_limits: {cpus: .nan}",
        "sandbox.yaml:1:25: `cpus` must be between 0.01 and 1024",
    ),
    (
        "resource_limits: {pids_limit: 0}",
        "sandbox.yaml:1:31: `pids_limit` must be at least 1",
    ),
    (
        "resource_limits: {disk: 0}",
        "sandbox.yaml:1:25: `disk` must be at least 1m",
    ),
    (
        "prefix: A B",
        "sandbox.yaml:1:9: prefix `A B`: use 1 to 32 lower-case letters, digits and hyphens, a letter first",
    ),
    (
        "mounts: [\"/a\"]",
        "sandbox.yaml:1:10: `/a` is no mount; write SRC:DST or SRC:DST:ro with an absolute DST",
    ),
    (
        "mounts: /a:/b",
        "sandbox.yaml:1:9: `mounts` is a list, not a text: write it as in [one, another]",
    ),
    (
        "image: a\n---\nimage: b",
        "sandbox.yaml:2:1: a second document begins here",
    ),
    ("image: [", "sandbox.yaml:2:1: not valid YAML: "),
    ("\timage: a", "sandbox.yaml:1:1: not valid YAML: "),
];

#[test]
fn a_fault_has_its_place_and_its_fix() {
    let mut other = String::new();
    for (text, expected) in FAULTS {
        let error = parse(text).err().unwrap_or_else(|| "none".to_owned());
        if !error.starts_with(expected) {
            other += &format!("{text:?}:\n  got      {error}\n  expected {expected}\n");
        }
    }
    assert!(other.is_empty(), "{other}");
}

#[test]
fn a_file_that_is_not_there_is_none() {
    assert_eq!(
        ConfigFile::read(&Resolver::default(), Path::new("/no/such/sandbox.yaml"), "x")
            .unwrap()
            .map(|(file, ..)| file),
        None
    );
}

#[test]
fn what_is_not_set_is_told_with_its_place() {
    let file = parse("env:\n  A: x\n  B: !env NOT_SET\n").unwrap();
    let resolve = |name: &str| file.env[name].resolve(&Environment::default());
    assert_eq!(resolve("A").unwrap().expose(), "x");
    let error = resolve("B").unwrap_err().to_string();
    assert!(
        error.starts_with("sandbox.yaml:3:6: the variable `NOT_SET` is not set where `sandbox` runs: set it"),
        "{error}"
    );
}

#[test]
fn no_text_of_a_variable_or_secret_is_shown() {
    let file = parse(
        "env: {A: hunter2}\nmasked_secrets: {B: {value: hunter2, scopes: [a.example], headers: [X-Key]}}\n",
    );
    let shown = format!("{:?}", file.unwrap());
    assert!(
        shown.contains("a.example") && !shown.contains("hunter2"),
        "{shown}"
    );
}

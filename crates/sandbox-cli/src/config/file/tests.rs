//! Valid documents of `sandbox.yaml`, and the errors of invalid ones.

use std::time::Duration;

use sandbox::credentials::SecretValue;

use super::*;
use crate::config::Environment;
use located_yaml::{Location, Position};
use sandbox::ByteSize;
use sandbox::host_path::Resolver;

fn parse(text: &str) -> Result<ConfigFile, String> {
    ConfigFile::parse(text, "sandbox.yaml", Path::new("/project/.sandbox")).map_err(|error| error.to_string())
}

fn at(line: usize, column: usize) -> Location {
    Location::new("sandbox.yaml", Position { line, column })
}

#[test]
fn all_keys_at_once_are_parsed() {
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
services:
  db: {tcp: 127.0.0.1:5432}
  mcp: {unix: mcp.sock, port: 8080, http: true}
gate: [project]
agent: codex
"#,
    )
    .unwrap();
    let expected = ConfigFile {
        engine: Some(EngineAddress::unix("/run/podman/podman.sock")),
        prefix: Some("mine".to_owned()),
        dockerfile: Some(Spanned::new("/project/.sandbox/Dockerfile".into(), at(4, 13))),
        context: Some(Spanned::new("/project/.sandbox/../context".into(), at(5, 10))),
        build: Some(BuildFile::Allowlist("/project/.sandbox/policy.yaml".into())),
        agent: Some("codex".parse().unwrap()),
        env: [
            ("CI", Setting::literal(SecretValue::new("true"), at(6, 11))),
            ("EMPTY", Setting::literal(SecretValue::new(""), at(6, 26))),
            ("FROM", Setting::variable("ELSEWHERE", at(6, 36))),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into(),
        pass_env: [("TERM".to_owned(), at(7, 12)), ("LANG".to_owned(), at(7, 18))].into(),
        network_sandbox: Some(true),
        upstream: UpstreamFile {
            dns: Some("192.0.2.1:53".parse().unwrap()),
            extra_roots: Some(Spanned::new("/project/.sandbox/corporate-ca.pem".into(), at(11, 16))),
            allow_addresses: ["10.20.0.0/16", "192.0.2.7/32"]
                .map(|network| PrivateNetwork(network.parse().unwrap()))
                .into(),
        },
        resource_limits: ResourceLimits::default()
            .memory(ByteSize::gib(4))
            .cpus(Cpus::new(1.5).unwrap())
            .pids(256)
            .disk(ByteSize::gib(10))
            .timeout(Duration::from_mins(10)),
        mounts: vec![
            Spanned::new(Mount::read_only_at("/project/.sandbox/../data", "/data"), at(14, 10)),
            Spanned::new(Mount::read_write("/abs", "/abs"), at(14, 30)),
        ],
        host_services: vec![
            HostService::tcp("db", ([127, 0, 0, 1], 5432)).unwrap(),
            HostService::unix("mcp", "/project/.sandbox/mcp.sock", 8080).unwrap().http(),
        ],
        gate: vec![Spanned::new("project".to_owned(), at(22, 8))],
        workspace: Some(WorkspaceMode::Copy),
        protect_workspace: Some(false),
        protected_paths: ["ci/deploy.sh", ".bazelrc"].map(|path| ProtectedPath(path.to_owned())).into(),
        ..ConfigFile::default()
    };
    assert_eq!(file, expected);
}

#[test]
fn empty_file_is_the_default() {
    for text in ["", "# nothing\n", "---\n", "{}", "\u{feff}"] {
        assert_eq!(parse(text), Ok(ConfigFile::default()), "{text:?}");
    }
}

/// Documents with one error each.
const INVALID: &[&str] = &[
    "imge: x",
    "image: a\nimage: b",
    "image:",
    "workspace: copied",
    "protected_paths: [../x]",
    "image: 3",
    "image: a\ndockerfile: b",
    "context: b\nimage: a",
    "build: {network: engine}",
    "build: {network: host, allowlist: a}",
    "build: {}",
    "services: {db: {}}",
    "services: {db: {tcp: localhost}}",
    "services: {db: {tcp: 127.0.0.1:1, unix: /x}}",
    "services: {db: {unix: /x}}",
    "services: {DB: {tcp: 127.0.0.1:1}}",
    "services: {db: {tcp: 127.0.0.1:53}}",
    "services:\n  a: {tcp: 127.0.0.1:1}\n  b: {tcp: 127.0.0.1:1}",
    "- a",
    "text",
    "env: [A]",
    "env:\n  CI: true",
    "env:\n  CI: 1\n",
    "env:\n  A: x\n  A: y",
    "env: {\"A=B\": x}",
    "env: {A: !evn B}",
    "env:\n  A: !env\n  B: x",
    "env: {A: !env [B]}",
    "env: {A: !env B=C}",
    "image: !env IMAGE",
    "upstream: !env UP",
    "!env A: b",
    "pass_env: TERM",
    "pass_env: [TERM, 3]",
    "network_sandbox: no",
    "network_sandbox: 'false'",
    "engine: tcp://127.0.0.1:1",
    r#"engine: "unix:\e[2J""#,
    "upstream: {dns: here}",
    "upstream: {dsn: here}",
    "upstream:\n  allow_addresses: [10.0.0.0/8, 10.0.0.0/99]",
    "resource_limits: {memory: lots}",
    "resource_limits: {memory: 1.5}",
    "resource_limits: {cpus: two}",
    "resource_limits: {disk: all}",
    "resource_limits: {pids_limit: -1}",
    "resource_limits: {timeout: 1.5}",
    "resource_limits: {timeout: 99999999999999999999}",
    "resource_limits: {timeout: 0}",
    "resource_limits: {timeout: 60, memory: 0}",
    "resource_limits: {cpus: -1}",
    "resource_limits: {cpus: .nan}",
    "resource_limits: {pids_limit: 0}",
    "resource_limits: {disk: 0}",
    "prefix: A B",
    "mounts: [\"/a\"]",
    "mounts: /a:/b",
    "image: a\n---\nimage: b",
    "env: {A: \"a\\0b\"}",
    "image: [",
    "\timage: a",
];

#[test]
fn errors_name_their_place_and_fix() {
    let error = |text: &&str| format!("{text:?}\n  {}\n", parse(text).err().unwrap_or_default());
    insta::assert_snapshot!(INVALID.iter().map(error).collect::<String>());
}

#[test]
fn too_many_services_are_refused() {
    let parsed = |count: u16| {
        let service = |at: u16| format!("  s{at}: {{tcp: '127.0.0.1:{}'}}\n", 1000 + at);
        parse(&format!("services:\n{}", (0..count).map(service).collect::<String>()))
    };
    assert_eq!(parsed(256).unwrap().host_services.len(), 256);
    let error = parsed(5000).unwrap_err();
    assert_eq!(error, "sandbox.yaml:258:3: at most 256 services are allowed");
}

#[test]
fn missing_file_is_none() {
    assert_eq!(
        ConfigFile::read(&Resolver::default(), Path::new("/no/such/sandbox.yaml"), "x")
            .unwrap()
            .map(|(file, ..)| file),
        None
    );
}

#[test]
fn unset_variables_are_reported_with_their_place() {
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
    assert!(shown.contains("a.example") && !shown.contains("hunter2"), "{shown}");
}

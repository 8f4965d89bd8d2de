//! Secret values stored on the host: read when a trusted run starts, and again before they expire.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use e2e_tests::DEADLINE;
use e2e_tests::assert_held;
use e2e_tests::secret::unique;
use e2e_tests::world::{Lock, World};
use rustix::process::{Pid, Signal, kill_process};

use crate::command_line::project::{Ended, Project};

/// A folder of the user with a program that prints the content of `value` there and counts its
/// runs.
struct Keeper(tempfile::TempDir);

impl Keeper {
    fn new(value: &str) -> Self {
        let keeper = Self(tempfile::tempdir().expect("a folder"));
        keeper.set(value);
        let script = "#!/bin/sh\ncd \"$(dirname \"$0\")\" && echo run >> runs && cat value\n";
        fs::write(keeper.program(), script).expect("a file");
        fs::set_permissions(keeper.program(), fs::Permissions::from_mode(0o755)).expect("a file");
        keeper
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn program(&self) -> PathBuf {
        self.path("get")
    }

    fn set(&self, value: &str) {
        // Atomically, since it may be read at any time.
        fs::write(self.path("next"), format!("{value}\n")).expect("a file");
        fs::rename(self.path("next"), self.path("value")).expect("a file");
    }

    fn runs(&self) -> usize {
        fs::read_to_string(self.path("runs")).unwrap_or_default().lines().count()
    }
}

/// A project whose task has `TOKEN`, scoped to `host`, from `value`.
fn project(host: &str, value: &str) -> Project {
    let project = Project::new();
    project.append(
        ".sandbox/sandbox.yaml",
        &format!(
            "masked_secrets: {{TOKEN: {{value: {value}, scopes: [{host}], headers: [authorization]}}}}\n"
        ),
    );
    project.write(".sandbox/network-allowlist.yaml", &format!("domains: [{host}]\n"));
    project
}

fn command(program: &Path) -> String {
    format!("!command [{}]", program.display())
}

/// Waits until a request to `host` carried `value`.
async fn arrived(host: &str, value: &str) {
    let began = Instant::now();
    while !format!("{:?}", World::shared().seen(host)).contains(value) {
        assert!(began.elapsed() < DEADLINE, "the value does not arrive");
        // tidy: sleep: between two polls
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn running_task_continues_with_the_renewed_value() {
    let (first, second) = (unique("ghp_", 36), unique("ghp_", 36));
    let (host, keeper) = ("kept-ttl.test", Keeper::new(&first));
    let project = project(host, &format!("{}, ttl: 5s", command(&keeper.program())));
    let (mut child, stdout) = project.start(
        "echo ready; while sleep 0.2; do curl -sS -o /dev/null -H \"Authorization: Bearer $TOKEN\" https://kept-ttl.test/; done",
    );
    arrived(host, &first).await;
    keeper.set(&second);
    arrived(host, &second).await;
    kill_process(Pid::from_child(&child), Signal::TERM).expect("our own child");
    assert_eq!(child.wait().expect("our own child").code(), Some(143));
    drop(stdout);
    let log = project.output(&["logs"]);
    assert!(log.stdout.contains("\nPOLICY credentials renewed -> up\n"), "{log:?}");
    assert_held!(!log.stdout.contains(&first) && !log.stdout.contains(&second), "{log:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_value_without_ttl_is_read_again() {
    let (first, second) = (unique("ghp_", 36), unique("ghp_", 36));
    let (host, keeper) = ("kept-401.test", Keeper::new(&first));
    World::shared().lock(host, Lock::Bearer(second.clone()));
    let project = project(host, &command(&keeper.program()));
    // Makes up to `count` attempts and prints the status of each.
    let attempts = |count: u32| {
        format!(
            "echo ready; until [ -e go ]; do sleep 0.1; done; for attempt in $(seq {count}); do
code=$(curl -sS -o /dev/null -w '%{{http_code}}' -H \"Authorization: Bearer $TOKEN\" https://kept-401.test/)
echo $code; [ $code = 200 ] && exit 0; sleep 0.2; done; exit 9"
        )
    };
    let (mut child, mut stdout) = project.start(&attempts(300));
    keeper.set(&second);
    project.write("go", "");
    let mut codes = String::new();
    stdout.read_to_string(&mut codes).expect("output");
    assert_eq!(child.wait().expect("our own child").code(), Some(0), "{codes}");
    assert!(codes.starts_with("401\n"), "{codes}");
    assert_eq!(keeper.runs(), 2, "when the run started, and when it was refused");
    // The control: an unchanged value is refused again, and not read after every refusal.
    keeper.set(&first);
    let refused = project.run(&attempts(5));
    assert_eq!((refused.code, keeper.runs()), (Some(9), 4), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn untrusted_value_source_is_neither_run_nor_read() {
    let keeper = Keeper::new(&unique("ghp_", 36));
    let project = project("kept-trust.test", &command(&keeper.program()));
    for arguments in [&["run", "--", "true"][..], &["agent", "hello"]] {
        let refused: Ended = project.wary(arguments).output().expect("the sandbox command").into();
        let asked = format!("+ run `{}` on the host, for the secret `TOKEN`", keeper.program().display());
        refused.fails(125, &asked);
    }
    for arguments in [&["config", "check"][..], &["doctor"], &["trust", "--show"]] {
        drop::<Ended>(project.wary(arguments).output().expect("the sandbox command").into());
    }
    assert_held!(keeper.runs() == 0, "it ran {} times", keeper.runs());
    // The control: once trusted, it is executed once per run.
    let ran = project.run("true");
    assert_eq!((ran.code, keeper.runs()), (Some(0), 1), "{ran:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn value_source_writable_by_tasks_is_refused_even_if_trusted() {
    let host = "kept-planted.test";
    let planted = |value: &str| {
        let project = project(host, value);
        project.write("planted", "ghp_0123456789abcdefghijklmnopqrstuvwxyz\n");
        let refused = project.run("true");
        refused.fails(125, "is where tasks can write");
    };
    planted("!file ../planted");
    let keeper = Keeper::new("unused");
    fs::remove_file(keeper.program()).expect("a file");
    let within = project(host, "x");
    within.write("get", "#!/bin/sh\ntouch \"$0.ran\"; echo ghp_0123456789abcdefghijklmnopqrstuvwxyz\n");
    let script = within.path().join("get");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("a file");
    for value in [command(&script), format!("!command [sh, {}]", script.display())] {
        let text = fs::read_to_string(within.path().join(".sandbox/sandbox.yaml")).expect("a file");
        let (before, _) = text.split_once("masked_secrets").expect("the written settings");
        let entry = format!("TOKEN: {{value: {value}, scopes: [{host}], headers: [authorization]}}");
        within.write(".sandbox/sandbox.yaml", &format!("{before}masked_secrets: {{{entry}}}\n"));
        let refused = within.run("true");
        assert_held!(!within.path().join("get.ran").exists(), "{value} ran");
        refused.fails(125, "is where tasks can write");
    }
    // The control: the same script elsewhere.
    fs::copy(&script, keeper.program()).expect("a file");
    let ran = project(host, &command(&keeper.program())).run("true");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(keeper.path("get.ran").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn file_is_read_and_a_failing_program_is_reported() {
    let (host, value) = ("kept-file.test", unique("ghp_", 36));
    let keeper = Keeper::new(&value);
    let script =
        format!("curl -sS -H \"Authorization: Bearer $TOKEN\" https://{host}/ >/dev/null; echo $TOKEN");
    let ran = project(host, &format!("!file {}", keeper.path("value").display())).run(&script);
    assert_held!(!ran.stdout.contains(&value), "{ran:?}");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(format!("{:?}", World::shared().seen(host)).contains(&value));

    fs::write(
        keeper.program(),
        "#!/bin/sh\ncat \"$(dirname \"$0\")/value\"; echo you are signed out >&2; exit 7\n",
    )
    .expect("a file");
    let failed = project(host, &command(&keeper.program())).run("true");
    failed.fails(125, "failed with exit status: 7: you are signed out");
    assert_held!(!failed.stderr.contains(&value), "{failed:?}");
}

/// The API of a forge with an App, on the loopback of this machine. `host` accepts the token that
/// was issued last.
fn forge(host: &'static str, tokens: Vec<String>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let api = format!("http://{}", listener.local_addr().expect("a bound listener"));
    std::thread::spawn(move || {
        for (token, stream) in tokens.into_iter().zip(listener.incoming()) {
            let mut stream = stream.expect("a connection");
            let mut request = Vec::new();
            let mut byte = [0];
            while !request.ends_with(b"]}") && stream.read(&mut byte).expect("a request") == 1 {
                request.extend(byte);
            }
            let request = String::from_utf8(request).expect("a request in text");
            assert!(request.starts_with("POST /app/installations/5/access_tokens "), "{request}");
            assert!(request.ends_with(r#"{"repositories":["tool"]}"#), "{request}");
            World::shared().lock(host, Lock::Bearer(token.clone()));
            let body = format!(r#"{{"token":"{token}"}}"#);
            let head = format!("HTTP/1.1 201 Created\r\ncontent-length: {}\r\n\r\n", body.len());
            stream.write_all((head + &body).as_bytes()).expect("a reader");
        }
    });
    api
}

#[tokio::test(flavor = "multi_thread")]
async fn github_app_mints_tokens_and_its_key_stays_on_the_host() {
    let key = include_str!("../../../../crates/logins/src/github_app/test-key.pem");
    let (first, second) = (unique("ghs_", 36), unique("ghs_", 36));
    let (host, keeper) = ("kept-app.test", Keeper::new(key));
    let api = forge(host, vec![first.clone(), second.clone()]);
    let value = |key: &Path| {
        let key = key.display();
        format!(
            "!github_app {{app: 7, installation: 5, key: {key}, repositories: [tool], api: '{api}'}}, ttl: 5s"
        )
    };
    let project = project(host, &value(&keeper.path("value")));
    let (mut child, stdout) = project.start(
        "printenv TOKEN > seen; echo ready; while sleep 0.2; do curl -sS -o /dev/null -H \"Authorization: Bearer $TOKEN\" https://kept-app.test/; done",
    );
    arrived(host, &first).await;
    arrived(host, &second).await;
    kill_process(Pid::from_child(&child), Signal::TERM).expect("our own child");
    assert_eq!(child.wait().expect("our own child").code(), Some(143));
    drop(stdout);
    let seen = fs::read_to_string(project.path().join("seen")).expect("what the task saw");
    assert!(seen.starts_with("ghs_") && ![first, second].contains(&seen.trim_end().to_owned()), "{seen}");
    // A key that tasks can write is refused, and an invalid key is reported.
    project.write("app.pem", key);
    let refused = |key: &Path, expected: &str| {
        let entry = format!("TOKEN: {{value: {}, scopes: [{host}], headers: [authorization]}}", value(key));
        let text = fs::read_to_string(project.path().join(".sandbox/sandbox.yaml")).expect("a file");
        let (before, _) = text.split_once("masked_secrets").expect("the written settings");
        project.write(".sandbox/sandbox.yaml", &format!("{before}masked_secrets: {{{entry}}}\n"));
        project.run("true").fails(125, expected);
    };
    refused(&project.path().join("app.pem"), "is where tasks can write");
    keeper.set("none");
    refused(&keeper.path("value"), "is not an RSA private key");
}

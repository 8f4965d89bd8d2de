//! `exec --run`: a command next to the program of a run.

use std::io::{Read as _, Write as _};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use e2e_tests::DEADLINE;
use rustix::process::{Pid, Signal, kill_process};

use super::project::{Ended, Project};
use super::terminal::{Terminal, wait_until_nothing_left};

/// Prints the properties that a process has from the kernel and the engine.
const FACTS: &str = "grep -E '^(Uid|Gid|Groups|Cap|NoNewPrivs|Seccomp)' /proc/self/status; cat /proc/self/limits /proc/self/cgroup; \
                     cat /proc/self/attr/current 2>&1; cat /proc/self/oom_score_adj; pwd; umask; readlink /proc/self/ns/*; \
                     env | grep -vE '^(_|SHLVL|OLDPWD)=' | sort";

/// Starts a background run; returns its id.
fn background(project: &Project, script: &str) -> String {
    let ended = project.output(&["run", "-d", "--", "bash", "-c", script]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended.stdout.trim().to_owned()
}

fn in_run(project: &Project, run: &str, script: &str) -> Ended {
    project.output(&["exec", "--run", run, "--", "bash", "-c", script])
}

fn stop(project: &Project, run: &str) {
    assert_eq!(project.output(&["stop", run]).code, Some(0));
}

fn spawn(project: &Project, arguments: &[&str]) -> Child {
    let mut command = project.sandbox(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a program")
}

fn reads(child: &mut Child, expected: &str) {
    let mut bytes = vec![0; expected.len()];
    child.stdout.as_mut().expect("a pipe").read_exact(&mut bytes).expect("output");
    assert_eq!(String::from_utf8_lossy(&bytes), expected);
}

/// Waits for a file that a command creates in the project.
fn wait_for_file(project: &Project, name: &str) {
    let deadline = Instant::now() + DEADLINE;
    while !project.path().join(name).exists() {
        assert!(Instant::now() < deadline, "no {name}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("our own child");
}

#[tokio::test(flavor = "multi_thread")]
async fn command_in_a_run_is_confined_like_its_program() {
    let project = Project::new();
    project.append(
        ".sandbox/sandbox.yaml",
        "env: {GIVEN: x}\nresource_limits: {memory: 512m, pids_limit: 300}\nmasked_secrets: {KEY: {value: real-value-of-the-key, scopes: [open.test], headers: [Authorization]}}\n",
    );
    let script = format!("({FACTS}) > facts; touch ready; exec sleep 1000");
    let run = background(&project, &script);
    let first = || std::fs::read_to_string(project.path().join("facts")).unwrap_or_default();
    wait_for_file(&project, "ready");
    let facts = in_run(&project, &run, FACTS);
    assert_eq!(facts.code, Some(0), "{facts:?}");
    assert_eq!(facts.stdout, first());
    assert!(facts.stdout.contains("GIVEN=x") && facts.stdout.contains("\nKEY="), "{facts:?}");
    assert!(!facts.stdout.contains("real-value-of-the-key"), "{facts:?}");
    // It has the run's network.
    let reached = in_run(&project, &run, "curl -s https://open.test/; curl -s https://closed.test/");
    assert!(
        reached.stdout.contains("hello from open.test")
            && reached.stdout.contains("closed.test is not allowed"),
        "{reached:?}"
    );
    // The control: another container differs.
    let control = project.output(&["exec", "--workspace", "none", "--", "bash", "-c", FACTS]);
    assert!(control.code == Some(0) && control.stdout != first(), "{control:?}");
    // A quarantine of the run applies to the command.
    assert_eq!(project.output(&["policy", "quarantine", &run]).code, Some(0));
    let reached = in_run(&project, &run, "curl -s -m 5 https://open.test/ || echo refused");
    assert!(!reached.stdout.contains("hello from open.test"), "{reached:?}");
    stop(&project, &run);
    // The owner may still be about to end.
    let deadline = Instant::now() + DEADLINE;
    let ended = loop {
        let ended = in_run(&project, &run, "true");
        if ended.stderr.contains("unknown run") || Instant::now() > deadline {
            break ended;
        }
    };
    ended.fails(125, "unknown run");
}

#[tokio::test(flavor = "multi_thread")]
async fn command_in_a_run_passes_streams_and_codes_and_ends_on_signals() {
    let prefix = "e2e-cli-exec-run";
    let project = Project::with_prefix(prefix);
    let run = background(&project, "exec sleep 1000");
    let ended = in_run(&project, &run, "printf '\\001\\377\\n'; echo err >&2; exit 42");
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(42), "err\n"), "{ended:?}");
    let missing = project.output(&["exec", "--run", &run, "--", "no-such-program"]);
    missing.fails(127, "no-such-program");
    // The runtime reports `not permitted` or `permission denied`.
    project.output(&["exec", "--run", &run, "--", "/etc/passwd"]).fails(126, "ermi");

    // Input larger than any buffer arrives completely.
    let mut child = spawn(&project, &["exec", "--run", &run, "--", "sha256sum"]);
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(&vec![b'x'; 3_000_000]).expect("a reader");
    drop(stdin);
    let ended: Ended = child.wait_with_output().expect("an end").into();
    assert_eq!(
        (ended.code, ended.stdout.split(' ').next()),
        (Some(0), Some("e55b8bdf621ddaa8f462c74745db9680d3bb7536a9cf854f8d6668b34a287890"))
    );

    // A signal ends a command that reads nothing, and its children, even in another session.
    let mut child = spawn(
        &project,
        &["exec", "--run", &run, "--", "bash", "-c", "setsid sleep 999 & echo up; sleep 998; true"],
    );
    reads(&mut child, "up\n");
    let mut stdin = child.stdin.take().expect("a pipe");
    std::thread::spawn(move || while stdin.write_all(&[b'x'; 4096]).is_ok() {});
    signal(&child, Signal::TERM);
    assert_eq!(child.wait().expect("an end").code(), Some(143));
    let left = in_run(&project, &run, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '");
    assert!(left.stdout.contains("sleep 1000") && !left.stdout.contains("sleep 99"), "{left:?}");

    // So does the death of the client.
    let mut child = spawn(
        &project,
        &[
            "exec",
            "--run",
            &run,
            "--",
            "bash",
            "-c",
            "trap 'touch /workspace/ended; exit' TERM; echo up; while :; do sleep 0.1; done",
        ],
    );
    reads(&mut child, "up\n");
    child.kill().expect("our own child");
    child.wait().expect("an end");
    wait_for_file(&project, "ended");

    // It ends with the run.
    let mut child = spawn(&project, &["exec", "--run", &run, "--", "bash", "-c", "echo up; exec sleep 997"]);
    reads(&mut child, "up\n");
    stop(&project, &run);
    let ended: Ended = child.wait_with_output().expect("an end").into();
    assert_eq!(ended.code, Some(137), "{ended:?}");
    wait_until_nothing_left(prefix).await;
    project.output(&["exec", "--run", &run, "--timeout", "3", "--", "true"]).fails(2, "--timeout");
    project.output(&["exec", "-t", "--", "true"]).fails(2, "--run");
}

#[tokio::test(flavor = "multi_thread")]
async fn command_in_a_run_has_a_terminal() {
    let project = Project::new();
    let run = background(&project, "exec sleep 1000");
    project
        .output(&["exec", "--run", &run, "-t", "--", "true"])
        .fails(2, "stdin and stdout must be a terminal");
    let shell = ["exec", "--run", &run, "-t", "--", "env", "PS1=$ ", "bash", "--norc", "--noediting"];
    let mut terminal = Terminal::start(&project.sandbox(&shell));
    terminal.shows("$ ");
    terminal.types("stty size; tty; echo $TERM\n");
    terminal.shows("30 100");
    terminal.shows("/dev/pts/");
    terminal.shows("xterm-256color");
    terminal.resize(123, 45);
    terminal.types_until("stty size\n", "45 123");
    terminal.types("sh -c 'echo begun-$((1 + 1)); exec sleep 1000'\n");
    terminal.shows("begun-2");
    terminal.types("\x03");
    terminal.shows("^C");
    terminal.shows("$ ");
    // The engine's detach keys reach the program.
    terminal.types("\x10\x11\x15");
    terminal.types("echo still-$((1 + 1))\n");
    terminal.shows("still-2");
    terminal.types("exit 7\n");
    assert_eq!(terminal.ends(), Some(7));
    // Closing the terminal ends it.
    let mut terminal = Terminal::start(&project.sandbox(&shell));
    terminal.shows("$ ");
    // Its echo does not show that it runs yet.
    terminal.types("sh -c 'echo begun-$((1 + 2)); exec sleep 996'\n");
    terminal.shows("begun-3");
    terminal.signal(Signal::HUP);
    assert_eq!(terminal.ends(), Some(129));
    let left = in_run(&project, &run, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '");
    assert!(!left.stdout.contains("sleep 996") && !left.stdout.contains("norc"), "{left:?}");
    stop(&project, &run);
}

//! The worst possible panics, whose messages contain real values, of programs built to raise them.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

use super::run::{MASKED, Run, SCRIPT};
use crate::command_line::project::{Project, assert_nothing_left};

/// Makes the proxy panic with everything that it sends upstream, and continues as before.
const PANIC: &str = r#"
curl -sS -H "Authorization: Bearer $TOKEN" -H "x-forced-panic: $HOW" https://search.test/ && exit 1
"#;

fn start(prefix: &'static str, script: &str) -> Run {
    let project = Project::with_prefix(prefix);
    Run::start_in(project, prefix, MASKED, script)
}

fn start_with_panic(prefix: &'static str, how: &str) -> Run {
    start(prefix, &format!("HOW={how}{PANIC}{SCRIPT}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn panicking_proxy_reveals_no_value_and_keeps_serving() {
    let mut run = start_with_panic("e2e-search-panic", "now");
    let places = run.search().await;
    run.assert_nothing_found();
    run.assert_used(&places);
    run.end(&places).await;
    run.assert_nothing_found();
    let stderr = run.stderr();
    for said in
        ["egress proxy: thread", "panicked at crates/proxy/src/forced_panic.rs", "the message is withheld"]
    {
        assert!(stderr.contains(said), "{stderr}");
    }
    let log = fs::read_to_string(run.project.path().join("net.log")).expect("a log");
    let panics: Vec<&str> = log.lines().filter(|line| line.contains("the proxy panicked")).collect();
    assert!(matches!(panics[..], [line] if line.contains("https://search.test/")), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn control_proxy_panic_with_the_default_hook_reveals_values() {
    let mut run = start_with_panic("e2e-search-panic-control", "usual");
    let places = run.search().await;
    run.end(&places).await;
    assert_found_on_stderr(&run);
}

#[tokio::test(flavor = "multi_thread")]
async fn panicking_command_reveals_no_value_and_exits_with_the_sandbox_code() {
    let mut run = start("e2e-search-cli", SCRIPT);
    let places = run.search().await;
    panic(&mut run, Signal::USR1);
    let stderr = run.stderr();
    for said in [
        "thread 'main' panicked at crates/sandbox-cli/src/forced_panic.rs",
        "the message is withheld",
        "stack backtrace:",
        "the sandbox panicked; this is a bug",
    ] {
        assert!(stderr.contains(said), "{stderr}");
    }
    run.search_host(&places).await;
    run.assert_nothing_found();
    // The next run removes its leftovers.
    let cleaned = run.project.output(&["clean"]);
    assert_eq!(cleaned.code, Some(0), "{cleaned:?}");
    assert_nothing_left(run.prefix).await;
    run.search_host(&places).await;
    run.assert_nothing_found();
}

#[tokio::test(flavor = "multi_thread")]
async fn control_command_panic_with_the_default_hook_reveals_values() {
    let mut run = start("e2e-search-cli-control", SCRIPT);
    let places = run.search().await;
    run.assert_nothing_found();
    panic(&mut run, Signal::USR2);
    run.search_host(&places).await;
    assert_found_on_stderr(&run);
    let cleaned = run.project.output(&["clean"]);
    assert_eq!(cleaned.code, Some(0), "{cleaned:?}");
}

fn panic(run: &mut Run, signal: Signal) {
    kill_process(Pid::from_child(&run.child), signal).expect("our own child");
    assert_eq!(run.await_end(), Some(125), "{}", run.stderr());
}

/// Stderr is stored in a file in the project's folder, a temporary one that the container sees too.
#[track_caller]
fn assert_found_on_stderr(run: &Run) {
    let found: Vec<&str> = run.needles.found().keys().copied().collect();
    let (seen, rest): (Vec<_>, Vec<_>) = found.into_iter().partition(|place| *place == "file system");
    assert!(seen.len() <= 1, "{seen:?}");
    assert_eq!(rest, ["folders", "output", "temporary files"], "{:#?}", run.needles.found());
}

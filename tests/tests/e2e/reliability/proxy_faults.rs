//! A proxy reports its errors in the sandbox's log, with the task's name.

use crate::command_line::project::{Ended, Project};

/// The result of a run with a proxy built for fault injection.
fn run(script: &str) -> Ended {
    Project::with_prefix("e2e-proxy-faults").run(script)
}

#[track_caller]
fn assert_logged(ended: &Ended, level: &str, message: &str) {
    let parts = [level, message, "egress proxy: ", "execution="];
    let is_logged = |line: &str| parts.iter().all(|part| line.contains(part));
    assert!(ended.stderr.lines().any(is_logged), "`{message}` is missing: {ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_failing_to_mint_a_leaf_logs_an_error() {
    let ended = run("curl -sS https://no-leaf.open.test/; curl -sS https://open.test/");
    assert_logged(&ended, "WARN", "failed to mint a leaf certificate");
    assert_logged(&ended, "WARN", "host=no-leaf.open.test");
    assert_eq!(ended.stdout, "hello from open.test\n", "other names are served: {ended:?}");
    // The control: without an injected fault.
    let quiet = run("curl -sS https://open.test/");
    assert_eq!((&*quiet.stdout, &*quiet.stderr), ("hello from open.test\n", ""));
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_losing_a_listener_logs_an_error() {
    let ended = run(
        "curl -sS https://open.test/; curl -sS https://no-listener.open.test/; curl -sS https://open.test/",
    );
    assert_eq!(ended.stdout, "hello from open.test\n", "nothing passes after it: {ended:?}");
    assert_logged(&ended, "ERROR", "a listener ended");
    assert_logged(&ended, "WARN", "panicked at crates/proxy/src/forced_panic.rs");
}

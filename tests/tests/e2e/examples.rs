//! The examples of the reusable crates, run as by a user of the library.

use std::process::Command;

use e2e_tests::setting::Setting;

fn run(example: &str, arguments: &[&str]) -> String {
    let program = Setting::of_this_run().examples.join(example);
    let output = Command::new(&program).args(arguments).output().expect("the example was built");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{example}: {stderr}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn policy_decides() {
    assert!(!run("check_url", &[]).is_empty());
}

#[test]
fn recorded_stream_is_read() {
    assert!(!run("read_stream", &[]).is_empty());
}

#[test]
fn command_runs_in_a_sandbox() {
    let setting = Setting::of_this_run();
    let state = tempfile::tempdir().expect("a folder");
    let arguments = [
        setting.engine.as_str(),
        state.path().to_str().expect("a plain path"),
        setting.proxy_dir.to_str().expect("a plain path"),
        &setting.image,
        "allowed.example",
        "curl",
        "-s",
        "https://blocked.example/",
    ];
    let printed = run("run_command", &arguments);
    assert!(printed.contains("exit code 0"), "{printed}");
    assert!(printed.contains("BLOCKED GET https://blocked.example/ -> 403 [reason: host]"), "{printed}");
}

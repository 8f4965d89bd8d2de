//! `verify`: the table, its JSON form, and the exit code.

use serde_json::Value;

use super::project::Project;

#[tokio::test(flavor = "multi_thread")]
async fn promises_are_told_one_by_one_and_hold() {
    let project = Project::new();
    let ended = project.output(&["verify", "--expect", "bash"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert!(
        ended.stdout.contains("holds   rights   capabilities"),
        "{}",
        ended.stdout
    );
    assert!(ended.stdout.contains("proxy_answers") && !ended.stdout.contains("BROKEN"));
    let ended = project.output(&["verify", "--isolation", "untrusted", "--output", "json"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    let report = ended.json();
    assert_eq!(
        (&report["version"], &report["ok"]),
        (&Value::from(1), &Value::from(true))
    );
    let checks = report["checks"].as_array().expect("checks");
    // The seed of them all.
    for id in [
        "user_is_sandbox",
        "user_not_root",
        "sudo_blocked",
        "etc_readonly",
        "usr_readonly",
        "timeout_enforced",
        "tmp_writable",
        "exit_code_preserved",
    ] {
        assert!(
            checks
                .iter()
                .any(|check| check["id"] == id && check["held"] == true),
            "{id}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_hold_is_told_with_its_mend_and_is_an_exit_code() {
    let project = Project::new();
    project.append(".sandbox/sandbox.yaml", "network_sandbox: false\n");
    let ended = project.output(&["verify", "--expect", "python"]);
    assert_eq!(ended.code, Some(1), "{}{}", ended.stdout, ended.stderr);
    for part in [
        "BROKEN  network  interfaces_bounded",
        "hint: run tasks with the network sandbox",
        "BROKEN  works    python_available",
        "the image has no python3",
    ] {
        assert!(ended.stdout.contains(part), "{part}: {}", ended.stdout);
    }
    let ended = project.output(&["verify", "--output", "json"]);
    assert_eq!(ended.code, Some(1));
    let report = ended.json();
    assert_eq!(report["ok"], false);
    let checks = report["checks"].as_array().expect("checks");
    assert!(
        checks
            .iter()
            .all(|check| check["held"].as_bool() == Some(check["mend"].is_null()))
    );
}

//! `verify`: the table, its JSON form, and the exit code.

use e2e_tests::setting::Setting;
use serde_json::Value;

use super::project::{PREFIX, Project, config};

/// Ids of checks that every sandbox has to report.
const REQUIRED: [&str; 10] = [
    "bash_available",
    "etc_readonly",
    "exit_code_preserved",
    "python_available",
    "sudo_blocked",
    "timeout_enforced",
    "tmp_writable",
    "user_is_sandbox",
    "user_not_root",
    "usr_readonly",
];

/// The ids of the required checks that hold.
fn held(report: &Value) -> Vec<&str> {
    let checks = report["checks"].as_array().expect("checks");
    let mut names: Vec<&str> = checks
        .iter()
        .filter(|check| check["held"] == true)
        .filter_map(|check| check["id"].as_str())
        .filter(|id| REQUIRED.contains(id))
        .collect();
    names.sort_unstable();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn guarantees_hold_and_are_listed_one_by_one() {
    let project = Project::new();
    let ended = project.output(&["verify", "--expect", "bash"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("holds   rights   capabilities"), "{}", ended.stdout);
    assert!(ended.stdout.contains("proxy_answers") && !ended.stdout.contains("BROKEN"));
}

#[tokio::test(flavor = "multi_thread")]
async fn untrusted_guarantees_hold_with_and_without_programs_in_the_image() {
    let project = Project::new();
    let clients = &Setting::of_this_run().clients_image;
    project.write(".sandbox/sandbox.yaml", &config(PREFIX, clients));
    let verify = ["verify", "--isolation", "untrusted", "--output", "json"];
    let expecting = [&verify[..], &["--expect", "bash", "--expect", "python"]].concat();
    let ended = project.output(&expecting);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    let report = ended.json();
    assert_eq!((&report["version"], &report["ok"]), (&Value::from(1), &Value::from(true)));
    assert_eq!(held(&report), REQUIRED);

    let empty = Project::new();
    let settings = config(PREFIX, "X").replace("image: X\n", "");
    empty.write(".sandbox/sandbox.yaml", &settings);
    empty.write(".sandbox/container/Dockerfile", "FROM scratch\nENV MADE_OF=nothing\n");
    let ended = empty.output(&verify);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    let of_programs = |id: &&str| !id.ends_with("_available");
    let expected: Vec<&str> = REQUIRED.into_iter().filter(of_programs).collect();
    assert_eq!(held(&ended.json()), expected);
    // The control: programs that the image lacks are reported.
    let ended = empty.output(&expecting);
    assert_eq!(ended.code, Some(1), "{}{}", ended.stdout, ended.stderr);
    assert_eq!(held(&ended.json()), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_guarantee_is_reported_with_a_hint_and_an_exit_code() {
    let project = Project::new();
    project.append(".sandbox/sandbox.yaml", "network_sandbox: false\n");
    let ended = project.output(&["verify", "--expect", "python"]);
    assert_eq!(ended.code, Some(1), "{}{}", ended.stdout, ended.stderr);
    for part in [
        "BROKEN  network  interfaces_bounded",
        "hint: keep the network sandbox on",
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
    assert!(checks.iter().all(|check| check["held"].as_bool() == Some(check["hint"].is_null())));
}

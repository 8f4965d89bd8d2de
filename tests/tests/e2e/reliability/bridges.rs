//! Bridges left by a killed service are reported, those of tasks are not.

use std::process::Command;

use e2e_tests::{engine, host};
use serde_json::Value;

use crate::command_line::project::Project;

/// Runs `ip` with `arguments` on the engine's host; returns whether it succeeded.
fn ip(arguments: &[&str]) -> bool {
    let arguments: Vec<String> = arguments.iter().map(|&word| word.to_owned()).collect();
    host::inside(move || Command::new("ip").args(arguments).output().expect("ip").status.success())
}

/// The findings of `doctor` about bridges: the verdict and the rest.
fn bridges(project: &Project) -> (String, String) {
    let report = project.output(&["doctor", "--output", "json"]).json();
    let checks = report.get("checks").and_then(Value::as_array).expect("a list");
    let of_bridges = |check: &&Value| check.get("name").is_some_and(|name| name == "bridges");
    let check = checks.iter().find(of_bridges);
    let check = check.unwrap_or_else(|| panic!("the engine's network can be seen: {report}"));
    let verdict = check.get("verdict").and_then(Value::as_str).unwrap_or_default();
    (verdict.to_owned(), check.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_reports_only_bridges_without_a_network() {
    let prefix = "e2e-bridges";
    let project = Project::with_prefix(prefix);
    let (mut task, _output) = project.start("echo ready; sleep 600");
    let mut used = Vec::new();
    for network in [engine::networks(prefix).await, engine::shared_networks(prefix).await].concat() {
        let facts = engine::json("GET", &format!("/networks/{network}/json"), None).await;
        let name = facts["network_interface"].as_str().unwrap_or_default().to_owned();
        assert!(name.starts_with("sbx") && name.len() == 15, "{facts}");
        assert!(ip(&["link", "show", &name]), "the control: {name} is there");
        used.push(name);
    }
    let beginning = used.first().and_then(|name| name.get(..7)).expect("a network");
    // The random suffix is hexadecimal.
    let (left, other) = (format!("{beginning}-of-test"), "sbx-of-test");
    for name in [&left, other] {
        // Leftovers of an earlier run of this test.
        ip(&["link", "delete", name]);
        assert!(ip(&["link", "add", name, "type", "bridge"]));
    }
    let (verdict, said) = bridges(&project);
    assert_eq!(verdict, "warn", "{said}");
    assert!(said.contains(&left) && said.contains("ip link delete"), "{said}");
    for name in used.iter().map(String::as_str).chain([other]) {
        assert!(!said.contains(name), "{name} is in use or not ours: {said}");
    }
    for name in [&left, other] {
        assert!(ip(&["link", "delete", name]));
    }
    let (_, said) = bridges(&project);
    assert!(!said.contains(&left), "{said}");
    task.kill().expect("our own child");
    task.wait().expect("our own child");
    project.output(&["clean"]);
}

//! `status`, `clean` and `doctor`.

use e2e_tests::engine;
use e2e_tests::setting::Setting;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::project::{Ended, Project, assert_nothing_left};

#[tokio::test(flavor = "multi_thread")]
async fn status_and_clean_distinguish_live_from_dead() {
    let prefix = "e2e-cli-status";
    let project = Project::with_prefix(prefix);
    let (mut living, _living_out) = project.start("echo ready; sleep 600");
    let (mut dead, _dead_out) = project.start("echo ready; sleep 600");
    dead.kill().expect("our own child");
    dead.wait().expect("our own child");

    let status = project.output(&["status", "--output", "json"]).json();
    let instances = status["instances"].as_array().expect("a list");
    let alive =
        |alive: bool| instances.iter().filter(move |instance| instance["alive"] == alive).collect::<Vec<_>>();
    assert_eq!(alive(true).len(), 1, "{status}");
    assert_eq!(alive(true)[0]["pid"], living.id());
    let left = alive(false)
        .iter()
        .flat_map(|instance| instance["objects"].as_array().cloned().unwrap_or_default())
        .count();
    assert!(left >= 3, "task, proxy and network are left: {status}");
    assert!(project.output(&["status"]).stdout.contains(&format!("pid {}", living.id())));

    let cleaned = project.output(&["clean"]);
    assert_eq!(cleaned.stdout.matches("removed container").count(), 2, "{cleaned:?}");
    let networks = |kind: &str| {
        cleaned.stdout.lines().filter(|line| line.contains("removed network") && line.contains(kind)).count()
    };
    assert_eq!(networks("-conv-"), 1, "{cleaned:?}");
    // On podman 4 each proxy has its own egress network.
    assert!(networks("") <= 2, "{cleaned:?}");
    assert!(living.try_wait().expect("our own child").is_none(), "the live run still runs");
    assert_eq!(engine::containers(prefix).await.len(), 2);
    assert_eq!(running(&project), "2", "task and proxy of the live run");
    let all = project.output(&["clean", "--all", "--yes"]);
    all.fails(125, "error: another run uses the images and state; they were not removed");

    kill_process(Pid::from_child(&living), Signal::TERM).expect("our own child");
    assert_eq!(living.wait().expect("our own child").code(), Some(143));
    let shared = engine::shared_networks(prefix).await;
    let cleaned = project.output(&["clean"]);
    let removed: Vec<_> =
        cleaned.stdout.lines().filter_map(|line| line.strip_prefix("removed network ")).collect();
    assert_eq!(removed, shared, "{cleaned:?}");
    assert_eq!(engine::shared_networks(prefix).await, [""; 0]);
    let all = project.output(&["clean"]);
    assert!(all.stdout.ends_with("no objects of ended runs\n"), "{all:?}");
    assert_nothing_left(prefix).await;
    let status = project.output(&["status"]).stdout;
    assert!(status.starts_with("Engine ") && status.ends_with("\nno objects on the engine\n"), "{status}");
    assert_eq!(running(&project), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn clean_all_removes_images_and_state_after_confirmation() {
    let project = Project::with_prefix("e2e-cli-clean");
    assert_eq!(project.wary(&["trust"]).output().expect("the command").status.code(), Some(0));
    let run =
        ["run", "--workspace", "copy", "--", "sh", "-c", "mkdir -p a/b; echo new > a/b/file; chmod 0 a"];
    let ended: Ended = project.wary(&run).output().expect("the command").into();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let state = project.state().join("sandbox");
    let images = || project.output(&["image", "list", "--output", "json"]).json()["images"].clone();
    assert_ne!(images(), Value::Array(Vec::new()), "the control: there are images");

    let asked = project.output(&["clean", "--all"]);
    asked.fails(2, "hint: pass --yes to remove them without confirmation");
    let path = project.path().canonicalize().expect("a folder");
    let expected = format!("unapplied changes of {}: ", path.display());
    assert!(asked.stderr.contains(&expected), "{asked:?}");
    let kept: Ended = project.wary(&["diff"]).output().expect("the command").into();
    assert_eq!((kept.code, kept.stdout.contains("a/")), (Some(0), true), "still trusted: {kept:?}");

    let removed = project.output(&["clean", "--all", "--yes"]);
    assert_eq!(removed.code, Some(0), "{removed:?}");
    assert!(removed.stdout.ends_with(&format!("removed {}\n", state.display())), "{removed:?}");
    assert!(!state.exists());
    let again: Ended = project.wary(&["run", "true"]).output().expect("the command").into();
    again.fails(125, "sandbox trust");
    assert_eq!(images(), Value::Array(Vec::new()));
}

/// The number of running containers in the output of `status`.
fn running(project: &Project) -> String {
    let status = project.output(&["status"]).stdout;
    let of_line = |line: &str| line.strip_prefix("Running Containers").map(str::trim).map(str::to_owned);
    status.lines().find_map(of_line).unwrap_or_else(|| panic!("{status}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_passes_here_and_reports_a_missing_program_or_engine() {
    let project = Project::new();
    let report = project.output(&["doctor", "--output", "json"]);
    assert_eq!(report.code, Some(0), "{report:?}");
    let report = report.json();
    assert_eq!((&report["version"], &report["ok"]), (&1.into(), &true.into()));
    let named = |report: &Value, name: &str| {
        let checks = report["checks"].as_array().expect("a list");
        checks
            .iter()
            .find(|check| check["name"] == name)
            .cloned()
            .unwrap_or_else(|| panic!("{name}: {report}"))
    };
    let engine = named(&report, "engine");
    let podman = format!("podman {}.", Setting::of_this_run().podman);
    assert!(engine["detail"].as_str().is_some_and(|detail| detail.starts_with(&podman)), "{engine}");
    assert_eq!(named(&report, "trial run")["verdict"], "ok");
    // Both tested versions lack a fix.
    let vulnerabilities = named(&report, "vulnerabilities");
    let detail = vulnerabilities["detail"].as_str().unwrap_or_default();
    assert!(
        vulnerabilities["verdict"] == "warn" && detail.contains("CVE-2026-44517, fixed in 5.8.3"),
        "{vulnerabilities}"
    );

    let nowhere = tempfile::tempdir().expect("a folder");
    let broken: Ended = project
        .sandbox(&["doctor", "--output", "json"])
        .env("SANDBOX_PROXY_DIR", nowhere.path())
        .output()
        .expect("the sandbox command")
        .into();
    assert_eq!(broken.code, Some(1));
    for name in ["proxy program", "inside program"] {
        let program = named(&broken.json(), name);
        let hint = program["hint"].as_str().unwrap_or_default();
        assert!(program["verdict"] == "fail" && hint.contains("SANDBOX_PROXY_DIR"), "{program}");
    }

    let unreachable = project.output(&["doctor", "--engine", "unix:///no/such.sock"]);
    assert_eq!(unreachable.code, Some(1));
    assert!(
        unreachable.stdout.contains("FAIL  engine") && unreachable.stdout.contains("hint: start podman"),
        "{unreachable:?}"
    );
}

//! Leftovers of a failed start-up or a dead instance: the next sweep removes all of them.

use std::fs::{self, File};
use std::time::{Duration, SystemTime};

use e2e_tests::{engine, fixture};
use sandbox::{Sandbox, SandboxConfig};
use serde_json::json;
use tempfile::TempDir;

fn config(state: &TempDir, prefix: &str) -> SandboxConfig {
    let mut config = fixture::config(state.path());
    prefix.clone_into(&mut config.prefix);
    config
}

async fn on_demand(state: &TempDir, prefix: &str) -> Sandbox {
    Sandbox::start(config(state, prefix).on_demand()).await.expect("an engine")
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_startup_leaves_only_the_shared_network() {
    let prefix = "e2e-startup";
    let (state, empty) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let mut without_proxy = config(&state, prefix);
    without_proxy.proxy_dir = Some(empty.path().to_owned());
    let fails = async || Sandbox::start(without_proxy.clone()).await.expect_err("there is no proxy");
    fails().await;
    assert_eq!(engine::networks(prefix).await, [""; 0]);
    assert_eq!(engine::containers(prefix).await, [""; 0]);
    on_demand(&state, prefix).await.sweep().await.expect("it sweeps");
    assert_eq!(engine::shared_networks(prefix).await, [""; 0], "a failed start does not use it");

    let other = Sandbox::start(config(&state, prefix)).await.expect("there is a proxy");
    let made = engine::shared_networks(prefix).await;
    assert_eq!(made.len(), usize::from(other.capabilities().has_stable_bridges()), "{made:?}");
    fails().await;
    on_demand(&state, prefix).await.sweep().await.expect("it sweeps");
    assert_eq!(engine::shared_networks(prefix).await, made, "a network in use by another instance is kept");
    other.shutdown().await.expect("it ends");
    other.sweep().await.expect("it sweeps");
    assert_eq!(engine::shared_networks(prefix).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn egress_network_serves_all_instances_until_a_sweep_finds_it_unused() {
    let prefix = "e2e-sweep-egress";
    let state = tempfile::tempdir().expect("a folder");
    let start = async || Sandbox::start(config(&state, prefix)).await.expect("it starts");
    let bridges = async || {
        let mut bridges = Vec::new();
        for name in engine::shared_networks(prefix).await {
            let facts = engine::json("GET", &format!("/networks/{name}/json"), None).await;
            bridges.push(facts["network_interface"].as_str().expect("a name").to_owned());
        }
        bridges
    };
    let (first, second) = tokio::join!(start(), start());
    let (names, made) = (engine::shared_networks(prefix).await, bridges().await);
    let expected = usize::from(first.capabilities().has_stable_bridges());
    assert_eq!(made.len(), expected, "two that start at once make one, and on podman 4 none: {made:?}");
    second.shutdown().await.expect("it ends");
    second.sweep().await.expect("it sweeps");
    assert_eq!(bridges().await, made, "the control: a network in use is kept");
    first.shutdown().await.expect("it ends");
    assert_eq!(bridges().await, made, "it stays for the next instance");
    let third = start().await;
    assert_eq!(bridges().await, made, "which uses it");
    // Leaves the state of a killed instance, except for the lock file, whose lock is free.
    drop(third);
    second.sweep_at_start().await.expect("it sweeps");
    assert_eq!(bridges().await, made, "a start does not remove it");
    assert_eq!(second.sweep().await.expect("it sweeps").networks, names);
    assert_eq!(bridges().await, [""; 0]);
    assert!(second.sweep().await.expect("it sweeps").networks.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn egress_network_with_other_settings_is_refused() {
    let prefix = "e2e-other-egress";
    let (state, name) = (tempfile::tempdir().expect("a folder"), format!("{prefix}-egress"));
    let is_shared = on_demand(&state, prefix).await.capabilities().has_stable_bridges();
    let ours = json!({
        "name": name, "driver": "bridge", "dns_enabled": false, "options": {"isolate": "true"},
        // By its lock, `cargo xtask e2e` finds it after a failure.
        "labels": {"sandbox.owner": prefix, "sandbox.role": "egress", "sandbox.lock": state.path()},
    });
    for (change, problem) in [
        (json!({}), None),
        (json!({"options": {}}), Some("isolate")),
        (json!({"dns_enabled": true}), Some("dns")),
        (json!({"internal": true}), Some("internal")),
        (json!({"ipv6_enabled": true}), Some("ipv6")),
        (json!({"labels": {"sandbox.lock": state.path()}}), Some("labels")),
    ] {
        let mut network = ours.clone();
        for (key, value) in change.as_object().expect("fields") {
            network[key] = value.clone();
        }
        engine::json("POST", "/networks/create", Some(&network)).await;
        let started = Sandbox::start(config(&state, prefix)).await;
        engine::json("DELETE", &format!("/networks/{name}"), None).await;
        match (problem.filter(|_| is_shared), started) {
            (None, started) => drop(started.expect("the control: it starts")),
            (Some(problem), started) => {
                let text = format!("{:?}", started.expect_err("it differs"));
                assert!(text.contains(problem) && text.contains("podman network rm"), "{problem}: {text}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_earlier_starts_are_removed() {
    let state = tempfile::tempdir().expect("a folder");
    let folders = ["identity", "instances"].map(|name| state.path().join(name));
    let left = [folders[0].join("0f0f0f0f"), folders[1].join("0f.new")];
    let sandbox = async || on_demand(&state, "e2e-files").await;
    drop(sandbox().await);
    for (path, folder) in left.iter().zip(&folders) {
        fs::create_dir_all(folder).expect("a folder");
        File::create(path).expect("a file");
    }
    let count = |left: &[std::path::PathBuf]| left.iter().filter(|path| path.exists()).count();
    sandbox().await.sweep().await.expect("it sweeps");
    assert_eq!(count(&left), 2, "the control: recent files may be in use");
    for path in &left {
        let long_ago = SystemTime::now() - Duration::from_hours(48);
        File::open(path).and_then(|file| file.set_modified(long_ago)).expect("our own file");
    }
    sandbox().await.sweep().await.expect("it sweeps");
    assert_eq!(count(&left), 0);
}

//! Leftovers of a failed start-up or a dead instance: the next sweep removes all of them.

use std::fs::{self, File};
use std::time::{Duration, SystemTime};

use e2e_tests::{engine, fixture};
use sandbox::{Sandbox, SandboxConfig};
use tempfile::TempDir;

fn config(state: &TempDir, prefix: &str) -> SandboxConfig {
    let mut config = fixture::config(state.path());
    prefix.clone_into(&mut config.prefix);
    config
}

async fn networks(prefix: &str) -> Vec<String> {
    engine::networks(prefix).await
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_startup_leaves_nothing() {
    let prefix = "e2e-startup";
    let (state, empty) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let mut without_proxy = config(&state, prefix);
    without_proxy.proxy_dir = Some(empty.path().to_owned());
    let fails = async || Sandbox::start(without_proxy.clone()).await.expect_err("there is no proxy");
    fails().await;
    assert_eq!(networks(prefix).await, Vec::<String>::new());

    let other = Sandbox::start(config(&state, prefix)).await.expect("there is a proxy");
    let made = networks(prefix).await;
    assert_eq!(
        made.is_empty(),
        !other.capabilities().has_stable_bridges(),
        "the control: it makes a network: {made:?}"
    );
    fails().await;
    assert_eq!(networks(prefix).await, made, "a network in use by another instance is kept");
    other.shutdown().await.expect("it ends");
    assert_eq!(networks(prefix).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn sweep_removes_an_unused_egress_network() {
    let prefix = "e2e-sweep-egress";
    let state = tempfile::tempdir().expect("a folder");
    let first = Sandbox::start(config(&state, prefix)).await.expect("it starts");
    let made = networks(prefix).await;
    let second = Sandbox::start(config(&state, prefix).on_demand()).await.expect("an engine");
    second.sweep().await.expect("it sweeps");
    assert_eq!(networks(prefix).await, made, "the control: a network in use is kept");
    // Leaves the state of a killed instance, except for the lock file, whose lock is free.
    drop(first);
    let report = second.sweep().await.expect("it sweeps");
    assert_eq!(report.networks, made);
    assert_eq!(networks(prefix).await, Vec::<String>::new());
    assert!(second.sweep().await.expect("it sweeps").networks.is_empty());
    second.shutdown().await.expect("it ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_earlier_starts_are_removed() {
    let state = tempfile::tempdir().expect("a folder");
    let folders = ["identity", "instances"].map(|name| state.path().join(name));
    let left = [folders[0].join("0f0f0f0f"), folders[1].join("0f.new")];
    let sandbox = async || Sandbox::start(config(&state, "e2e-files").on_demand()).await.expect("an engine");
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

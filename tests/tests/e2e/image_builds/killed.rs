//! A build ends with its owner.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use e2e_tests::{DEADLINE, engine};
use sandbox::Network;
use serde_json::Value;

use super::fixture::{BuildFixture, permitting};
use crate::executor::fixture::marker;

/// The processes of this machine, which the engine shares, whose command line is `command_line`.
fn processes(command_line: &str) -> Vec<u32> {
    let Ok(entries) = Path::new("/proc").read_dir() else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid: &u32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).replace('\0', " ").trim() == command_line
        })
        .collect()
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < DEADLINE, "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The containers of running or aborted builds, which the engine lists as external. Other tests
/// have some too, and podman 4 fails if one vanishes during the listing.
async fn working_containers() -> BTreeSet<String> {
    let begun = Instant::now();
    let all = loop {
        let (status, all) = engine::call("GET", "/containers/json?all=true&external=true", None).await;
        if status == 200 {
            break serde_json::from_slice::<Value>(&all).expect("a list");
        }
        let said = String::from_utf8_lossy(&all);
        assert!(said.contains("container not known") && begun.elapsed() < DEADLINE, "{said}");
    };
    let all = all.as_array().cloned().unwrap_or_default();
    let is_working = |container: &&Value| {
        container["State"] == "storage" && container.to_string().contains("sandbox-clients-working-container")
    };
    all.iter().filter(is_working).map(|container| container["Id"].to_string()).collect()
}

/// Starts a build with the step `run`, which sleeps for `mark` seconds, and drops it while it
/// sleeps. Like a kill of the owner, the drop closes the connections.
async fn dropped(fixture: &BuildFixture, network: Network, run: &str, mark: &str) {
    let steps = format!("RUN {run}\n");
    let sleep = format!("sleep {mark}");
    let building = fixture.build(network, &steps);
    tokio::select! {
        built = building => panic!("the build ended early: {built:?}"),
        () = until("the step runs", || !processes(&sleep).is_empty()) => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_end_with_their_owner_and_leave_nothing() {
    let fixture = BuildFixture::new("e2e-build-killed").await;
    for (network, mark) in [(permitting("domains: [open.test]"), marker(51)), (Network::Disabled, marker(52))]
    {
        dropped(&fixture, network, &format!("(sleep {mark}1 &) ; sleep {mark}"), &mark).await;
        until("the steps are gone", || {
            processes(&format!("sleep {mark}")).is_empty() && processes(&format!("sleep {mark}1")).is_empty()
        })
        .await;
    }
    // Leftovers are labelled, and a shutdown or the next sweep removes them.
    fixture.sandbox.shutdown().await.expect("nothing is left");
    let ours = working_containers().await;
    let begun = Instant::now();
    while !ours.is_disjoint(&working_containers().await) {
        assert!(begun.elapsed() < DEADLINE, "the engine keeps the container of the build");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn control_step_outside_the_sandbox_outlives_its_client() {
    let fixture = BuildFixture::new("e2e-build-goes-on").await;
    let (mark, end) = (marker(53), marker(54));
    let step = format!("sleep {mark}; for i in $(seq 20); do sleep 0.1; done; sleep {end}");
    dropped(&fixture, Network::Unrestricted, &step, &mark).await;
    // The engine notices at once that its client is gone, but the step continues to its end.
    end_all(&mark);
    let sleep = format!("sleep {end}");
    until("the control: it continues", || !processes(&sleep).is_empty()).await;
    end_all(&end);
    until("the step is gone", || processes(&sleep).is_empty()).await;
    fixture.close().await;
}

/// Ends the processes that sleep for `mark` seconds.
fn end_all(mark: &str) {
    for pid in processes(&format!("sleep {mark}")) {
        let pid = rustix::process::Pid::from_raw(i32::try_from(pid).expect("a process")).expect("a process");
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

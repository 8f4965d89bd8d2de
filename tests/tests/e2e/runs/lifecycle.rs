//! From the launch to the removal, by one process or by several.

use std::time::Duration;

use e2e_tests::DEADLINE;
use e2e_tests::engine;
use e2e_tests::fixture::{self, Fixture};
use e2e_tests::setting::Setting;
use sandbox::network::NetworkLog;
use sandbox::runs::{LifecycleHooks, Readiness, RunError};
use sandbox::{ByteSize, SandboxError};
use serde_json::json;

use super::fixture::{LONG, all_lines, container, exists, name, networks, spec, stop};

#[tokio::test(flavor = "multi_thread")]
async fn run_becomes_ready_ends_and_is_stopped() {
    let fixture = Fixture::new().await;
    let (runs, run) = (fixture.sandbox.runs(), name("life"));
    let script = "echo setting up; echo 'x >> init complete x' >&2; cat; exit 7";
    runs.run(spec(&fixture, "life", script), LifecycleHooks::default()).await.expect("a good run");
    assert!(runs.task_state_dir(&run).is_dir());
    assert_eq!(runs.wait_until_ready(&run, LONG).await.expect("logs"), Readiness::Ready);
    // Its stdin is empty.
    assert_eq!(runs.wait_for_exit(&run, LONG).await.expect("an end").code, 7);
    // The end and the output can be read repeatedly.
    assert_eq!(runs.wait_for_exit(&run, LONG).await.expect("an end").code, 7);
    assert_eq!(all_lines(&fixture, &run).await.len(), 2);
    stop(&fixture, "life").await;
    assert!(matches!(runs.wait_for_exit(&run, LONG).await, Err(SandboxError::Run(RunError::NotFound(_)))));
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wait_that_times_out_leaves_the_run_and_has_no_exit_code() {
    let fixture = Fixture::new().await;
    let runs = fixture.sandbox.runs();
    let second = Some(Duration::from_secs(1));
    for (run, script) in [("slow", "echo x; sleep 300"), ("quick", "echo x; exit 124")] {
        runs.run(spec(&fixture, run, script), LifecycleHooks::default()).await.expect("a good run");
    }
    let (slow, quick) = (name("slow"), name("quick"));
    assert_eq!(runs.wait_until_ready(&slow, second).await.expect("logs"), Readiness::TimedOut);
    let error = runs.wait_for_exit(&slow, second).await.expect_err("it sleeps");
    assert!(matches!(error, SandboxError::Run(RunError::StillRunning { .. })), "{error}");
    assert_eq!(runs.wait_until_ready(&quick, LONG).await.expect("logs"), Readiness::Ended);
    assert_eq!(runs.wait_for_exit(&quick, LONG).await.expect("an end").code, 124);
    let names = [slow.clone(), name("never-there"), quick.clone()];
    let results = runs.stop(&names).await;
    let ended: Vec<_> = results.iter().map(|result| (result.name.clone(), result.removed)).collect();
    assert_eq!(ended, names.map(|name| (name, true)));
    assert!(!exists("slow").await && !exists("quick").await);
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn marker_after_much_output_is_seen_and_every_line_arrives_once() {
    let fixture = Fixture::new().await;
    let (runs, run) = (fixture.sandbox.runs(), name("much"));
    let spec = spec(&fixture, "much", "seq 1 100000; echo '>> init complete'; sleep 300")
        .log_limit(ByteSize::mib(64));
    runs.run(spec, LifecycleHooks::default()).await.expect("a good run");
    let mut numbers = 0;
    let ready = runs.stream_logs(&run, LONG, |line| match line.parse::<u32>() {
        Ok(number) => {
            numbers += 1;
            assert_eq!(number, numbers);
            false
        }
        Err(_) => line.contains(sandbox::runs::READY_MARKER),
    });
    assert_eq!((ready.await.expect("logs"), numbers), (Readiness::Ready, 100_000));
    stop(&fixture, "much").await;
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn duplicate_name_and_verbs_out_of_order_are_refused() {
    let fixture = Fixture::new().await;
    let (runs, run) = (fixture.sandbox.runs(), name("order"));
    let one = || spec(&fixture, "order", "exit 0");
    runs.create(one(), LifecycleHooks::default()).await.expect("a good run");
    assert!(matches!(runs.wait_for_exit(&run, LONG).await, Err(SandboxError::Run(RunError::NotStarted(_)))));
    let other = Fixture::new().await;
    for fixture in [&fixture, &other] {
        let error = fixture.sandbox.runs().create(one(), LifecycleHooks::default()).await;
        assert!(matches!(error, Err(SandboxError::Run(RunError::NameTaken(_)))), "{error:?}");
    }
    // A container of another process cannot be verified, so it is not started.
    let error = other.sandbox.runs().start(&run).await;
    assert!(matches!(error, Err(SandboxError::Run(RunError::NotStartable(_)))), "{error:?}");
    runs.start(&run).await.expect("a good run");
    let error = runs.start(&run).await;
    assert!(matches!(error, Err(SandboxError::Run(RunError::NotStartable(_)))), "{error:?}");
    assert_eq!(runs.wait_for_exit(&run, LONG).await.expect("an end").code, 0);
    stop(&fixture, "order").await;
    other.close().await;
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn run_outlives_its_sandbox_and_another_watches_and_stops_it() {
    let first = Fixture::new().await;
    let script =
        "echo '>> init complete'; trap 'exit 9' TERM; while ! [ -e /srv/go ]; do sleep 0.2; done; exit 3";
    let runs = first.sandbox.runs();
    runs.run(spec(&first, "orphan", script), LifecycleHooks::default()).await.expect("a good run");
    runs.create(spec(&first, "unborn", "exit 0"), LifecycleHooks::default()).await.expect("a good run");
    first.close().await;
    assert!(!exists("unborn").await, "it can no longer be started");

    let second = Fixture::new().await;
    let (runs, run) = (second.sandbox.runs(), name("orphan"));
    assert!(runs.names().await.expect("the engine").contains(&run), "the sweep leaves it");
    assert_eq!(runs.wait_until_ready(&run, LONG).await.expect("logs"), Readiness::Ready);
    let file = second.folder().join("go");
    std::fs::write(&file, "").expect("a file");
    runs.copy_to(&run, &file, "/srv/go").await.expect("a copy");
    assert_eq!(runs.wait_for_exit(&run, LONG).await.expect("an end").code, 3);
    stop(&second, "orphan").await;
    second.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sandboxed_network_ends_with_its_process_and_is_removed_with_the_run() {
    let first = Fixture::new().await;
    let (runs, run) = (first.sandbox.runs(), name("netrun"));
    let script = "while :; do curl -sS --max-time 3 -o /dev/null https://open.test/ 2>/dev/null && echo reached || echo lost; \
                  sleep 0.3; done";
    let spec = spec(&first, "netrun", script).network(fixture::network("domains: [open.test]"));
    runs.run(spec, LifecycleHooks::default()).await.expect("a good run");
    let reached = runs.stream_logs(&run, LONG, |line| line == "reached").await;
    assert!(reached.expect("logs").is_ready());
    let mut log = NetworkLog::new(runs.task_state_dir(&run)).follow().expect("a log");
    // The line can come after the task has its response.
    let mut line = String::new();
    while !line.starts_with("allowed GET https://open.test/") {
        let next = tokio::time::timeout(DEADLINE, log.next_line()).await;
        line = next.expect("it is logged").expect("a log").expect("a line");
    }
    first.close().await;

    let second = Fixture::new().await;
    let runs = second.sandbox.runs();
    let mut seen = Vec::new();
    let lost = runs
        .stream_logs(&run, LONG, |line| {
            seen.push(line.to_owned());
            // Not a single request that failed during the shutdown.
            seen.iter().rev().take(3).filter(|line| *line == "lost").count() == 3
        })
        .await;
    assert!(lost.expect("logs").is_ready(), "{seen:?}");
    assert!(runs.quarantine(&run).await.is_err(), "its proxy is gone");
    assert_ne!(networks("netrun").await, [""; 0], "the control: stop has networks to remove");
    stop(&second, "netrun").await;
    second.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn container_merely_named_like_a_run_is_left_alone() {
    let fixture = Fixture::new().await;
    let container = container("foreign");
    let body = json!({"name": container, "image": Setting::of_this_run().clients_image, "command": ["true"]});
    engine::json("POST", "/containers/create", Some(&body)).await;
    let runs = fixture.sandbox.runs();
    let results = runs.stop(&[name("foreign")]).await;
    let (still_there, _) = engine::call("GET", &format!("/containers/{container}/json"), None).await;
    let (removed, _) = engine::call("DELETE", &format!("/containers/{container}?force=true"), None).await;
    assert!(results.iter().all(|result| result.error.is_none()), "{results:?}");
    assert_eq!((still_there, removed), (200, 200));
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cleaning_removes_only_runs_of_dead_owners() {
    let mut config = fixture::config(&fixture::state_dir());
    "e2e-clean-runs".clone_into(&mut config.prefix);
    let (dead, alive) = (Fixture::with(config.clone()).await, Fixture::with(config.clone()).await);
    for (fixture, run) in [(&dead, "left"), (&alive, "kept")] {
        let spec = spec(fixture, run, "sleep 300");
        let launched = fixture.sandbox.runs().run(spec, LifecycleHooks::default()).await;
        launched.expect("a good run");
    }
    dead.close().await;
    let runs = alive.sandbox.runs();
    let cleaned = runs.clean().await.expect("the engine");
    let cleaned: Vec<_> = cleaned.iter().map(|result| (result.name.as_str(), result.removed)).collect();
    assert_eq!(cleaned, [(name("left").as_str(), true)]);
    assert_eq!(runs.names().await.expect("the engine"), [name("kept")]);
    assert!(runs.stop(&[name("kept")]).await.iter().all(|result| result.removed));
    alive.close().await;
}

//! Runs with unique names, since all tests share one prefix.

use std::time::Duration;

use e2e_tests::DEADLINE;
use e2e_tests::engine;
use e2e_tests::fixture::{Fixture, PREFIX};
use e2e_tests::setting::Setting;
use sandbox::SandboxError;
use sandbox::runs::{LifecycleHooks, RunName, RunSpec};

/// A time limit that is never reached.
pub(super) const LONG: Option<Duration> = Some(DEADLINE);

/// The name of a test's run, which no earlier test run has used.
pub(super) fn name(text: &str) -> RunName {
    let unique = Setting::of_this_run().unique(text);
    unique.parse().expect("a good name")
}

/// The name of a run's container in the engine.
pub(super) fn container(run: &str) -> String {
    format!("{PREFIX}-run-{}", name(run))
}

/// A run of a bash script.
pub(super) fn spec(fixture: &Fixture, run: &str, script: &str) -> RunSpec {
    RunSpec::new(name(run), fixture.image.clone(), ["bash", "-c", script])
}

/// Whether the engine has a container of the run.
pub(super) async fn exists(run: &str) -> bool {
    engine::containers(PREFIX).await.contains(&container(run))
}

/// The networks that belong to the run.
pub(super) async fn networks(run: &str) -> Vec<String> {
    let (mut networks, run) = (engine::networks(PREFIX).await, name(run));
    networks.retain(|network| network.contains(run.as_str()));
    networks
}

/// Stops the run, which must leave nothing.
pub(super) async fn stop(fixture: &Fixture, run: &str) {
    for result in fixture.sandbox.runs().stop(&[name(run)]).await {
        assert!(result.removed && result.error.is_none(), "{result:?}");
    }
    assert!(!exists(run).await);
    assert_eq!(networks(run).await, [""; 0]);
    assert!(!fixture.sandbox.runs().task_state_dir(&name(run)).exists());
}

/// The lines that a run prints until its end, which must be successful; the run is stopped then.
pub(super) async fn lines(fixture: &Fixture, run: RunSpec) -> Vec<String> {
    let (runs, name) = (fixture.sandbox.runs(), run.name().clone());
    runs.run(run, LifecycleHooks::default()).await.expect("a good run");
    let lines = all_lines(fixture, &name).await;
    let exit = runs.wait_for_exit(&name, LONG).await.expect("an end");
    assert_eq!(exit.code, 0, "{lines:?}");
    stop(fixture, name.as_str()).await;
    lines
}

/// The lines that a run prints until its end.
pub(super) async fn all_lines(fixture: &Fixture, run: &RunName) -> Vec<String> {
    let mut lines = Vec::new();
    let keep = |line: &str| {
        lines.push(line.to_owned());
        false
    };
    let logs = fixture.sandbox.runs().stream_logs(run, LONG, keep).await;
    assert_eq!(logs.expect("logs"), sandbox::runs::Readiness::Ended);
    lines
}

/// An error with all its causes.
pub(super) fn chain(error: &SandboxError) -> String {
    let first: &dyn std::error::Error = error;
    let causes = std::iter::successors(Some(first), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

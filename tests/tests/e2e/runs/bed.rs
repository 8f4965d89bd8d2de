//! Runs with names of their own: all tests share one prefix.

use std::time::Duration;

use e2e_tests::bed::{Bed, PREFIX};
use e2e_tests::engine;
use sandbox::{LifecycleHooks, RunName, RunSpec, SandboxError};

/// Long enough for a loaded machine.
pub(super) const LONG: Option<Duration> = Some(Duration::from_mins(1));

/// The name of a test's run.
pub(super) fn name(text: &str) -> RunName {
    text.parse().expect("a good name")
}

/// A run of a bash script.
pub(super) fn spec(bed: &Bed, run: &str, script: &str) -> RunSpec {
    RunSpec::new(name(run), bed.image.clone(), ["bash", "-c", script])
}

/// Whether the engine has a container of the run.
pub(super) async fn exists(run: &str) -> bool {
    let container = format!("{PREFIX}-run-{run}");
    engine::containers(PREFIX).await.contains(&container)
}

/// The networks that belong to the run.
pub(super) async fn networks(run: &str) -> Vec<String> {
    let mut networks = engine::networks(PREFIX).await;
    networks.retain(|network| network.contains(run));
    networks
}

/// Stops the run; nothing may be left of it.
pub(super) async fn stop(bed: &Bed, run: &str) {
    for result in bed.sandbox.runs().stop(&[name(run)]).await {
        assert!(result.removed && result.error.is_none(), "{result:?}");
    }
    assert!(!exists(run).await);
    assert_eq!(networks(run).await, [""; 0]);
    assert!(!bed.sandbox.runs().task_state_dir(&name(run)).exists());
}

/// The lines that a run writes until its end, which must be a good one; it is stopped then.
pub(super) async fn lines(bed: &Bed, run: RunSpec) -> Vec<String> {
    let (runs, name) = (bed.sandbox.runs(), run.name().clone());
    runs.run(run, LifecycleHooks::default())
        .await
        .expect("a good run");
    let lines = all_lines(bed, &name).await;
    let exit = runs.wait_for_exit(&name, LONG).await.expect("an end");
    assert_eq!(exit.code, 0, "{lines:?}");
    stop(bed, name.as_str()).await;
    lines
}

/// The lines that a run writes until its end.
pub(super) async fn all_lines(bed: &Bed, run: &RunName) -> Vec<String> {
    let mut lines = Vec::new();
    let keep = |line: &str| {
        lines.push(line.to_owned());
        false
    };
    let logs = bed.sandbox.runs().stream_logs(run, LONG, keep).await;
    assert_eq!(logs.expect("logs"), sandbox::Readiness::Ended);
    lines
}

/// An error with all its causes.
pub(super) fn chain(error: &SandboxError) -> String {
    let first: &dyn std::error::Error = error;
    let causes = std::iter::successors(Some(first), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

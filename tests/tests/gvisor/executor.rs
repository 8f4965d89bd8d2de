//! The executor of untrusted commands.

use std::time::Duration;

use e2e_tests::DEADLINE;
use e2e_tests::fixture::Fixture;
use sandbox::executor::{ExecOptions, ExecResult, Executor, ExecutorConfig, ExecutorMode};
use sandbox::{Isolation, ResourceLimits};

use super::fixture::in_gvisor;
use super::hook;

fn executor(fixture: &Fixture, isolation: Isolation) -> Executor {
    let config = ExecutorConfig::new("exec", fixture.image.clone())
        .isolation(isolation)
        .mode(ExecutorMode::Fresh)
        .limits(ResourceLimits::untrusted().timeout(DEADLINE));
    fixture.sandbox.create_executor(config).expect("a good configuration")
}

async fn run(executor: &Executor, command: &str) -> ExecResult {
    executor.execute(command, ExecOptions::default()).await.expect("the infrastructure works")
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_run_unprivileged_and_start_processes() {
    let _hook = hook::keep();
    let fixture = Fixture::new().await;
    let executor = executor(&fixture, in_gvisor(Isolation::untrusted()));
    let line = "id -u; for i in 1 2 3; do (bash -c \"exit $i\"; echo $?) & done; wait; exit 7";
    let result = run(&executor, line).await;
    let stdout = result.stdout_text();
    let mut lines: Vec<&str> = stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["1", "1000", "2", "3"], "{result:?}");
    assert_eq!(result.exit_code, 7);
    executor.cleanup().await.expect("it is removed");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn timeout_ends_a_command_and_keeps_its_output() {
    let _hook = hook::keep();
    let fixture = Fixture::new().await;
    let executor = executor(&fixture, in_gvisor(Isolation::untrusted()));
    let line = "setsid sleep 300 & echo started; sleep 300";
    let options = ExecOptions { timeout: Some(Duration::from_secs(5)), ..ExecOptions::default() };
    let result = executor.execute(line, options).await.expect("a result");
    assert!(result.timed_out && result.exit_code == 124, "{result:?}");
    assert_eq!(result.stdout_text(), "started\n");
    assert_eq!(run(&executor, "echo next").await.stdout_text(), "next\n");
    executor.cleanup().await.expect("it is removed");
    fixture.close().await;
}

/// Unlike the host's kernel, gVisor lets a container kill its own first process. No other process
/// is affected.
#[tokio::test(flavor = "multi_thread")]
async fn command_killing_the_supervisor_ends_its_container_and_the_next_gets_a_new_one() {
    let _hook = hook::keep();
    let fixture = Fixture::new().await;
    let executor = executor(&fixture, in_gvisor(Isolation::untrusted()));
    let killed = executor.execute("kill -9 1; sleep 60", ExecOptions::default()).await;
    let error = killed.expect_err("its container ended").to_string();
    assert!(error.starts_with("the container of the command ended"), "{error}");
    assert_eq!(run(&executor, "echo next").await.stdout_text(), "next\n");
    executor.cleanup().await.expect("it is removed");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn gvisor_engine_without_the_demand_is_refused() {
    let _hook = hook::keep();
    let fixture = Fixture::new().await;
    let executor = executor(&fixture, Isolation::untrusted());
    let error = executor
        .execute("true", ExecOptions::default())
        .await
        .expect_err("an executor has to know of gVisor");
    let text = error.to_string();
    assert!(text.contains("isolation.runtime") && text.contains("a container for each command"), "{text}");
    drop(executor);
    let shared =
        ExecutorConfig::new("exec", fixture.image.clone()).isolation(in_gvisor(Isolation::untrusted()));
    let error = fixture.sandbox.create_executor(shared).expect_err("commands would share a container");
    assert!(error.to_string().contains("ExecutorMode::Fresh"), "{error}");
    fixture.close().await;
}

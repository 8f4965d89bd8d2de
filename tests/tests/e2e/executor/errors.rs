//! Errors without an engine, an image or a program.

use e2e_tests::fixture::{self, Fixture};
use sandbox::executor::{ExecOptions, ExecutorConfig};
use sandbox::isolation::Seccomp;
use sandbox::{ContainerError, EngineAddress, ImageSource, Isolation, Mount, Network, Sandbox, SandboxError};

use super::fixture::{config, executor};

async fn failure(fixture: &Fixture, config: ExecutorConfig, command: &[&str]) -> SandboxError {
    executor(fixture, config)
        .execute(command.to_vec(), ExecOptions::default())
        .await
        .expect_err("it cannot be executed")
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_engine_is_reported_as_not_running() {
    let state = tempfile::tempdir().expect("a folder");
    let mut config = fixture::config(state.path());
    config.engine = EngineAddress::unix(state.path().join("no.sock"));
    let error = Sandbox::start(config.on_demand()).await.expect_err("there is no listener");
    assert!(matches!(error, SandboxError::EngineNotRunning(_)), "{error:?}");
    assert!(error.to_string().starts_with("Docker is not running"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_image_is_named() {
    let fixture = Fixture::new().await;
    let source = ImageSource::existing("localhost/no-such-image");
    let error = fixture.sandbox.ensure_image(&source).await.expect_err("it is not there");
    assert!(
        error.to_string().starts_with("Image not found: ") && error.to_string().contains("no-such-image"),
        "{error}"
    );
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_container_creation_reports_the_cause() {
    let fixture = Fixture::new().await;
    let folder = fixture.folder().join("goes");
    std::fs::create_dir(&folder).expect("a folder");
    let going = executor(&fixture, config(&fixture).mount(Mount::read_only_at(&folder, "/x")));
    std::fs::remove_dir(&folder).expect("our own folder");
    let error = going.execute("true", ExecOptions::default()).await;
    let error = error.expect_err("it is not there").to_string();
    assert!(error.contains("goes` cannot be found"), "{error}");
    let unusable = config(&fixture).isolation(Isolation {
        seccomp: Seccomp::Profile("/no/such/profile.json".into()),
        ..Isolation::untrusted()
    });
    let error = failure(&fixture, unusable, &["true"]).await;
    assert!(
        matches!(
            error,
            SandboxError::Container(ContainerError::Unsupported { field: "isolation.seccomp", .. })
        ),
        "{error:?}"
    );
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn first_command_of_an_on_demand_sandbox_prepares_the_network() {
    let fixture = Fixture::new().await;
    let sandbox =
        Sandbox::start(fixture::config(&fixture::state_dir()).on_demand()).await.expect("an engine");
    let config = config(&fixture).network(fixture::network("domains: []"));
    let executor = sandbox.create_executor(config).expect("a good configuration");
    let result = executor.execute("true", ExecOptions::default()).await;
    assert_eq!(result.expect("the sandbox works").exit_code, 0);
    sandbox.shutdown().await.expect("nothing is left");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_or_invalid_program_is_reported_as_by_a_shell() {
    let fixture = Fixture::new().await;
    let error = failure(&fixture, config(&fixture), &["no-such-program", "x"]).await;
    assert_eq!(error.to_string(), "no program `no-such-program` in the image");
    let error = failure(&fixture, config(&fixture), &["/etc/passwd"]).await;
    assert_eq!(error.to_string(), "`/etc/passwd` in the image cannot be executed");
    let options = ExecOptions { working_dir: Some("/no/such/folder".to_owned()), ..ExecOptions::default() };
    let error = executor(&fixture, config(&fixture)).execute("true", options).await;
    let error = error.expect_err("there is no such folder").to_string();
    assert_eq!(error, "the working directory `/no/such/folder` is not a folder");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn network_sandbox_serves_executors() {
    let fixture = Fixture::new().await;
    let get = "curl -s -o /dev/null -w '%{http_code} ' https://open.test/; curl -s -o /dev/null -w '%{http_code}' https://shut.test/";
    let sandboxed = config(&fixture).network(fixture::network("domains: [open.test]"));
    let log = fixture.folder().join("log");
    let executor = executor(&fixture, sandboxed.network_log_dir(&log));
    assert_eq!(super::fixture::output(&executor, get).await, "200 403");
    executor.cleanup().await.expect("it is removed");
    let log = std::fs::read_to_string(log.join("network-sandbox.log")).expect("a log");
    assert!(log.contains("open.test") && log.contains("BLOCKED GET https://shut.test/"), "{log}");
    let none = super::fixture::executor(&fixture, config(&fixture).network(Network::Disabled));
    assert_eq!(super::fixture::run(&none, get).await.stdout_text(), "000 000", "the control");
    fixture.close().await;
}

//! Scripts in containers with the isolation of a test.

use e2e_tests::fixture::{Fixture, Ran};
use sandbox::{CommandSpec, ContainerError, Input, Isolation, Network, SandboxError};

/// A command without a network, confined by `isolation`.
pub(super) fn spec(fixture: &Fixture, isolation: Isolation, script: &str) -> CommandSpec {
    fixture.command("domains: []", &["bash", "-c", script]).network(Network::Disabled).isolation(isolation)
}

/// The result of `script`.
pub(super) async fn run(fixture: &Fixture, isolation: Isolation, script: &str) -> Ran {
    fixture.run_spec(spec(fixture, isolation, script)).await
}

/// The stdout of `script`, which must succeed.
pub(super) async fn output(fixture: &Fixture, isolation: Isolation, script: &str) -> String {
    let ran = run(fixture, isolation, script).await;
    assert_eq!(ran.code, 0, "{script}: {} {}", ran.stdout, ran.stderr);
    ran.stdout
}

/// The unsupported field, and the whole message, which must name the engine.
pub(super) async fn refusal(fixture: &Fixture, isolation: Isolation) -> (&'static str, String) {
    let command =
        fixture.sandbox.create_command(spec(fixture, isolation, "true")).expect("a good specification");
    let error = command.execute(Input::Empty).await.expect_err("this engine cannot do it");
    let text = error.to_string();
    let version = format!("podman {}", fixture.sandbox.capabilities().version());
    assert!(text.contains(&version), "{text}");
    match error {
        SandboxError::Container(ContainerError::Unsupported { field, .. }) => (field, text),
        other => panic!("{other:?}"),
    }
}

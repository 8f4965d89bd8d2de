//! Scripts in containers that are confined as a test says.

use e2e_tests::bed::{Bed, Ran};
use sandbox::{CommandSpec, ContainerError, Input, Isolation, Network, SandboxError};

/// A command without a network, confined as `isolation` says.
pub(super) fn spec(bed: &Bed, isolation: Isolation, script: &str) -> CommandSpec {
    bed.command("domains: []", &["bash", "-c", script]).network(Network::Disabled).isolation(isolation)
}

/// What `script` comes to.
pub(super) async fn run(bed: &Bed, isolation: Isolation, script: &str) -> Ran {
    bed.run_spec(spec(bed, isolation, script)).await
}

/// What `script` prints; it must succeed.
pub(super) async fn output(bed: &Bed, isolation: Isolation, script: &str) -> String {
    let ran = run(bed, isolation, script).await;
    assert_eq!(ran.code, 0, "{script}: {} {}", ran.stdout, ran.stderr);
    ran.stdout
}

/// The field that an engine cannot do, and the whole message, which must name the engine.
pub(super) async fn refusal(bed: &Bed, isolation: Isolation) -> (&'static str, String) {
    let command = bed.sandbox.create_command(spec(bed, isolation, "true")).expect("a good specification");
    let error = command.execute(Input::Empty).await.expect_err("this engine cannot do it");
    let text = error.to_string();
    let version = format!("podman {}", bed.sandbox.capabilities().version());
    assert!(text.contains(&version), "{text}");
    match error {
        SandboxError::Container(ContainerError::Unsupported { field, .. }) => (field, text),
        other => panic!("{other:?}"),
    }
}

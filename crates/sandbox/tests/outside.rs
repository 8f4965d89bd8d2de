//! A program outside of the workspace can use each reusable crate: a crate created here depends on
//! them by path only.
#![expect(clippy::disallowed_methods, reason = "cargo is asked as a user would ask it")]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

const MAIN: &str = r#"
use futures_util::StreamExt as _;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let policy = allowlist::Allowlist::from_yaml("domains: [api.anthropic.com]", "policy.yaml")?;
    let _parser = claude_output::EventParser::default();
    let preset: sandbox_credentials::Preset = "anthropic".parse()?;
    let key = sandbox_credentials::SecretValue::new("not-a-key".to_owned());
    let masked = [sandbox_credentials::MaskedSecret::new("KEY", key, preset.injection())];
    let _secrets = sandbox_credentials::prepare_secrets(&masked, &[]);
    let _conversation = conversation(policy);
    Ok(())
}

async fn conversation(policy: allowlist::Allowlist) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let sandbox = sandbox::Sandbox::start(sandbox::SandboxConfig::discover("/state")?).await?;
    let image = sandbox.ensure_image(&sandbox::ImageSource::existing("agent")).await?;
    let network = sandbox::Network::Sandboxed(sandbox::NetworkSandboxConfig::new(policy));
    let task = sandbox.create_task(sandbox::TaskSpec::new("id", image, "/session").network(network))?;
    let mut execution = task.execute(sandbox::Prompt::new("hello"));
    while let Some(_event) = execution.next().await {}
    let _result = execution.await?;
    Ok(())
}
"#;

#[test]
fn crate_outside_of_the_workspace_compiles() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut manifest =
        "[package]\nname = \"outside\"\nedition = \"2024\"\n[workspace]\n[dependencies]\nfutures-util = \
                        { version = \"0.3\", default-features = false }\n"
            .to_owned();
    for (name, dir) in [
        ("allowlist", "allowlist"),
        ("claude-output", "claude-output"),
        ("sandbox-credentials", "credentials"),
        ("sandbox", "sandbox"),
    ] {
        writeln!(manifest, "{name} = {{ path = {:?} }}", crates.join(dir)).unwrap();
    }
    fs::create_dir(folder.path().join("src")).unwrap();
    fs::write(folder.path().join("Cargo.toml"), manifest).unwrap();
    fs::write(folder.path().join("src/main.rs"), MAIN).unwrap();
    // The versions of the workspace, which are available offline.
    fs::copy(crates.join("../Cargo.lock"), folder.path().join("Cargo.lock")).unwrap();
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let checked = Command::new(env!("CARGO"))
        .args(["check", "--quiet", "--offline", "--target-dir"])
        .arg(target)
        .current_dir(folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success(), "{said}");
}

//! A sandbox for one test.

use std::path::{Path, PathBuf};

use allowlist::Allowlist;
use futures_util::StreamExt as _;
use sandbox::credentials::PreparedSecrets;
use sandbox::diagnostics::Role;
use sandbox::{
    CommandResult, CommandSpec, ContainerEnv, EngineAddress, Execution, ImageSource, ImageTag, Input, Mount,
    Network, NetworkSandboxConfig, OutputChunk, ResourceLimits, Sandbox, SandboxConfig, TaskSpec,
};
use tempfile::TempDir;

use crate::DEADLINE;
use crate::engine;
use crate::setting::Setting;
use crate::world::World;

/// The prefix that all fixtures share: they coexist, like two gateways on one host.
pub const PREFIX: &str = "e2e";

/// A started sandbox, an image, and its own folders.
#[derive(Debug)]
pub struct Fixture {
    /// The sandbox.
    pub sandbox: Sandbox,
    /// An image with all clients, ready for tasks.
    pub image: ImageTag,
    folder: TempDir,
    _remover: Remover,
}

/// Removes the containers of a failed test, whose runs would outlive it.
#[derive(Debug)]
struct Remover {
    instance: String,
}

impl Drop for Remover {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let instance = self.instance.clone();
        // In a thread: the runtime of the test is blocked until this returns.
        let removing = std::thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            runtime.block_on(engine::remove_containers(&instance));
        });
        // An error here must not hide the failure of the test.
        let _ = removing.join();
    }
}

/// The result of a script.
#[derive(Debug)]
pub struct Ran {
    /// Its exit code.
    pub code: i64,
    /// What it printed to stdout.
    pub stdout: String,
    /// What it printed to stderr.
    pub stderr: String,
    /// The lines that it added to the network log.
    pub log: String,
    /// The whole result.
    pub result: CommandResult,
}

impl Ran {
    /// The log's lines that contain `text`.
    #[must_use]
    pub fn log_lines(&self, text: &str) -> Vec<&str> {
        self.log.lines().filter(|line| line.contains(text)).collect()
    }
}

/// The configuration of a sandbox that reaches the servers of [`World`], with state in `state_dir`.
///
/// # Panics
///
/// If the address of the engine is invalid.
#[must_use]
pub fn config(state_dir: &Path) -> SandboxConfig {
    let setting = Setting::of_this_run();
    let world = World::shared();
    let engine: EngineAddress = setting.engine.parse().expect("SANDBOX_E2E_ENGINE is an address");
    let mut config = SandboxConfig::new(engine, state_dir);
    PREFIX.clone_into(&mut config.prefix);
    config.proxy_dir = Some(setting.proxy_dir.clone());
    config.upstream.dns = Some(world.dns());
    world.roots_pem().clone_into(&mut config.upstream.extra_roots_pem);
    config.upstream.allow_addresses = vec!["203.0.113.0/24".parse().expect("a network")];
    config
}

/// The state folder that all fixtures of this test run share.
#[must_use]
pub fn state_dir() -> PathBuf {
    Setting::of_this_run().folder.join("state")
}

impl Fixture {
    /// A started sandbox with the clients' image.
    pub async fn new() -> Self {
        Self::with(config(&state_dir())).await
    }

    /// Like [`new`](Self::new), with a configuration of the test.
    ///
    /// # Panics
    ///
    /// If the sandbox fails to start.
    pub async fn with(config: SandboxConfig) -> Self {
        let sandbox = Sandbox::start(config).await.expect("the sandbox starts");
        let source = ImageSource::existing(&Setting::of_this_run().clients_image);
        let image = sandbox.ensure_image(&source).await.expect("the clients' image is there");
        let instance = sandbox.instance_id().to_owned();
        Self {
            sandbox,
            image,
            folder: tempfile::tempdir().expect("a folder"),
            _remover: Remover { instance },
        }
    }

    /// The test's own folder on the host.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// `command`, on a network with the YAML document `allowlist` as its policy.
    ///
    /// # Panics
    ///
    /// If the document is invalid.
    #[must_use]
    pub fn command(&self, allowlist: &str, command: &[&str]) -> CommandSpec {
        CommandSpec::new("test", self.image.clone(), command.iter().copied())
            .network(network(allowlist))
            .network_log_dir(self.folder.path())
            .limits(ResourceLimits::default().timeout(DEADLINE))
            .mount(Mount::read_only_at(&Setting::of_this_run().probe, "/probe"))
    }

    /// Like [`command`](Self::command), with the surrogates of `secrets` in the environment, and
    /// the real values in the proxy.
    #[must_use]
    pub fn command_with(&self, secrets: &PreparedSecrets, allowlist: &str, command: &[&str]) -> CommandSpec {
        self.command(allowlist, command)
            .env(ContainerEnv::new(secrets.env_vars().clone()))
            .network(network_with(allowlist, secrets))
    }

    /// Runs the bash script `script` with `secrets`.
    pub async fn run_with(&self, secrets: &PreparedSecrets, allowlist: &str, script: &str) -> Ran {
        self.run_spec(self.command_with(secrets, allowlist, &["bash", "-c", script])).await
    }

    /// Runs the bash script `script`.
    pub async fn run(&self, allowlist: &str, script: &str) -> Ran {
        self.run_spec(self.command(allowlist, &["bash", "-c", script])).await
    }

    /// Runs a command.
    ///
    /// # Panics
    ///
    /// If the sandbox fails.
    pub async fn run_spec(&self, spec: CommandSpec) -> Ran {
        let before = self.log().len();
        let command = self.sandbox.create_command(spec).expect("a good command");
        let result = command.execute(Input::Empty).await.expect("the sandbox works");
        Ran {
            code: result.exit_code,
            stdout: String::from_utf8_lossy(&result.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&result.stderr).into_owned(),
            log: self.log().split_off(before),
            result,
        }
    }

    /// The network log of all runs.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("network-sandbox.log")).unwrap_or_default()
    }

    /// A task that runs the real Claude Code against a fake of its API.
    #[must_use]
    pub fn agent(&self) -> TaskSpec {
        let env = ContainerEnv::default()
            .with("ANTHROPIC_API_KEY", "sk-ant-api03-e2e")
            .with("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
            .with("CLAUDE_CODE_MAX_RETRIES", "1");
        TaskSpec::new("agent", self.image.clone(), self.folder.path().join("session"))
            .claude_binary(&Setting::of_this_run().claude)
            .env(env)
            .network(network("domains: [api.anthropic.com]"))
            .network_log_dir(self.folder.path())
            .limits(ResourceLimits::default().timeout(DEADLINE))
    }

    /// The name of this fixture's container with `role`.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub async fn container(&self, role: Role) -> String {
        let inventory = self.sandbox.inventory().await.expect("the engine answers");
        let ours = inventory.instances.iter().find(|instance| instance.id == self.sandbox.instance_id());
        let object = ours.and_then(|instance| instance.objects.iter().find(|object| object.role == role));
        object.expect("a container with this role").name.clone()
    }

    /// Shuts the sandbox down.
    ///
    /// # Panics
    ///
    /// If objects of it remain on the engine.
    pub async fn close(self) {
        self.sandbox.shutdown().await.expect("nothing is left");
    }
}

/// The stdout of a command, until `enough` is true for all of it so far, or the command ends.
pub async fn read_until(
    execution: &mut Execution<OutputChunk, CommandResult>,
    enough: impl Fn(&str) -> bool,
) -> String {
    let mut output = Vec::new();
    while let Some(chunk) = execution.next().await {
        if let OutputChunk::Stdout(bytes) = chunk {
            output.extend_from_slice(&bytes);
            if enough(&String::from_utf8_lossy(&output)) {
                break;
            }
        }
    }
    String::from_utf8_lossy(&output).into_owned()
}

/// A network with the YAML document `allowlist` as its policy.
///
/// # Panics
///
/// If the document is invalid.
#[must_use]
pub fn network(allowlist: &str) -> Network {
    Network::Sandboxed(permitting(allowlist))
}

/// Like [`network`], with a proxy that has `secrets`.
///
/// # Panics
///
/// If the document is invalid.
#[must_use]
pub fn network_with(allowlist: &str, secrets: &PreparedSecrets) -> Network {
    Network::Sandboxed(permitting(allowlist).replacements(secrets.replacements().clone()))
}

fn permitting(allowlist: &str) -> NetworkSandboxConfig {
    NetworkSandboxConfig::new(Allowlist::from_yaml(allowlist, "test.yaml").expect("a good allowlist"))
}

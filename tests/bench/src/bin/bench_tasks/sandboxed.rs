//! The same `true` in a sandbox: through the library, and through the `sandbox` command.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use allowlist::Allowlist;
use anyhow::{Context, Result, bail};
use sandbox::diagnostics::ObjectKind;
use sandbox::executor::{ExecOptions, ExecutorConfig};
use sandbox::{
    CommandSpec, ImageSource, ImageTag, Input, Mount, Network, NetworkSandboxConfig, Sandbox, SandboxConfig,
    Timings,
};

use super::Args;

/// No request is made, so nothing needs to answer there.
const NAME_SERVER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 10);
const ALLOWLIST: &str = "domains: [origin.bench]\n";
const TIMEOUT: Duration = Duration::from_secs(30);

/// A started sandbox of the library.
pub(crate) struct Library {
    sandbox: Sandbox,
    image: ImageTag,
}

impl Library {
    pub(crate) async fn start(args: &Args, state: &Path) -> Result<Self> {
        let engine = args.engine.parse().context("invalid engine address")?;
        let mut config = SandboxConfig::new(engine, state);
        "sandbox-bench".clone_into(&mut config.prefix);
        config.proxy_dir = Some(args.proxy_dir.clone());
        config.upstream.dns = Some(SocketAddr::from((NAME_SERVER, 53)));
        let sandbox = Sandbox::start(config).await.context("failed to start the sandbox")?;
        let image =
            sandbox.ensure_image(&ImageSource::existing(&args.image)).await.context("there is no image")?;
        Ok(Self { sandbox, image })
    }

    /// Runs the shell script `script`; returns the time until its exit code was known, and its
    /// phases.
    pub(crate) async fn run(&self, script: &str, mount: Option<Mount>) -> Result<(Duration, Timings)> {
        let ran = self.execute(script, mount).await?;
        self.await_cleaning().await?;
        Ok(ran)
    }

    /// Runs `true`, without waiting for the removal; returns the time until its exit code was known.
    pub(crate) async fn run_true(&self) -> Result<Duration> {
        Ok(self.execute("true", None).await?.0)
    }

    async fn execute(&self, script: &str, mount: Option<Mount>) -> Result<(Duration, Timings)> {
        let policy = Allowlist::from_yaml(ALLOWLIST, "bench.yaml").context("failed to read the policy")?;
        let mut spec = CommandSpec::new("bench", self.image.clone(), program(script))
            .network(Network::Sandboxed(NetworkSandboxConfig::new(policy)));
        if let Some(mount) = mount {
            spec = spec.mount(mount);
        }
        let begin = Instant::now();
        let command = self.sandbox.create_command(spec).context("failed to create the command")?;
        let result = command.execute(Input::Empty).await.context("failed to execute the command")?;
        let wall = begin.elapsed();
        if result.exit_code != 0 {
            bail!("`{script}` ended with {}", result.exit_code);
        }
        Ok((wall, result.timings))
    }

    /// Runs `true` with a proxy that was started ahead; returns the time until its exit code was known.
    pub(crate) async fn run_warm(&self) -> Result<Duration> {
        self.sandbox.warm(1).await.context("failed to start a proxy ahead")?;
        self.await_states(|states| states == ["running"]).await?;
        Ok(self.run("true", None).await?.0)
    }

    /// The durations of `true` in the running container of an executor, `rounds` times.
    pub(crate) async fn execs(&self, rounds: u32) -> Result<Vec<Duration>> {
        let policy = Allowlist::from_yaml(ALLOWLIST, "bench.yaml").context("failed to read the policy")?;
        let config = ExecutorConfig::new("bench-executor", self.image.clone())
            .network(Network::Sandboxed(NetworkSandboxConfig::new(policy)));
        let executor = self.sandbox.create_executor(config).context("failed to create the executor")?;
        let mut durations = Vec::new();
        // The first one creates the container.
        for _ in 0..=rounds {
            let begin = Instant::now();
            let result = executor.execute(["true"], ExecOptions::default());
            let result = result.await.context("failed to execute")?;
            durations.push(begin.elapsed());
            if result.exit_code != 0 {
                bail!("`true` ended with {}", result.exit_code);
            }
        }
        executor.cleanup().await.context("failed to remove the executor's container")?;
        Ok(durations.split_off(1))
    }

    /// The library removes executions in the background, which must not overlap with the next
    /// measurement.
    pub(crate) async fn await_cleaning(&self) -> Result<()> {
        self.await_states(<[String]>::is_empty).await
    }

    /// Waits until the states of all containers are `expected`.
    async fn await_states(&self, expected: impl Fn(&[String]) -> bool) -> Result<()> {
        let deadline = Instant::now() + TIMEOUT;
        while Instant::now() < deadline {
            let inventory = self.sandbox.inventory().await.context("failed to list the resources")?;
            let objects = inventory.instances.into_iter().flat_map(|instance| instance.objects);
            let containers = objects.filter(|object| object.kind == ObjectKind::Container);
            if expected(&containers.map(|object| object.state).collect::<Vec<_>>()) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        bail!("the containers are not as expected after {} s", TIMEOUT.as_secs())
    }

    pub(crate) async fn shutdown(self) -> Result<()> {
        self.sandbox.shutdown().await.context("failed to shut down the sandbox")
    }
}

/// The program without a shell, unless a script is needed.
fn program(script: &str) -> Vec<&str> {
    match script {
        "true" => vec!["true"],
        script => vec!["sh", "-c", script],
    }
}

/// A project in which the `sandbox` command runs.
pub(crate) struct CommandLine<'a> {
    sandbox: &'a Path,
    project: PathBuf,
    state: PathBuf,
}

impl<'a> CommandLine<'a> {
    /// The project is in `folder`, with the state next to it, since a mounted folder must not
    /// contain the state.
    pub(crate) fn new(args: &'a Args, folder: &Path) -> Result<Self> {
        let project = folder.join("project");
        let settings = project.join(".sandbox");
        fs::create_dir_all(&settings).with_context(|| format!("failed to create {}", settings.display()))?;
        let configuration = format!(
            "engine: \"{}\"\nimage: \"{}\"\nupstream: {{dns: {NAME_SERVER}}}\n",
            args.engine, args.image
        );
        fs::write(settings.join("sandbox.yaml"), configuration)
            .context("failed to write the configuration")?;
        fs::write(settings.join("network-allowlist.yaml"), ALLOWLIST)
            .context("failed to write the policy")?;
        Ok(Self { sandbox: &args.sandbox, project, state: folder.join("state") })
    }

    /// The `sandbox` command in the project.
    #[expect(clippy::disallowed_methods, reason = "the command itself is measured")]
    pub(crate) fn of(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = std::process::Command::new(self.sandbox);
        // Private engines do not see the user's home.
        command.arg("--trust").args(arguments).current_dir(&self.project).env("XDG_STATE_HOME", &self.state);
        command
    }

    /// Waits for the process that removes what a run left.
    pub(crate) async fn await_removal(&self) -> Result<()> {
        for lock in fs::read_dir(self.state.join("sandbox/instances")).context("failed to list the runs")? {
            // The file goes with the removal.
            if let Ok(file) = fs::File::open(lock.context("failed to list the runs")?.path()) {
                tokio::task::spawn_blocking(move || file.lock_shared()).await?.context("failed to wait")?;
            }
        }
        Ok(())
    }

    /// Runs `sandbox run -- true`, and waits for the removal of what it left.
    pub(crate) async fn run(&self) -> Result<()> {
        let mut command = self.of(&["run", "--", "true"]);
        command.stdin(Stdio::null());
        let output =
            tokio::process::Command::from(command).output().await.context("failed to start the command")?;
        if !output.status.success() {
            bail!(
                "`sandbox run -- true` ended with {}: {}",
                output.status,
                String::from_utf8_lossy(&output.stderr)
            );
        }
        self.await_removal().await
    }
}

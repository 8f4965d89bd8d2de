//! The environment of storms: an engine, a project, and a state folder that nothing else uses.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::engine::{PrivateEngine, Socket};
use crate::netns::Pair;
use crate::process::{self, command};
use crate::workspace;

/// The prefix of everything that storms create.
pub(super) const PREFIX: &str = "storm";

/// A program that replaces Claude Code.
const AGENT: &str = r#"#!/bin/bash
echo '{"type":"system","subtype":"init","session_id":"a-b-c"}'
for i in {1..10}; do echo "{\"type\":\"x\",\"number\":$i}"; sleep 0.02; done
echo '{"type":"result","subtype":"success","is_error":false,"result":"hi","session_id":"a-b-c","num_turns":1,"duration_ms":1,"duration_api_ms":1,"total_cost_usd":0}'
"#;

/// An engine, a project, and a state folder.
pub(crate) struct Field {
    pub(super) socket: Socket,
    pub(super) engine: u32,
    /// The network namespace of the engine's bridges. That of the process is another one if podman
    /// left its first thread in the namespace of a container.
    pub(super) network: PathBuf,
    /// Podman's command line for the engine's storage.
    pub(super) client: PathBuf,
    folder: PathBuf,
    sandbox: PathBuf,
    proxy_dir: PathBuf,
}

impl Field {
    /// Creates a new environment, without files of earlier storms.
    pub(crate) fn new(engine: &PrivateEngine, sandbox: PathBuf, proxy: &Path, image: &str) -> Result<Self> {
        let field = Self {
            socket: engine.socket().clone(),
            engine: engine.pid().context("the engine is not running")?,
            network: Pair::path(&engine.network().context("the engine has no network of its own")?.host),
            client: engine.client(),
            folder: workspace::state().join("storm"),
            sandbox,
            proxy_dir: proxy.parent().context("the proxy has no folder")?.to_owned(),
        };
        drop(fs::remove_dir_all(&field.folder));
        let settings = field.folder.join("project/.sandbox");
        fs::create_dir_all(&settings)?;
        fs::write(settings.join("network-allowlist.yaml"), "domains: [open.test]\n")?;
        let url = field.socket.url();
        let text =
            format!("engine: {url}\nprefix: {PREFIX}\nimage: {image}\nupstream: {{dns: 203.0.113.10:53}}\n");
        fs::write(settings.join("sandbox.yaml"), text)?;
        let agent = field.folder.join("claude");
        fs::write(&agent, AGENT)?;
        fs::set_permissions(&agent, fs::Permissions::from_mode(0o755))?;
        Ok(field)
    }

    /// The `sandbox` command in the project, on the engine behind `socket`.
    pub(super) fn sandbox_on(&self, socket: &Path, args: &[&str]) -> Command {
        let mut sandbox = self.sandbox(&["--engine", &Socket::new(socket).url()]);
        sandbox.args(args);
        sandbox
    }

    /// The `sandbox` command in the project.
    pub(super) fn sandbox(&self, args: &[&str]) -> Command {
        // The storm has written the settings itself, so it trusts them.
        let mut sandbox = command(&self.sandbox, ["--trust"]);
        sandbox
            .args(args)
            .current_dir(self.folder.join("project"))
            .env("XDG_STATE_HOME", self.folder.join("state"))
            .env("SANDBOX_PROXY_DIR", &self.proxy_dir)
            .env_remove("CONTAINER_HOST")
            .env_remove("DOCKER_HOST")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        sandbox
    }

    /// The name and arguments of a command that a storm runs and kills; each kind in turn.
    pub(super) fn kind(&self, number: u32) -> (&'static str, Vec<String>) {
        let script = ["--", "bash", "-c", "echo begun; sleep 0.2; echo ended"].map(str::to_owned);
        let (name, mut words) = match number % 4 {
            0 => ("run", vec!["run".to_owned()]),
            1 => ("run --workspace copy", ["run", "--workspace", "copy"].map(str::to_owned).into()),
            2 => ("exec", vec!["exec".to_owned()]),
            _ => {
                let at = |name: &str| self.folder.join(name).display().to_string();
                let words =
                    ["agent", "--claude-bin", &at("claude"), "--session-dir", &at("session"), "hello"];
                return ("agent", words.map(str::to_owned).into());
            }
        };
        words.extend(script);
        (name, words)
    }

    /// Runs `sandbox run -- echo` on the engine itself; returns the problem of a failed run.
    pub(super) fn next_run(&self) -> Result<Option<String>> {
        let output = output_within(
            self.sandbox(&["run", "--", "echo", "whole"]).stdout(Stdio::piped()).stderr(Stdio::piped()),
            Duration::from_mins(5),
        )?;
        let well = output.status.success() && output.stdout == b"whole\n";
        Ok((!well).then(|| {
            let text = String::from_utf8_lossy(&output.stderr);
            format!("{}: {}", output.status, text.trim())
        }))
    }

    /// Starts a task that continues until it is asked to end.
    pub(super) fn bystander(&self) -> Result<Child> {
        let script = "trap 'exit 7' TERM; echo ready; while :; do sleep 0.1; done";
        let mut child = self.sandbox(&["run", "--", "bash", "-c", script]).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        let stdout = child.stdout.take().context("a pipe")?;
        BufReader::new(stdout).read_line(&mut line)?;
        if line != "ready\n" {
            bail!("the bystander did not start");
        }
        Ok(child)
    }

    /// Ends the bystander; returns whether it was undisturbed until then.
    pub(super) fn release(mut bystander: Child) -> Result<bool> {
        let undisturbed = bystander.try_wait()?.is_none();
        process::run_quietly(&mut command("kill", ["-TERM", &bystander.id().to_string()]))?;
        let status = bystander.wait()?;
        Ok(undisturbed && matches!(status.code(), Some(7 | 143)))
    }

    pub(super) fn state(&self) -> PathBuf {
        self.folder.join("state")
    }

    pub(super) fn session(&self) -> PathBuf {
        self.folder.join("session")
    }

    /// A path for a socket, which must be short.
    pub(super) fn socket_at(&self, name: &str) -> PathBuf {
        self.socket.path().with_file_name(name)
    }
}

/// Runs a command, and kills it after the time limit.
pub(super) fn output_within(command: &mut Command, limit: Duration) -> Result<Output> {
    let child = command.spawn()?;
    let id = child.id();
    let (done, waiting) = std::sync::mpsc::channel::<()>();
    let guard = std::thread::spawn(move || {
        if waiting.recv_timeout(limit) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            drop(process::run_quietly(&mut process::command("kill", ["-KILL", &id.to_string()])));
        }
    });
    let output = child.wait_with_output()?;
    drop(done);
    drop(guard.join());
    Ok(output)
}

/// Random numbers that are reproducible from a seed.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `end`.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end.max(1)
    }
}

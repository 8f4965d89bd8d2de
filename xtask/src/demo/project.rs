//! A project that uses the sandbox: its `.sandbox/` folder, and runs of the `sandbox` command in
//! it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::{StandIn, command_line};
use crate::process;

/// The variable with the user's key, which Claude Code reads too.
pub(crate) const KEY: &str = "ANTHROPIC_API_KEY";
/// The network log of the last run.
const LOG: &str = "network.log";

/// The allowlist for the tasks of the demo.
pub(crate) const ALLOWLIST: &str = "domains:\n  - api.anthropic.com\nurl_prefixes:\n  - {host: allowed.example, path: /public/*, methods: [GET]}\n";

/// The API that Claude Code uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    /// The real one, with the user's key.
    Real,
    /// The stand-in, which accepts any key.
    StandIn,
}

/// A project's folder, and the command that runs in it.
pub(crate) struct Project {
    folder: PathBuf,
    sandbox: PathBuf,
    api: Api,
}

/// The settings of a project.
pub(crate) struct Settings<'a> {
    pub(crate) engine: &'a str,
    pub(crate) image: &'a str,
    pub(crate) stand_in: &'a StandIn,
}

impl Project {
    /// Writes the project, in place of an earlier one.
    pub(crate) fn write(
        folder: PathBuf,
        sandbox: PathBuf,
        api: Api,
        settings: &Settings<'_>,
    ) -> Result<Self> {
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("failed to remove {}", folder.display()))?;
        }
        let configuration = folder.join(".sandbox");
        fs::create_dir_all(&configuration)
            .with_context(|| format!("failed to create {}", configuration.display()))?;
        let files = [
            ("sandbox.yaml", with_stand_in(settings)),
            ("with-key.yaml", basic(settings)),
            ("network-allowlist.yaml", ALLOWLIST.to_owned()),
            ("stand-in.pem", settings.stand_in.authority().to_owned()),
        ];
        for (name, text) in files {
            let file = configuration.join(name);
            fs::write(&file, text).with_context(|| format!("failed to write {}", file.display()))?;
        }
        Ok(Self { folder, sandbox, api })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Builds the image for tasks from the one that the project names. Every run does so by itself
    /// if necessary.
    pub(crate) fn build_image(&self) -> Result<()> {
        let mut sandbox = self.command();
        sandbox.args(["image", "build"]);
        self.output(&mut sandbox).map(drop)
    }

    /// Runs a command in the sandbox; returns its output.
    pub(crate) fn run(&self, words: &[&str]) -> Result<String> {
        let mut sandbox = self.command();
        sandbox.args(["run", "--network-log", LOG, "--"]).args(words);
        self.output(&mut sandbox)
    }

    /// Asks Claude Code in the sandbox; returns its reply.
    pub(crate) fn ask(&self, claude: &Path, prompt: &str) -> Result<String> {
        let mut sandbox = self.command();
        sandbox.arg("agent");
        if self.api == Api::Real {
            sandbox.args(["--config", ".sandbox/with-key.yaml"]);
        }
        sandbox.arg("--claude-bin").arg(claude).arg(prompt);
        self.output(&mut sandbox)
    }

    /// The network log of all runs so far.
    pub(crate) fn network_log(&self) -> Result<String> {
        let file = self.folder.join(LOG);
        fs::read_to_string(&file).with_context(|| format!("failed to read {}", file.display()))
    }

    /// The network log of the newest run, as `sandbox logs` prints it.
    pub(crate) fn newest_log(&self) -> Result<String> {
        let mut sandbox = self.command();
        sandbox.arg("logs");
        self.output(&mut sandbox)
    }

    fn command(&self) -> Command {
        let mut sandbox = process::command(&self.sandbox, ["--trust"]);
        sandbox.current_dir(&self.folder).stdin(Stdio::null()).stderr(Stdio::inherit());
        // Private engines do not see the user's home, and the demo should write only to the
        // checkout.
        sandbox.env("XDG_STATE_HOME", self.folder.with_file_name("state"));
        // The project masks the key, so every run needs it.
        if self.api == Api::StandIn {
            sandbox.env(KEY, "sk-ant-any-key-will-do");
        }
        // The project specifies the engine; the environment must not override it.
        sandbox.env_remove("CONTAINER_HOST").env_remove("DOCKER_HOST");
        sandbox
    }

    fn output(&self, sandbox: &mut Command) -> Result<String> {
        command_line(&self.folder, sandbox);
        let output =
            sandbox.output().with_context(|| format!("failed to start {}", process::describe(sandbox)))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            bail!("{} ended with {}\n{text}", process::describe(sandbox), output.status);
        }
        Ok(text)
    }
}

/// The configuration of a project whose proxy reaches the real internet.
fn basic(settings: &Settings<'_>) -> String {
    // JSON is valid YAML, independently of the characters in the path.
    let engine = serde_json::Value::from(settings.engine);
    format!(
        "# Written by `cargo xtask demo`.\nengine: {engine}\nimage: {}\n\
         env: {{CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: \"1\"}}\nmasked_secrets: {{{KEY}: {{preset: anthropic}}}}\n",
        settings.image
    )
}

/// The configuration of a project whose whole internet is the stand-in.
fn with_stand_in(settings: &Settings<'_>) -> String {
    format!(
        "{}upstream:\n  dns: {}\n  extra_roots: stand-in.pem\n  allow_addresses: [{}]\n",
        basic(settings),
        settings.stand_in.address(),
        settings.stand_in.subnet(),
    )
}

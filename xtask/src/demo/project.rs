//! A project that uses the sandbox: its `.sandbox/` folder, and running the `sandbox` command in
//! it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::{StandIn, command_line};
use crate::process;

/// The variable that holds the user's key, for Claude Code too.
pub(crate) const KEY: &str = "ANTHROPIC_API_KEY";
/// The network log of the last run.
const LOG: &str = "network.log";

/// What the tasks of the demo may reach.
pub(crate) const ALLOWLIST: &str = "domains:\n  - api.anthropic.com\nurl_prefixes:\n  - {host: allowed.example, path: /public/*, methods: [GET]}\n";

/// Whom Claude Code asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    /// The real one, with the user's key.
    Real,
    /// The stand-in, which takes any key.
    StandIn,
}

/// The folder, and the command that is run in it.
pub(crate) struct Project {
    folder: PathBuf,
    sandbox: PathBuf,
    api: Api,
}

/// What a project consists of beside the folder.
pub(crate) struct Settings<'a> {
    pub(crate) engine: &'a str,
    pub(crate) image: &'a str,
    pub(crate) stand_in: &'a StandIn,
}

impl Project {
    /// Rewrites the project.
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

    /// Makes the image for tasks out of the one that the project names. Every run does so by itself
    /// where it has to.
    pub(crate) fn build_image(&self) -> Result<()> {
        let mut sandbox = self.command();
        sandbox.args(["image", "build"]);
        self.output(&mut sandbox).map(drop)
    }

    /// Runs a command in the sandbox; gives what it printed.
    pub(crate) fn run(&self, words: &[&str]) -> Result<String> {
        let mut sandbox = self.command();
        sandbox.args(["run", "--network-log", LOG, "--"]).args(words);
        self.output(&mut sandbox)
    }

    /// Asks Claude Code in the sandbox; gives its reply.
    pub(crate) fn ask(&self, claude: &Path, prompt: &str) -> Result<String> {
        let mut sandbox = self.command();
        sandbox.arg("agent");
        if self.api == Api::Real {
            sandbox.args(["--config", ".sandbox/with-key.yaml"]);
        }
        sandbox.arg("--claude-bin").arg(claude).arg(prompt);
        self.output(&mut sandbox)
    }

    /// The log of what the runs so far did on the network.
    pub(crate) fn network_log(&self) -> Result<String> {
        let file = self.folder.join(LOG);
        fs::read_to_string(&file).with_context(|| format!("failed to read {}", file.display()))
    }

    /// What the newest run did on the network, as the command reports it.
    pub(crate) fn newest_log(&self) -> Result<String> {
        let mut sandbox = self.command();
        sandbox.arg("logs");
        self.output(&mut sandbox)
    }

    fn command(&self) -> Command {
        let mut sandbox = process::command(&self.sandbox, ["--trust"]);
        sandbox.current_dir(&self.folder).stdin(Stdio::null()).stderr(Stdio::inherit());
        // Private engines see nothing of the user's home, and what the demo leaves stays in the
        // checkout.
        sandbox.env("XDG_STATE_HOME", self.folder.with_file_name("state"));
        // The project masks it, so that every run has to know it.
        if self.api == Api::StandIn {
            sandbox.env(KEY, "sk-ant-any-key-will-do");
        }
        // The project says which engine; what the environment says is not to count.
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

/// A project's configuration where the proxy reaches the real internet.
fn basic(settings: &Settings<'_>) -> String {
    // A JSON text is a YAML text too, whatever the path holds.
    let engine = serde_json::Value::from(settings.engine);
    format!(
        "# Written by `cargo xtask demo`.\nengine: {engine}\nimage: {}\n\
         env: {{CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: \"1\"}}\nmasked_secrets: {{{KEY}: {{preset: anthropic}}}}\n",
        settings.image
    )
}

/// The same where the stand-in is all the internet there is.
fn with_stand_in(settings: &Settings<'_>) -> String {
    format!(
        "{}upstream:\n  dns: {}\n  extra_roots: stand-in.pem\n  allow_addresses: [{}]\n",
        basic(settings),
        settings.stand_in.address(),
        settings.stand_in.subnet(),
    )
}

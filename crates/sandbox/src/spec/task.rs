//! Tasks and commands.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sandbox_agents::Agent;
use sandbox_podman::TerminalSize;

use super::{ImageTag, InvalidSpec, Launch, Mount, OnStall, Stall, attached_settings, launch_settings};

/// A headless agent, Claude Code by default, in a container, with a session that outlives the
/// container.
#[derive(Debug, Clone)]
pub struct TaskSpec {
    pub(crate) launch: Launch,
    pub(crate) session_dir: PathBuf,
    pub(crate) agent: Agent,
    pub(crate) agent_binary: Option<PathBuf>,
    pub(crate) result_grace: Option<Duration>,
    pub(crate) stall: Option<Stall>,
    pub(crate) briefing: bool,
    /// Names and contents.
    pub(crate) state_files: Vec<(String, Vec<u8>)>,
}

impl TaskSpec {
    /// How long an agent may continue after its result.
    const RESULT_GRACE: Duration = Duration::from_secs(30);

    /// A task of the execution context `context`: an opaque key that groups sessions, networks and
    /// container names.
    ///
    /// `session_dir` holds `context.json` and `claude/`, which is mounted at `/root/.claude` and
    /// named in `CLAUDE_CONFIG_DIR`: all of Claude Code's state is in it.
    /// `CLAUDE_CODE_DISABLE_BACKGROUND_TASKS` is `1`, because nothing reads the output after the
    /// answer. [`env`](Self::env) overrides both variables.
    pub fn new(context: impl Into<String>, image: ImageTag, session_dir: impl Into<PathBuf>) -> Self {
        Self {
            launch: Launch::new(context.into(), image),
            session_dir: session_dir.into(),
            agent: Agent::default(),
            agent_binary: None,
            result_grace: Some(Self::RESULT_GRACE),
            stall: None,
            briefing: true,
            state_files: Vec::new(),
        }
    }

    launch_settings!(limits: "no limits", isolation: "[`Isolation::agent`](crate::Isolation::agent)");

    attached_settings!();

    /// The agent. Default: Claude Code. Another agent keeps its state in a folder of its own name
    /// in `session_dir`, and its own variables refer to it. A folder with the session of one agent
    /// is refused for another.
    ///
    /// Its output lines are translated to events in the form of Claude Code's, with the session,
    /// texts, tools and result that it reports. Any other line is kept whole in an event of the
    /// type `agent_event`.
    #[must_use]
    pub fn agent(mut self, agent: Agent) -> Self {
        self.agent = agent;
        self
    }

    /// The agent's program on the host, mounted read-only: a native program that needs no files
    /// next to it. Exceptions are Codex's package and Gemini CLI's, which is a script for the
    /// image's node. Default: the image's program, by its name on the `PATH`.
    #[must_use]
    pub fn agent_binary(mut self, path: impl Into<PathBuf>) -> Self {
        self.agent_binary = Some(path.into());
        self
    }

    /// Like [`agent_binary`](Self::agent_binary), for Claude Code.
    #[must_use]
    pub fn claude_binary(self, path: impl Into<PathBuf>) -> Self {
        self.agent_binary(path)
    }

    /// How long Claude Code may continue after its result before it is stopped, which does not
    /// change the outcome. The start of another turn ends the wait. `None`: without limit. Default:
    /// 30 s.
    #[must_use]
    pub fn result_grace(mut self, grace: Option<Duration>) -> Self {
        self.result_grace = grace;
        self
    }

    /// The reaction when Claude Code has reported nothing for the time `after`, not even a retry of
    /// the API. A long-running tool reports nothing either. Time in which an event waits for its
    /// reader does not count. Default: no reaction.
    #[must_use]
    pub fn stall(mut self, after: Duration, then: OnStall) -> Self {
        self.stall = Some(Stall { after, then });
        self
    }

    /// Sets the default variables that the caller did not set.
    pub(crate) fn set_default_variables(&mut self) {
        for (name, value) in self.agent.variables() {
            if !self.launch.env.variables().contains_key(name) {
                self.launch.env = self.launch.env.clone().with(name, value);
            }
        }
    }

    /// Whether up to 2 KiB are appended to Claude Code's system prompt that describe what it may
    /// reach and write: the policy's hosts and paths, the services, the mounts and the time limit.
    /// Default: yes.
    #[must_use]
    pub fn briefing(mut self, briefing: bool) -> Self {
        self.briefing = briefing;
        self
    }

    /// A file in the folder of Claude Code's state, such as `.credentials.json` with surrogates. It
    /// is written before each execution and so replaces a task's changes. `name` must be a file
    /// name without a folder. A real value of a credential in `content` is an error.
    #[must_use]
    pub fn state_file(mut self, name: impl Into<String>, content: impl Into<Vec<u8>>) -> Self {
        self.state_files.push((name.into(), content.into()));
        self
    }

    fn validate_state_files(&self) -> Result<(), InvalidSpec> {
        for (name, content) in &self.state_files {
            if matches!(name.as_str(), "" | "." | "..") || name.contains(['/', '\0']) {
                return Err(InvalidSpec::new("state_file", "must be a file name without a folder"));
            }
            let text = String::from_utf8_lossy(content).into_owned();
            self.launch.refuse_values_in("state_file", &[text])?;
        }
        Ok(())
    }

    pub(crate) fn validate(&self) -> Result<(), InvalidSpec> {
        self.launch.validate()?;
        self.validate_state_files()?;
        if self.stall.is_some_and(|stall| stall.after.is_zero()) {
            return Err(InvalidSpec::new("stall", "must be greater than zero"));
        }
        self.launch.refuse_shadowing(self.agent.state())?;
        if let Some(binary) = &self.agent_binary {
            self.launch.refuse_shadowing(self.agent.program_dir())?;
            let refused = |problem: &str| {
                let agent = &self.agent;
                let shown = binary.display();
                let problem = format!("`{shown}` {problem}: for {agent}, give {}", agent.native());
                Err(InvalidSpec::new("agent_binary", problem))
            };
            if !binary.is_file() {
                return refused("is not a file");
            }
            if is_node_script(binary) && !self.agent.is_node_script() {
                return refused("is a script for node, which needs the files of its package");
            }
            if self.agent.lacks_package(binary, Path::is_file) {
                return refused("is not in its package, which it needs");
            }
        }
        self.refuse_session_in_reach()
    }

    /// A task that can write its own session folder could forge its history.
    fn refuse_session_in_reach(&self) -> Result<(), InvalidSpec> {
        let session = self.session_dir.canonicalize().unwrap_or_else(|_| self.session_dir.clone());
        let reaches = |mount: &&Mount| {
            mount
                .host_path()
                .canonicalize()
                .is_ok_and(|path| session.starts_with(&path) || path.starts_with(&session))
                && !mount.read_only()
        };
        match self.launch.mounts.iter().find(reaches) {
            Some(mount) => Err(InvalidSpec::new(
                "mounts",
                format!(
                    "`{}` would give the task the session folder `{}`; keep them apart or mount it read-only",
                    mount.host_path().display(),
                    self.session_dir.display()
                ),
            )),
            None => Ok(()),
        }
    }
}

/// Whether it is the script that npm installs. A shell script may be a single file.
fn is_node_script(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(256).read_to_end(&mut start));
    let first = start.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = first.strip_prefix(b"#!").unwrap_or_default();
    let mut words = line.split(u8::is_ascii_whitespace);
    read.is_ok() && words.any(|word| word == b"node" || word.ends_with(b"/node"))
}

/// Any command in a container.
#[derive(Debug, Clone)]
pub struct CommandSpec {
    pub(crate) launch: Launch,
    pub(crate) command: Vec<String>,
    pub(crate) terminal: Option<TerminalSize>,
}

impl CommandSpec {
    /// The command `command` (program first) in the execution context `context`.
    pub fn new(
        context: impl Into<String>,
        image: ImageTag,
        command: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self {
            launch: Launch::new(context.into(), image),
            command: command.into_iter().map(Into::into).collect(),
            terminal: None,
        }
    }

    launch_settings!(limits: "no limits", isolation: "[`Isolation::agent`](crate::Isolation::agent)");

    attached_settings!();

    /// Gives the command a terminal of this size, in characters, as its stdin, stdout and stderr.
    /// Its output is one stream, stdout, with terminal control sequences. The caller sets `TERM`.
    /// Default: no terminal.
    #[must_use]
    pub fn terminal(mut self, size: TerminalSize) -> Self {
        self.terminal = Some(size);
        self
    }

    pub(crate) fn validate(&self) -> Result<(), InvalidSpec> {
        self.launch.validate_command(&self.command)?;
        self.launch.validate()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use sandbox_credentials::{MaskedSecret, Preset, SecretValue, prepare_secrets};

    use super::*;
    use crate::spec::{
        ByteSize, ContainerEnv, HostEntry, Isolation, Network, NetworkSandboxConfig, ResourceLimits, Seccomp,
        Tmpfs,
    };

    #[test]
    fn real_value_of_a_surrogate_is_refused_everywhere() {
        let real = "a-real-value-of-some-length";
        let injection = Preset::Github.injection();
        let secret = MaskedSecret::new("TOKEN", SecretValue::new(real), injection);
        let secrets = prepare_secrets(&[secret], &[]).unwrap();
        let network = NetworkSandboxConfig::new(allowlist::Allowlist::default())
            .replacements(secrets.replacements().clone());
        let command = |argument: &str, env: &[(&str, &str)]| {
            let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            let env = ContainerEnv::new(secrets.env_vars().clone()).merge(&env.collect());
            CommandSpec::new("c", ImageTag::new("localhost/x:1"), ["echo", argument]).env(env)
        };
        let sandboxed = |command: CommandSpec| {
            let validated = command.network(Network::Sandboxed(network.clone())).validate();
            validated.err().map(|error| error.field().to_owned())
        };
        let inside = format!("x:{real}@y");
        assert_eq!(sandboxed(command("x", &[])), None);
        assert_eq!(sandboxed(command("x", &[("OTHER", &inside)])).as_deref(), Some("env"));
        assert_eq!(sandboxed(command(&inside, &[])).as_deref(), Some("command"));
        // Without a proxy there are no surrogates either.
        assert!(command(&inside, &[("OTHER", &inside)]).validate().is_ok());
    }

    #[test]
    fn state_file_with_a_folder_or_a_real_value_is_refused() {
        let real = "a-real-value-of-some-length";
        let secret = MaskedSecret::new("TOKEN", SecretValue::new(real), Preset::Github.injection());
        let secrets = prepare_secrets(&[secret], &[]).unwrap();
        let network = NetworkSandboxConfig::new(allowlist::Allowlist::default())
            .replacements(secrets.replacements().clone());
        let folder = tempfile::tempdir().unwrap();
        let problem = |name: &str, content: &str| {
            let spec = TaskSpec::new("c", ImageTag::new("localhost/x:1"), folder.path().join("session"))
                .network(Network::Sandboxed(network.clone()))
                .state_file(name, content);
            spec.validate().err().map(|error| error.field().to_owned())
        };
        assert_eq!(problem(".credentials.json", &secrets.env_vars()["TOKEN"]), None);
        for (name, content) in
            [("", ""), ("..", ""), ("a/b", ""), ("a\0", ""), ("a", &format!("{{\"x\":\"{real}\"}}"))]
        {
            assert_eq!(problem(name, content).as_deref(), Some("state_file"), "{name:?}");
        }
    }

    #[test]
    fn claude_binary_that_needs_other_files_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("claude");
        for (start, problem) in [
            (&b"#!/usr/bin/env node\nimport x\n"[..], Some("a script for node")),
            (b"#! /usr/bin/env -S node --x\r\n", Some("a script for node")),
            (b"#!/opt/node\n", Some("a script for node")),
            (b"#!/bin/bash\nnode\n", None),
            (b"#!/opt/node/bin/sh\n", None),
            (b"\x7fELF /node ", None),
        ] {
            std::fs::write(&program, start).unwrap();
            let spec = TaskSpec::new("c", ImageTag::new("localhost/x:1"), folder.path().join("session"))
                .claude_binary(&program);
            let error = spec.validate().err().map(|error| error.to_string());
            match problem {
                Some(problem) => assert!(
                    error.as_ref().is_some_and(|error| error.contains(problem)),
                    "{start:?}: {error:?}"
                ),
                None => assert_eq!(error, None, "{start:?}"),
            }
        }
    }

    #[test]
    fn contradicting_settings_are_refused_with_the_field() {
        let command =
            |isolation| CommandSpec::new("c", ImageTag::new("localhost/x:1"), ["true"]).isolation(isolation);
        let at = |target: &str| Mount::read_only_at("/", target);
        let tmpfs = Isolation { tmpfs: vec![Tmpfs::new("/data", 4096)], ..Isolation::agent() };
        let hosts =
            Isolation { hosts: vec![HostEntry::new("a.test", Ipv4Addr::LOCALHOST)], ..Isolation::agent() };
        let swap = Isolation { swap: 4096, ..Isolation::agent() };
        let bounded = ResourceLimits::default().memory(ByteSize::gib(1));
        let on_disk = ResourceLimits::default().disk(ByteSize::gib(1));
        let filtered = |seccomp| Isolation { seccomp, ..Isolation::agent() };
        let nowhere = Isolation { hostname: "a b".to_owned(), ..Isolation::agent() };
        for (spec, field) in [
            (command(tmpfs.clone()), None),
            (command(tmpfs.clone()).mount(at("/data/x")), None),
            (command(tmpfs).mount(at("/data/")), Some("isolation.tmpfs")),
            (command(hosts.clone()), None),
            (command(hosts).mount(at("/etc/hosts")), Some("isolation.hosts")),
            (command(swap.clone()).limits(bounded), None),
            (command(swap), Some("isolation.swap")),
            (command(nowhere), Some("isolation.hostname")),
            (command(Isolation::agent()).limits(on_disk), None),
            (command(filtered(Seccomp::Profile("/p.json".into()))).limits(on_disk), None),
            (command(filtered(Seccomp::Default)).limits(on_disk), Some("resource_limits.disk")),
            (command(filtered(Seccomp::Unconfined)).limits(on_disk), Some("resource_limits.disk")),
        ] {
            let error = spec.validate().err();
            assert_eq!(error.as_ref().map(InvalidSpec::field), field, "{error:?}");
        }
    }
}

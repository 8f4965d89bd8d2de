//! Tasks and commands.

use std::fs::File;
use std::io::Read as _;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{
    ContainerEnv, ImageTag, InvalidSpec, Isolation, Mount, Network, NetworkCallback, OnStall, ResourceLimits,
    Runtime, Seccomp, SshSigner, Stall, http_1, over_https, with_git_settings,
};
use crate::network_log::LogEntry;
use sandbox_files::host_path::Resolver;

/// What every image for tasks starts with.
const ENTRY_POINT: &str = "/usr/local/bin/sandbox-entrypoint";

/// What is common to tasks and commands.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    pub(crate) context: String,
    pub(crate) image: ImageTag,
    pub(crate) mounts: Vec<Mount>,
    pub(crate) env: ContainerEnv,
    pub(crate) network: Network,
    pub(crate) network_log_dir: Option<PathBuf>,
    pub(crate) on_network_event: Option<NetworkCallback>,
    pub(crate) limits: ResourceLimits,
    pub(crate) isolation: Isolation,
    pub(crate) working_dir: Option<String>,
    /// The name server of an unrestricted network; `None`: the engine's choice.
    pub(crate) dns: Option<Ipv4Addr>,
    pub(crate) ssh_signer: Option<Box<SshSigner>>,
}

impl Launch {
    /// Where the container looks names up before it asks a server.
    pub(crate) const HOSTS_FILE: &str = "/etc/hosts";
    /// Where distributions keep the bundle of authorities.
    pub(crate) const AUTHORITY_BUNDLES: [&str; 4] = [
        "/etc/ssl/certs/ca-certificates.crt",
        "/etc/pki/tls/certs/ca-bundle.crt",
        "/etc/ssl/cert.pem",
        "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    ];

    pub(crate) fn new(context: String, image: ImageTag) -> Self {
        Self {
            context,
            image,
            mounts: Vec::new(),
            env: ContainerEnv::default(),
            network: Network::default(),
            network_log_dir: None,
            on_network_event: None,
            limits: ResourceLimits::default(),
            isolation: Isolation::agent(),
            working_dir: None,
            dns: None,
            ssh_signer: None,
        }
    }

    pub(crate) fn validate(&self) -> Result<(), InvalidSpec> {
        if self.context.is_empty() || self.context.len() > 512 || self.context.contains(char::is_control) {
            return Err(InvalidSpec::new(
                "execution_context_id",
                "must be 1 to 512 bytes without control characters",
            ));
        }
        for mount in &self.mounts {
            mount.validate()?;
        }
        self.refuse_shadowing("/run/sandbox")?;
        self.refuse_shadowing(ENTRY_POINT)?;
        if matches!(self.network, Network::Sandboxed(_)) {
            // The bundle that the image has lies at one of these, and the proxy's authority is in what lies over it.
            Self::AUTHORITY_BUNDLES.into_iter().try_for_each(|bundle| self.refuse_shadowing(bundle))?;
        }
        self.refuse_twice()?;
        self.env.validate()?;
        self.limits.validate()?;
        self.isolation.validate()?;
        with_git_settings(&self.env, self.git_settings())?;
        self.refuse_real_values()?;
        self.refuse_contradictions()
    }

    /// Git's settings that go into variables, as keys and values.
    pub(crate) fn git_settings(&self) -> Vec<(String, String)> {
        let network = match &self.network {
            Network::Sandboxed(config) => {
                let hosts = config.secret_replacements().git_hosts();
                hosts.into_iter().flat_map(over_https).chain([http_1()]).collect()
            }
            Network::Disabled | Network::Unrestricted => Vec::new(),
        };
        let signing = self.ssh_signer.iter().flat_map(|signer| signer.git_settings());
        network.into_iter().chain(signing).collect()
    }

    /// A task that has a surrogate must not get the real value in another way.
    fn gives_away(&self, text: &str) -> bool {
        match &self.network {
            Network::Sandboxed(config) => config.secret_replacements().surrogate_of(text).is_some(),
            Network::Disabled | Network::Unrestricted => false,
        }
    }

    /// Arguments are in every process list.
    pub(crate) fn refuse_values_in(
        &self,
        field: &'static str,
        arguments: &[String],
    ) -> Result<(), InvalidSpec> {
        if arguments.iter().any(|argument| self.gives_away(argument)) {
            return Err(InvalidSpec::new(
                field,
                "holds the real value of a credential that the container has a surrogate of; write the surrogate's variable instead",
            ));
        }
        Ok(())
    }

    fn refuse_real_values(&self) -> Result<(), InvalidSpec> {
        let mut variables = self.env.variables().iter();
        match variables.find(|(_, value)| self.gives_away(value)) {
            Some((name, _)) => Err(InvalidSpec::new(
                "env",
                format!(
                    "`{}` holds the real value of a credential that the container has a surrogate of; leave it out",
                    name.escape_debug()
                ),
            )),
            None => Ok(()),
        }
    }

    /// What each part permits for itself and the others do not.
    fn refuse_contradictions(&self) -> Result<(), InvalidSpec> {
        if let Some(tmpfs) = self.isolation.tmpfs.iter().find(|tmpfs| self.has_mount_at(&tmpfs.path)) {
            return Err(InvalidSpec::new(
                "isolation.tmpfs",
                format!("a mount is already at `{}`; leave out one of them", tmpfs.path),
            ));
        }
        if !self.isolation.hosts.is_empty() && self.has_mount_at(Self::HOSTS_FILE) {
            return Err(InvalidSpec::new(
                "isolation.hosts",
                format!("a mount is already at `{}`; write the names into that file", Self::HOSTS_FILE),
            ));
        }
        if self.ssh_signer.is_some() {
            self.refuse_beside_a_signer()?;
        }
        if self.isolation.swap > 0 && self.limits.memory.is_none() {
            return Err(InvalidSpec::new(
                "isolation.swap",
                "means nothing without resource_limits.memory; set both",
            ));
        }
        if self.limits.disk.is_some()
            && matches!(self.isolation.seccomp, Seccomp::Default | Seccomp::Unconfined)
        {
            return Err(InvalidSpec::new(
                "resource_limits.disk",
                "holds only with the sandbox's own filter of system calls, without which a task can write where no quota counts; leave \
                 isolation.seccomp as it is",
            ));
        }
        Ok(())
    }

    fn refuse_beside_a_signer(&self) -> Result<(), InvalidSpec> {
        if self.env.variables().contains_key(SshSigner::VARIABLE) {
            return Err(InvalidSpec::new(
                "env",
                format!("`{}` names the socket of the signer; leave it out", SshSigner::VARIABLE),
            ));
        }
        if self.isolation.runtime == Some(Runtime::Runsc) {
            return Err(InvalidSpec::new("ssh_signer", SshSigner::NOT_IN_GVISOR));
        }
        Ok(())
    }

    /// Whether a mount of the caller's is at `target`.
    pub(crate) fn has_mount_at(&self, target: &str) -> bool {
        self.mounts.iter().any(|mount| Path::new(mount.container_path()) == Path::new(target))
    }

    /// A mount at or above `owned` would hide what the sandbox puts there; one below it would change it.
    fn refuse_shadowing(&self, owned: &str) -> Result<(), InvalidSpec> {
        let owned_path = Path::new(owned);
        let shadows = |mount: &&Mount| {
            let target = Path::new(mount.container_path());
            target.starts_with(owned_path) || owned_path.starts_with(target)
        };
        match self.mounts.iter().find(shadows) {
            Some(mount) => Err(InvalidSpec::new(
                "mounts",
                format!("`{}` would hide `{owned}`, which is the sandbox's own", mount.container_path()),
            )),
            None => Ok(()),
        }
    }

    /// From now on the mounts are those of the paths that were checked, wherever links lead later.
    pub(crate) fn resolve_mounts(&mut self, resolver: &Resolver) -> Result<(), InvalidSpec> {
        for mount in &mut self.mounts {
            *mount = mount.resolved(resolver)?;
        }
        Ok(())
    }

    /// A task may have put a link in the place of what a later execution mounts.
    pub(crate) fn refuse_moved_mounts(&self) -> Result<(), InvalidSpec> {
        self.mounts.iter().try_for_each(Mount::refuse_moved)
    }

    fn refuse_twice(&self) -> Result<(), InvalidSpec> {
        let mut targets: Vec<&str> = self.mounts.iter().map(Mount::container_path).collect();
        targets.sort_unstable();
        match targets.windows(2).find(|pair| pair.first() == pair.last()) {
            Some(pair) => Err(InvalidSpec::new(
                "mounts",
                format!("`{}` is mounted twice", pair.first().copied().unwrap_or_default()),
            )),
            None => Ok(()),
        }
    }
}

/// Builder methods that a [`TaskSpec`] and a [`CommandSpec`] share.
macro_rules! launch_settings {
    () => {
        /// Adds a mount.
        #[must_use]
        pub fn mount(mut self, mount: Mount) -> Self {
            self.launch.mounts.push(mount);
            self
        }

        /// The variables of the container. Default none.
        #[must_use]
        pub fn env(mut self, env: ContainerEnv) -> Self {
            self.launch.env = env;
            self
        }

        /// What the container may reach. Default nothing.
        #[must_use]
        pub fn network(mut self, network: Network) -> Self {
            self.launch.network = network;
            self
        }

        /// The folder for `network-sandbox.log` and `network-sandbox.jsonl`. Default: no log is kept. Each execution adds at most 96 MiB
        /// to each file: see [`NetworkLog`](crate::network::NetworkLog).
        #[must_use]
        pub fn network_log_dir(mut self, dir: impl Into<PathBuf>) -> Self {
            self.launch.network_log_dir = Some(dir.into());
            self
        }

        /// Calls `callback` with each entry of the network log and its line of the text log, in order, as it comes. It must not block: the
        /// proxy serves nothing that cannot be reported.
        #[must_use]
        pub fn on_network_event(
            mut self,
            callback: impl Fn(&LogEntry, &str) + Send + Sync + 'static,
        ) -> Self {
            self.launch.on_network_event = Some(NetworkCallback(std::sync::Arc::new(callback)));
            self
        }

        /// How much it may use. Default: no limits of ours.
        #[must_use]
        pub fn limits(mut self, limits: ResourceLimits) -> Self {
            self.launch.limits = limits;
            self
        }

        /// How it is confined. Default [`Isolation::agent`].
        #[must_use]
        pub fn isolation(mut self, isolation: Isolation) -> Self {
            self.launch.isolation = isolation;
            self
        }

        /// Gives it an SSH agent that signs git's commits, and nothing else unless the signer says so. Default none.
        #[must_use]
        pub fn ssh_signer(mut self, signer: SshSigner) -> Self {
            self.launch.ssh_signer = Some(Box::new(signer));
            self
        }

        /// The working directory in the container. Default: the image's.
        #[must_use]
        pub fn working_dir(mut self, dir: impl Into<String>) -> Self {
            self.launch.working_dir = Some(dir.into());
            self
        }
    };
}

/// Headless Claude Code in a container, with a session that survives it.
#[derive(Debug, Clone)]
pub struct TaskSpec {
    pub(crate) launch: Launch,
    pub(crate) session_dir: PathBuf,
    pub(crate) claude_binary: Option<PathBuf>,
    pub(crate) result_grace: Option<Duration>,
    pub(crate) stall: Option<Stall>,
    pub(crate) briefing: bool,
}

impl TaskSpec {
    /// Where Claude Code keeps its state in the container.
    pub(crate) const CLAUDE_STATE: &'static str = "/root/.claude";
    /// How long Claude Code may go on after its result.
    const RESULT_GRACE: Duration = Duration::from_secs(30);
    /// Where a program given by [`TaskSpec::claude_binary`] is mounted.
    pub(crate) const CLAUDE_PROGRAM: &'static str = "/opt/claude/claude";

    /// A task of the execution context `context`: an opaque key that groups session, network and container names.
    ///
    /// `session_dir` keeps `context.json` and `claude/`, which is mounted at `/root/.claude` and named in `CLAUDE_CONFIG_DIR`: all of Claude
    /// Code's state is in it. `CLAUDE_CODE_DISABLE_BACKGROUND_TASKS` is `1`, since what goes on after the answer has no one who reads it.
    /// [`env`](Self::env) may say otherwise of both.
    pub fn new(context: impl Into<String>, image: ImageTag, session_dir: impl Into<PathBuf>) -> Self {
        Self {
            launch: Launch::new(context.into(), image),
            session_dir: session_dir.into(),
            claude_binary: None,
            result_grace: Some(Self::RESULT_GRACE),
            stall: None,
            briefing: true,
        }
    }

    launch_settings!();

    /// A Claude Code executable of the host, mounted read-only without what lies beside it: the native program, not npm's script for node.
    /// Default: the image's `claude`.
    #[must_use]
    pub fn claude_binary(mut self, path: impl Into<PathBuf>) -> Self {
        self.claude_binary = Some(path.into());
        self
    }

    /// How long Claude Code may go on after its result before it is stopped, which leaves the outcome as it is. What begins another turn ends
    /// the wait. `None`: as long as it likes. Default 30 s.
    #[must_use]
    pub fn result_grace(mut self, grace: Option<Duration>) -> Self {
        self.result_grace = grace;
        self
    }

    /// What to do when Claude Code has reported nothing for the time `after`, not even that it tries the API again. A tool that runs for long
    /// reports nothing either. The time while an event waits for its reader does not count. Default: nothing is done.
    #[must_use]
    pub fn stall(mut self, after: Duration, then: OnStall) -> Self {
        self.stall = Some(Stall { after, then });
        self
    }

    /// What is in the environment unless the caller says otherwise.
    pub(crate) fn set_default_variables(&mut self) {
        for (name, value) in
            [("CLAUDE_CONFIG_DIR", Self::CLAUDE_STATE), ("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1")]
        {
            if !self.launch.env.variables().contains_key(name) {
                self.launch.env = self.launch.env.clone().with(name, value);
            }
        }
    }

    /// Whether Claude Code is told what it may reach and write, in at most 2 KiB that are appended to its system prompt. It names the policy's hosts and paths, the
    /// services, the mounts and the time limit. Default yes.
    #[must_use]
    pub fn briefing(mut self, briefing: bool) -> Self {
        self.briefing = briefing;
        self
    }

    pub(crate) fn validate(&self) -> Result<(), InvalidSpec> {
        self.launch.validate()?;
        if self.stall.is_some_and(|stall| stall.after.is_zero()) {
            return Err(InvalidSpec::new("stall", "must be longer than nothing"));
        }
        self.launch.refuse_shadowing(Self::CLAUDE_STATE)?;
        if let Some(binary) = &self.claude_binary {
            self.launch.refuse_shadowing(Self::CLAUDE_PROGRAM)?;
            if !binary.is_file() {
                return Err(InvalidSpec::new(
                    "claude_binary",
                    format!("`{}` is not a file", binary.display()),
                ));
            }
            if is_node_script(binary) {
                return Err(InvalidSpec::new(
                    "claude_binary",
                    format!(
                        "`{}` is a script for node, which needs what lies beside it: give Claude Code's native program",
                        binary.display()
                    ),
                ));
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

/// Whether it is what npm installs. A script for a shell may be a single file.
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
        }
    }

    launch_settings!();

    pub(crate) fn validate(&self) -> Result<(), InvalidSpec> {
        if self.command.first().is_none_or(String::is_empty) {
            return Err(InvalidSpec::new("command", "is empty; name a program to run"));
        }
        if self.command.iter().any(|argument| argument.contains('\0')) {
            return Err(InvalidSpec::new("command", "holds a NUL character"));
        }
        self.launch.refuse_values_in("command", &self.command)?;
        self.launch.validate()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use sandbox_credentials::{MaskedSecret, Preset, SecretValue, prepare_secrets};

    use super::*;
    use crate::spec::{ByteSize, HostEntry, NetworkSandboxConfig, Tmpfs};

    #[test]
    fn who_has_a_surrogate_gets_the_real_value_in_no_other_way() {
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
    fn a_claude_that_cannot_start_by_itself_is_refused() {
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
    fn parts_that_contradict_each_other_are_refused_with_the_field() {
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

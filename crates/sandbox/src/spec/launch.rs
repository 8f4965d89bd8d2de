//! Settings common to everything that is launched: tasks, commands, executors and detached runs.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use sandbox_files::host_path::Resolver;
use sandbox_workspace::GitIdentity;

use super::{
    ContainerEnv, ImageTag, InvalidSpec, Isolation, Mount, Network, NetworkCallback, ResourceLimits, Runtime,
    Seccomp, SshSigner, http_1, over_https, with_git_settings,
};

/// Builder methods of everything that is launched. Each type documents its default limits and
/// isolation.
macro_rules! launch_settings {
    (limits: $limits:literal, isolation: $isolation:literal) => {
        /// The variables of the container. Default none. Every user of the engine can read them.
        #[must_use]
        pub fn env(mut self, env: $crate::ContainerEnv) -> Self {
            self.launch.env = env;
            self
        }

        /// The container's network. Default: none.
        #[must_use]
        pub fn network(mut self, network: $crate::Network) -> Self {
            self.launch.network = network;
            self
        }

        #[doc = concat!("The resource limits. Default: ", $limits, ".")]
        #[must_use]
        pub fn limits(mut self, limits: $crate::ResourceLimits) -> Self {
            self.launch.limits = limits;
            self
        }

        #[doc = concat!("The confinement. Default: ", $isolation, ".")]
        #[must_use]
        pub fn isolation(mut self, isolation: $crate::Isolation) -> Self {
            self.launch.isolation = isolation;
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

/// Builder methods of everything that is launched and ends with this process.
macro_rules! attached_settings {
    () => {
        /// Adds a mount.
        #[must_use]
        pub fn mount(mut self, mount: $crate::Mount) -> Self {
            self.launch.mounts.push(mount);
            self
        }

        /// The folder for `network-sandbox.log` and `network-sandbox.jsonl`. Default: no log. Each
        /// container adds at most 96 MiB to each file: see
        /// [`NetworkLog`](crate::network::NetworkLog).
        #[must_use]
        pub fn network_log_dir(mut self, dir: impl Into<std::path::PathBuf>) -> Self {
            self.launch.network_log_dir = Some(dir.into());
            self
        }

        /// Calls `callback` with each entry of the network log and its line of the text log, in
        /// order, as it is written. It must not block: the proxy serves nothing that it cannot
        /// report.
        #[must_use]
        pub fn on_network_event(
            mut self,
            callback: impl Fn(&sandbox_network_log::LogEntry, &str) + Send + Sync + 'static,
        ) -> Self {
            self.launch.on_network_event = Some($crate::spec::NetworkCallback(std::sync::Arc::new(callback)));
            self
        }

        /// Gives the container an SSH agent that signs git's commits, and nothing else unless the
        /// signer allows it. Default: none.
        #[must_use]
        pub fn ssh_signer(mut self, signer: $crate::spec::SshSigner) -> Self {
            self.launch.ssh_signer = Some(Box::new(signer));
            self
        }

        /// The committer's identity, unless the image, the repository or a variable sets another.
        /// Default: none, so git reports its own error.
        #[must_use]
        pub fn git_identity(mut self, identity: sandbox_workspace::GitIdentity) -> Self {
            self.launch.git_identity = identity;
            self
        }
    };
}

pub(crate) use {attached_settings, launch_settings};

/// The prefix of every task image's entry point.
const ENTRY_POINT: &str = "/usr/local/bin/sandbox-entrypoint";

/// Settings common to everything that is launched.
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
    /// The name server of an unrestricted network. `None`: the engine's choice.
    pub(crate) dns: Option<Ipv4Addr>,
    pub(crate) ssh_signer: Option<Box<SshSigner>>,
    pub(crate) git_identity: GitIdentity,
}

impl Launch {
    /// The file in which the container looks up names before it asks a server.
    pub(crate) const HOSTS_FILE: &str = "/etc/hosts";
    /// The paths of the CA bundle in the distributions.
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
            git_identity: GitIdentity::default(),
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
            // The image's bundle is at one of these paths, and the proxy's CA is in the file that
            // is mounted over it.
            Self::AUTHORITY_BUNDLES.into_iter().try_for_each(|bundle| self.refuse_shadowing(bundle))?;
        }
        self.refuse_duplicates()?;
        self.env.validate()?;
        self.limits.validate()?;
        self.isolation.validate()?;
        with_git_settings(&self.env, self.git_settings())?;
        self.refuse_real_values()?;
        self.refuse_contradictions()
    }

    /// Git settings for variables, as keys and values.
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

    /// Whether `text` holds a real value whose surrogate the task has.
    fn contains_real_value(&self, text: &str) -> bool {
        match &self.network {
            Network::Sandboxed(config) => config.secret_replacements().surrogate_of(text).is_some(),
            Network::Disabled | Network::Unrestricted => false,
        }
    }

    /// Checks a command line, program first.
    pub(crate) fn validate_command(&self, command: &[String]) -> Result<(), InvalidSpec> {
        if command.first().is_none_or(String::is_empty) {
            return Err(InvalidSpec::new("command", "is empty; name a program to run"));
        }
        if command.iter().any(|argument| argument.contains('\0')) {
            return Err(InvalidSpec::new("command", "holds a NUL character"));
        }
        self.refuse_values_in("command", command)
    }

    /// Arguments are visible in every process list.
    pub(crate) fn refuse_values_in(
        &self,
        field: &'static str,
        arguments: &[String],
    ) -> Result<(), InvalidSpec> {
        if arguments.iter().any(|argument| self.contains_real_value(argument)) {
            return Err(InvalidSpec::new(
                field,
                "holds the real value of a credential that the container has a surrogate of; write the surrogate's variable instead",
            ));
        }
        Ok(())
    }

    fn refuse_real_values(&self) -> Result<(), InvalidSpec> {
        let mut variables = self.env.variables().iter();
        match variables.find(|(_, value)| self.contains_real_value(value)) {
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

    /// Combinations that are invalid although each part is valid.
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
            self.refuse_conflicts_with_signer()?;
        }
        if self.isolation.swap > 0 && self.limits.memory.is_none() {
            return Err(InvalidSpec::new("isolation.swap", "requires resource_limits.memory; set both"));
        }
        if self.limits.disk.is_some()
            && matches!(self.isolation.seccomp, Seccomp::Default | Seccomp::Unconfined)
        {
            return Err(InvalidSpec::new(
                "resource_limits.disk",
                "requires the sandbox's own seccomp filter, without which a task can write where no quota counts; do not set \
                 isolation.seccomp",
            ));
        }
        Ok(())
    }

    fn refuse_conflicts_with_signer(&self) -> Result<(), InvalidSpec> {
        if self.env.variables().contains_key(SshSigner::VARIABLE) {
            return Err(InvalidSpec::new(
                "env",
                format!("`{}` is set by the signer; leave it out", SshSigner::VARIABLE),
            ));
        }
        if self.isolation.runtime == Some(Runtime::Runsc) {
            return Err(InvalidSpec::new("ssh_signer", SshSigner::NOT_IN_GVISOR));
        }
        Ok(())
    }

    /// Whether the caller mounts something at `target`.
    pub(crate) fn has_mount_at(&self, target: &str) -> bool {
        self.mounts.iter().any(|mount| Path::new(mount.container_path()) == Path::new(target))
    }

    /// Refuses mounts at or above `owned`, which would hide the sandbox's own files there, and
    /// below it, which would change them.
    pub(super) fn refuse_shadowing(&self, owned: &str) -> Result<(), InvalidSpec> {
        let owned_path = Path::new(owned);
        let shadows = |mount: &&Mount| {
            let target = Path::new(mount.container_path());
            target.starts_with(owned_path) || owned_path.starts_with(target)
        };
        match self.mounts.iter().find(shadows) {
            Some(mount) => Err(InvalidSpec::new(
                "mounts",
                format!("`{}` would hide `{owned}`, which belongs to the sandbox", mount.container_path()),
            )),
            None => Ok(()),
        }
    }

    /// Resolves the mounts' paths once: later changes of links have no effect.
    pub(crate) fn resolve_mounts(&mut self, resolver: &Resolver) -> Result<(), InvalidSpec> {
        for mount in &mut self.mounts {
            *mount = mount.resolved(resolver)?;
        }
        Ok(())
    }

    /// A task may have replaced a path that a later execution mounts by a link.
    pub(crate) fn refuse_moved_mounts(&self) -> Result<(), InvalidSpec> {
        self.mounts.iter().try_for_each(Mount::refuse_moved)
    }

    fn refuse_duplicates(&self) -> Result<(), InvalidSpec> {
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

//! What all commands of an executor have in common.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use crate::spec::{
    ContainerEnv, ImageTag, InvalidSpec, Isolation, Launch, Mount, Network, ResourceLimits, Runtime,
    attached_settings, launch_settings,
};
use sandbox_files::host_path::Resolver;
use sandbox_workspace::Protection;

/// Where the container sees the workspace.
const WORKSPACE: &str = "/workspace";

/// Variables by which programs find a proxy.
const PROXY_VARIABLES: [&str; 4] = ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"];

/// How containers and commands belong together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExecutorMode {
    /// One container for all commands, made with the first one. They share its files, and can see
    /// and disturb one another while they run side by side; nothing that a command starts outlives
    /// it.
    #[default]
    Reuse,
    /// A container for each command: nothing but the workspace passes from one to the next.
    Fresh,
}

/// The folder of the host that commands work on, at `/workspace`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Workspace {
    /// None.
    #[default]
    None,
    /// For reading.
    ReadOnly(PathBuf),
    /// For reading and writing, as the user of [`Isolation::user`], who needs the rights for it.
    /// What is protected in it is what [`ExecutorConfig::protection`] says: without that, nothing.
    ReadWrite(PathBuf),
}

/// What all commands of an [`Executor`](crate::executor::Executor) have in common.
///
/// All commands of a container share its proxy. The timeout of the limits is that of each command
/// that has none of its own; all else is for the container, the supervisor's few processes
/// included: one, and one more for each running command. For limits of one command see
/// [`ExecOptions`](crate::executor::ExecOptions). PID 1 is always the sandbox's own: `init` of the
/// isolation has no meaning here.
///
/// A mount that is protected is looked through when a container has ended: see
/// [`ExecResult::tampered`](crate::executor::ExecResult::tampered). One that is copy-on-write
/// belongs to the executor as long as its container exists, and is refused with
/// [`ExecutorMode::Fresh`], where several containers would write in one copy. With a workspace,
/// that is the working directory unless another is given.
#[derive(Debug, Clone)]
pub struct ExecutorConfig {
    pub(super) launch: Launch,
    pub(super) workspace: Workspace,
    protection: Option<Protection>,
    pub(super) mode: ExecutorMode,
    pub(super) output_limit: usize,
    http_proxy: Option<String>,
}

impl ExecutorConfig {
    /// What is kept of each of stdout and stderr of a command unless something else is asked for: 1
    /// MiB.
    pub const DEFAULT_OUTPUT_LIMIT: usize = 1 << 20;

    /// Untrusted commands, in containers of `image`: [`Isolation::untrusted`],
    /// [`ResourceLimits::untrusted`] with a minute for each command, no network, no workspace.
    /// `context` is an opaque key that container names begin with.
    pub fn new(context: impl Into<String>, image: ImageTag) -> Self {
        Self {
            launch: Launch {
                isolation: Isolation::untrusted(),
                limits: ResourceLimits::untrusted(),
                ..Launch::new(context.into(), image)
            },
            workspace: Workspace::None,
            protection: None,
            mode: ExecutorMode::default(),
            output_limit: Self::DEFAULT_OUTPUT_LIMIT,
            http_proxy: None,
        }
    }

    launch_settings!(
        limits: "[`ResourceLimits::untrusted`](crate::ResourceLimits::untrusted)",
        isolation: "[`Isolation::untrusted`](crate::Isolation::untrusted)"
    );

    attached_settings!();

    /// What they work on. Default none.
    #[must_use]
    pub fn workspace(mut self, workspace: Workspace) -> Self {
        self.workspace = workspace;
        self
    }

    /// Keeps the host safe from what commands plant in a writable workspace, as
    /// [`Mount::protected`] does. Default: nothing does.
    #[must_use]
    pub fn protection(mut self, protection: Protection) -> Self {
        self.protection = Some(protection);
        self
    }

    /// One container, or one for each command. Default [`ExecutorMode::Reuse`].
    #[must_use]
    pub fn mode(mut self, mode: ExecutorMode) -> Self {
        self.mode = mode;
        self
    }

    /// Bytes that are kept of each of stdout and stderr of a command: both ends, and between them a
    /// line that says how much was cut. Default [`ExecutorConfig::DEFAULT_OUTPUT_LIMIT`].
    #[must_use]
    pub fn output_limit(mut self, bytes: usize) -> Self {
        self.output_limit = bytes;
        self
    }

    /// The name server of the container; for [`Network::Unrestricted`] only. Default: the engine's
    /// choice.
    #[must_use]
    pub fn dns(mut self, server: Ipv4Addr) -> Self {
        self.launch.dns = Some(server);
        self
    }

    /// Names this proxy in `HTTP_PROXY`, `HTTPS_PROXY` and their lower-case forms. Advice to
    /// programs, not a barrier; for [`Network::Unrestricted`] only.
    #[must_use]
    pub fn http_proxy(mut self, url: impl Into<String>) -> Self {
        self.http_proxy = Some(url.into());
        self
    }

    /// With everything that follows from something else filled in.
    pub(super) fn resolved(mut self, resolver: &Resolver) -> Result<Self, InvalidSpec> {
        let mount = match &self.workspace {
            Workspace::None => None,
            Workspace::ReadOnly(path) => Some(Mount::read_only_at(path, WORKSPACE)),
            Workspace::ReadWrite(path) => {
                let mount = Mount::read_write(path, WORKSPACE);
                Some(match self.protection.take() {
                    Some(protection) => mount.protected(protection),
                    None => mount,
                })
            }
        };
        if mount.is_some() {
            self.launch.working_dir.get_or_insert_with(|| WORKSPACE.to_owned());
        }
        self.launch.mounts.extend(mount);
        self.refuse_without_a_network()?;
        if self.mode == ExecutorMode::Reuse && self.launch.isolation.runtime == Some(Runtime::Runsc) {
            return Err(InvalidSpec::new(
                "mode",
                "gVisor lets a command into the first process of its container, and so into the commands after it: use \
                 `ExecutorMode::Fresh`",
            ));
        }
        self.refuse_a_shared_copy()?;
        if let Some(url) = self.http_proxy.take() {
            let named = PROXY_VARIABLES.into_iter().map(|name| (name, url.clone()));
            let named: ContainerEnv = named.collect();
            // What the caller says of one of them himself counts.
            self.launch.env = named.merge(self.launch.env.variables());
        }
        // The supervisor is PID 1: only there can no command end it.
        self.launch.isolation.init = false;
        if self.output_limit > 1 << 30 {
            return Err(InvalidSpec::new("output_limit", "must be at most 1 GiB"));
        }
        self.launch.validate()?;
        self.launch.resolve_mounts(resolver)?;
        Ok(self)
    }

    fn refuse_without_a_network(&self) -> Result<(), InvalidSpec> {
        let given = [("dns", self.launch.dns.is_some()), ("http_proxy", self.http_proxy.is_some())];
        match given.into_iter().find(|(_, given)| *given) {
            Some((field, _)) if self.launch.network != Network::Unrestricted => Err(InvalidSpec::new(
                field,
                "has a meaning with an unrestricted network only: else the sandbox decides what answers",
            )),
            _ => Ok(()),
        }
    }

    fn refuse_a_shared_copy(&self) -> Result<(), InvalidSpec> {
        let copy = self.launch.mounts.iter().find(|mount| mount.copy_dir().is_some());
        match copy {
            Some(mount) if self.mode == ExecutorMode::Fresh => Err(InvalidSpec::new(
                "mounts",
                format!(
                    "`{}` is mounted as a copy, which only one container can use at a time; reuse the container",
                    mount.container_path().escape_debug()
                ),
            )),
            _ => Ok(()),
        }
    }

    /// Whether something is to be done for the host when a container has ended.
    pub(super) fn is_guarded(&self) -> bool {
        self.launch.mounts.iter().any(Mount::is_guarded)
    }

    /// Whether what is written at `path` is there for the next command.
    pub(super) fn lasts(&self, path: &str) -> bool {
        let in_workspace =
            matches!(self.workspace, Workspace::ReadWrite(_)) && path.starts_with(&format!("{WORKSPACE}/"));
        self.mode == ExecutorMode::Reuse || in_workspace
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> ExecutorConfig {
        ExecutorConfig::new("c", ImageTag::new("localhost/x:1"))
    }

    #[test]
    fn the_defaults_are_those_of_untrusted_commands() {
        let resolved = config().resolved(&Resolver::default()).unwrap();
        let expected = Isolation { init: false, ..Isolation::untrusted() };
        assert_eq!(resolved.launch.isolation, expected);
        assert_eq!(resolved.launch.limits, ResourceLimits::untrusted());
        assert_eq!(resolved.launch.network, Network::Disabled);
        assert!(resolved.launch.mounts.is_empty() && resolved.launch.working_dir.is_none());
    }

    #[test]
    fn the_workspace_is_a_mount_and_the_working_directory() {
        let folder = tempfile::tempdir().unwrap();
        let path = || folder.path().to_owned();
        for (workspace, read_only) in
            [(Workspace::ReadOnly(path()), true), (Workspace::ReadWrite(path()), false)]
        {
            let launch = config().workspace(workspace).resolved(&Resolver::default()).unwrap().launch;
            assert_eq!(launch.mounts[0].container_path(), WORKSPACE);
            assert_eq!(launch.mounts[0].read_only(), read_only);
            assert_eq!(launch.working_dir.as_deref(), Some(WORKSPACE));
        }
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(folder.path(), &link).unwrap();
        let launch =
            config().workspace(Workspace::ReadOnly(link)).resolved(&Resolver::default()).unwrap().launch;
        launch.refuse_moved_mounts().unwrap();
        let twice =
            config().workspace(Workspace::ReadOnly(path())).mount(Mount::read_write(path(), "/workspace"));
        assert_eq!(twice.resolved(&Resolver::default()).unwrap_err().field(), "mounts");
    }

    #[test]
    fn a_copy_is_for_one_container_and_protection_for_a_writable_workspace() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::create_dir(path("tree")).unwrap();
        let with = |mode| config().mode(mode).mount(Mount::copy_on_write(path("tree"), "/x", path("copy")));
        assert!(with(ExecutorMode::Reuse).resolved(&Resolver::default()).unwrap().is_guarded());
        let refused = with(ExecutorMode::Fresh).resolved(&Resolver::default()).unwrap_err();
        assert!(
            refused.field() == "mounts" && refused.to_string().contains("reuse the container"),
            "{refused}"
        );
        for (workspace, protection, expected) in [
            (Workspace::ReadWrite(path("tree")), Some(Protection::default()), true),
            (Workspace::ReadWrite(path("tree")), Some(Protection::none()), false),
            (Workspace::ReadWrite(path("tree")), None, false),
            (Workspace::ReadOnly(path("tree")), Some(Protection::default()), false),
        ] {
            let mut config = config().workspace(workspace.clone());
            config.protection = protection;
            assert_eq!(
                config.resolved(&Resolver::default()).unwrap().is_guarded(),
                expected,
                "{workspace:?}"
            );
        }
    }

    #[test]
    fn a_proxy_is_named_to_programs_where_there_is_a_network() {
        let with = |network| config().network(network).http_proxy("http://p:1");
        let env = ContainerEnv::default().with("HTTP_PROXY", "mine");
        let launch = with(Network::Unrestricted).env(env).resolved(&Resolver::default()).unwrap().launch;
        let variables = launch.env.variables();
        assert_eq!(variables["https_proxy"], "http://p:1");
        assert_eq!(variables["HTTP_PROXY"], "mine");
        let error = with(Network::Disabled).resolved(&Resolver::default()).unwrap_err();
        assert_eq!(error.field(), "http_proxy");
        let error = config().dns(Ipv4Addr::LOCALHOST).resolved(&Resolver::default()).unwrap_err();
        assert_eq!(error.field(), "dns");
    }

    #[test]
    fn in_gvisor_no_command_shares_a_container_with_another() {
        let in_gvisor =
            config().isolation(Isolation { runtime: Some(Runtime::Runsc), ..Isolation::untrusted() });
        assert_eq!(in_gvisor.clone().resolved(&Resolver::default()).unwrap_err().field(), "mode");
        assert!(in_gvisor.mode(ExecutorMode::Fresh).resolved(&Resolver::default()).is_ok());
    }

    #[test]
    fn only_the_workspace_outlives_a_fresh_container() {
        let fresh = config().mode(ExecutorMode::Fresh);
        let read_write = Workspace::ReadWrite("/srv/w".into());
        for (config, path, lasts) in [
            (config(), "/tmp/x", true),
            (fresh.clone(), "/tmp/x", false),
            (fresh.clone(), "/workspace/x", false),
            (fresh.clone().workspace(read_write.clone()), "/workspace/x", true),
            (fresh.workspace(read_write), "/workspaces/x", false),
        ] {
            assert_eq!(config.lasts(path), lasts, "{path}");
        }
    }
}

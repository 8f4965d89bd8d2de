//! The configuration of an executor.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use crate::spec::{
    ContainerEnv, ImageTag, InvalidSpec, Isolation, Launch, Mount, Network, ResourceLimits, Runtime,
    attached_settings, launch_settings,
};
use sandbox_files::host_path::Resolver;
use sandbox_workspace::Protection;

/// The workspace's path in the container.
const WORKSPACE: &str = "/workspace";

/// Variables in which programs look for a proxy.
const PROXY_VARIABLES: [&str; 4] = ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"];

/// The assignment of commands to containers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExecutorMode {
    /// One container for all commands, created with the first one. The commands share its files,
    /// and can see and disturb one another while they run concurrently; no process of a command
    /// outlives the command.
    #[default]
    Reuse,
    /// A container for each command: only the workspace persists between commands.
    Fresh,
}

/// The folder of the host that commands work on, at `/workspace`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Workspace {
    /// No folder.
    #[default]
    None,
    /// Mounted read-only.
    ReadOnly(PathBuf),
    /// Mounted writable, for the user of [`Isolation::user`], who needs permission to write.
    /// [`ExecutorConfig::protection`] sets the protection of its files; by default there is none.
    ReadWrite(PathBuf),
}

/// The configuration of all commands of an [`Executor`](crate::executor::Executor).
///
/// All commands of a container share its proxy. The timeout of the limits applies to each command
/// without one of its own. All other limits apply to the container, including the supervisor's
/// processes: one, and one more for each running command. For limits of one command see
/// [`ExecOptions`](crate::executor::ExecOptions). PID 1 is always the sandbox's own: `init` of the
/// isolation has no effect here.
///
/// Protected mounts are inspected when a container has ended: see
/// [`ExecResult::tampered`](crate::executor::ExecResult::tampered). A copy-on-write mount belongs
/// to the executor as long as its container exists, and is refused with [`ExecutorMode::Fresh`],
/// where several containers would write to one copy. The workspace is the default working
/// directory.
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
    /// The default limit of kept output, for each of stdout and stderr of a command: 1 MiB.
    pub const DEFAULT_OUTPUT_LIMIT: usize = 1 << 20;

    /// Untrusted commands, in containers of `image`: [`Isolation::untrusted`],
    /// [`ResourceLimits::untrusted`] with a minute for each command, no network, no workspace.
    /// `context` is an opaque prefix of container names.
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

    /// The folder that commands work on. Default: none.
    #[must_use]
    pub fn workspace(mut self, workspace: Workspace) -> Self {
        self.workspace = workspace;
        self
    }

    /// Protects the host from files that commands plant in a writable workspace, like
    /// [`Mount::protected`]. Default: no protection.
    #[must_use]
    pub fn protection(mut self, protection: Protection) -> Self {
        self.protection = Some(protection);
        self
    }

    /// One container, or one for each command. Default: [`ExecutorMode::Reuse`].
    #[must_use]
    pub fn mode(mut self, mode: ExecutorMode) -> Self {
        self.mode = mode;
        self
    }

    /// The bytes that are kept of each of stdout and stderr of a command: both ends, and between
    /// them a line that states the size of the gap. Default:
    /// [`ExecutorConfig::DEFAULT_OUTPUT_LIMIT`].
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

    /// Sets `HTTP_PROXY`, `HTTPS_PROXY` and their lower-case forms to this proxy. Programs may
    /// ignore it; for [`Network::Unrestricted`] only.
    #[must_use]
    pub fn http_proxy(mut self, url: impl Into<String>) -> Self {
        self.http_proxy = Some(url.into());
        self
    }

    /// Fills in all derived settings.
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
                "gVisor lets a command access the first process of its container, and so later commands: use \
                 `ExecutorMode::Fresh`",
            ));
        }
        self.refuse_a_shared_copy()?;
        if let Some(url) = self.http_proxy.take() {
            let named = PROXY_VARIABLES.into_iter().map(|name| (name, url.clone()));
            let named: ContainerEnv = named.collect();
            // The caller's own variables take precedence.
            self.launch.env = named.merge(self.launch.env.variables());
        }
        // The supervisor must be PID 1: only there can no command end it.
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
                "requires an unrestricted network; on others the sandbox decides about name server and proxy",
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

    /// Whether mounts must be inspected when a container has ended.
    pub(super) fn is_guarded(&self) -> bool {
        self.launch.mounts.iter().any(Mount::is_guarded)
    }

    /// Whether a file written at `path` persists for the next command.
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
    fn default_configuration_is_for_untrusted_commands() {
        let resolved = config().resolved(&Resolver::default()).unwrap();
        let expected = Isolation { init: false, ..Isolation::untrusted() };
        assert_eq!(resolved.launch.isolation, expected);
        assert_eq!(resolved.launch.limits, ResourceLimits::untrusted());
        assert_eq!(resolved.launch.network, Network::Disabled);
        assert!(resolved.launch.mounts.is_empty() && resolved.launch.working_dir.is_none());
    }

    #[test]
    fn workspace_is_mounted_and_the_working_directory() {
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
    fn copy_with_fresh_containers_and_protection_without_write_access_are_refused() {
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
    fn http_proxy_without_a_network_is_refused() {
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
    fn reused_container_in_gvisor_is_refused() {
        let in_gvisor =
            config().isolation(Isolation { runtime: Some(Runtime::Runsc), ..Isolation::untrusted() });
        assert_eq!(in_gvisor.clone().resolved(&Resolver::default()).unwrap_err().field(), "mode");
        assert!(in_gvisor.mode(ExecutorMode::Fresh).resolved(&Resolver::default()).is_ok());
    }

    #[test]
    fn path_outside_of_the_workspace_does_not_persist_in_fresh_mode() {
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

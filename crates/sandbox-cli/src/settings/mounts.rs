//! The mounts of a task.

use std::path::{Path, PathBuf};

use sandbox::host_path::{Found, Resolver};
use sandbox::workspace::{OutsideRepository, Protection, WorkspaceCopy, WorkspaceError};
use sandbox::{EngineAddress, Mount};

use super::{Project, WORKSPACE};
use crate::config::{Folder, WorkspaceMode};
use crate::failure::Failure;
use located_yaml::InvalidFile;

impl Project {
    /// The work tree first, unless another mount replaces it; flags override the file.
    pub(super) fn mounts(&self, flags: &[Mount], mode: WorkspaceMode, unprotected: bool) -> Vec<Mount> {
        let mut mounts = vec![Mount::read_write(&self.root, WORKSPACE)];
        let named = self
            .file
            .mounts
            .iter()
            .map(|mount| (**mount).clone())
            .chain(flags.iter().map(|mount| mount.clone().relative_to(&self.current)));
        for mount in named {
            mounts.retain(|other| other.container_path() != mount.container_path());
            mounts.push(mount);
        }
        let copy_dir = self.copy_dir();
        let of_workspace = |mount: Mount| match mount.container_path() {
            // In read-only mounts, sockets are covered.
            WORKSPACE if mode == WorkspaceMode::Direct || mount.read_only() => {
                mount.protected(self.protection(unprotected))
            }
            WORKSPACE => Mount::copy_on_write(mount.host_path(), WORKSPACE, &copy_dir),
            _ => mount.protected(self.protection_elsewhere(unprotected)),
        };
        mounts.into_iter().map(of_workspace).collect()
    }

    /// `mounts` with the repository of the work tree, if that is outside of it, as for a linked
    /// work tree, and not mounted yet.
    pub(super) fn with_repository(&self, mut mounts: Vec<Mount>) -> Result<Vec<Mount>, Failure> {
        let tree = mounts.iter().find(|mount| mount.container_path() == WORKSPACE);
        let Some(tree) = tree.cloned() else { return Ok(mounts) };
        let Some(place) = OutsideRepository::place(tree.host_path(), WORKSPACE) else {
            return Ok(mounts);
        };
        let others = || mounts.iter().map(Mount::container_path).filter(|path| *path != WORKSPACE);
        if others().any(|path| place.starts_with(path)) {
            return Ok(mounts);
        }
        let found = OutsideRepository::of(tree.host_path(), WORKSPACE, &self.resolver_with(&mounts));
        let found = found.map_err(|error| Failure::new(error.to_string()).with_hint(error.hint()))?;
        mounts.extend(found.map(|repository| match tree.copy_dir() {
            Some(copy_dir) => repository.copied(copy_dir),
            None if tree.read_only() => repository.mount_read_only(),
            None => repository.mount(),
        }));
        Ok(mounts)
    }

    /// The errors of the mounts in the configuration.
    pub(super) fn mount_problems(&self) -> Vec<Failure> {
        let of_file = self.file.mounts.iter().filter_map(|mount| {
            let problem = mount.validate().err()?;
            Some(InvalidFile::new(mount.location(), problem.problem()).into())
        });
        let mode = self.file.workspace.unwrap_or(WorkspaceMode::Auto);
        let mounts = self.mounts(&[], mode, false);
        let work_tree = mounts
            .iter()
            .filter(|mount| mount.host_path() == self.root)
            .filter_map(|mount| mount.validate().err());
        let in_reach = self.check_mounts(&mounts, None, true).err();
        of_file.chain(work_tree.map(Failure::from)).chain(in_reach).collect()
    }

    /// The working directory of a task: `named`, which may be relative to the current folder's path in
    /// the container, otherwise that path.
    pub(super) fn working_dir(&self, named: Option<&str>) -> Result<String, Failure> {
        if let Some(named) = named.filter(|named| named.starts_with('/')) {
            return Ok(named.to_owned());
        }
        let below = self.current.strip_prefix(&self.root).unwrap_or(Path::new(""));
        let below = below.to_str().ok_or_else(|| {
            Failure::new(format!("the name of `{}` is not UTF-8", self.current.display()))
                .with_hint("run in a parent folder, or name a folder of the container with --workdir")
        })?;
        let parts = [WORKSPACE, below, named.unwrap_or_default()];
        Ok(parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/"))
    }

    /// Finishes or undoes a killed apply before a task works on the tree itself: it could change what is
    /// staged there.
    pub(super) fn settle_apply(&self) -> Result<(), Failure> {
        match WorkspaceCopy::settle_in(&self.copy_dir()) {
            Ok(()) => Ok(()),
            Err(WorkspaceError::Busy { .. }) => {
                Err(Failure::new("`sandbox apply` is changing this work tree")
                    .with_hint("run this again when it has ended"))
            }
            Err(error) => Err(Failure::doing("finish an apply that was killed")(error)
                .with_hint("`sandbox discard` gives it up; what it has done so far remains")),
        }
    }

    /// The folder of the copy of the work tree, which need not exist.
    pub(crate) fn copy_dir(&self) -> PathBuf {
        self.places.copy(&self.key)
    }

    /// The protection in folders that the task can write to. Settings are always protected: they
    /// are the rules of the next run.
    fn protection_elsewhere(&self, unprotected: bool) -> Protection {
        if unprotected || self.file.protect_workspace == Some(false) {
            Protection::none().with([Folder::NAME, Folder::FORMER_NAME])
        } else {
            Protection::default()
        }
    }

    /// The protection in the work tree, which includes the trusted files.
    pub(crate) fn protection(&self, unprotected: bool) -> Protection {
        self.protection_elsewhere(unprotected)
            .with(self.file.protected_paths.iter().map(|path| path.0.clone()))
            .with_paths(self.trusted_paths.iter().cloned())
            .with_paths(self.folder.elsewhere_in(&self.root))
            // It determines the folder that the next run mounts.
            .with_paths(OutsideRepository::place(&self.root, WORKSPACE).map(|_| ".git".into()))
    }

    /// A resolver for paths that knows where a task with `mounts` can write.
    pub(super) fn resolver_with(&self, mounts: &[Mount]) -> Resolver {
        with_mounts(self.resolver.clone(), mounts)
    }

    /// Refuses mounts that give a task control of the host: the sandbox's own keys, an engine's
    /// socket, and, unless `allow_system`, the root, home folders and system folders. The target of
    /// a path counts, not its name.
    pub(super) fn check_mounts(
        &self,
        mounts: &[Mount],
        engine: Option<&EngineAddress>,
        allow_system: bool,
    ) -> Result<(), Failure> {
        let resolver = self.resolver_with(mounts);
        let here = |path: &Path| Resolver::default().find(path).ok();
        let state = here(&self.places.state);
        let engine = engine.map(EngineAddress::socket);
        let sockets = ENGINE_SOCKETS.iter().map(Path::new).chain(engine);
        let sockets: Vec<Found> = sockets.filter_map(here).collect();
        for mount in mounts {
            let found = match resolver.find(mount.host_path()) {
                Ok(found) => found,
                // Reported with its location where the mount is validated.
                Err(error) if error.is_not_found() => continue,
                Err(error) => return Err(error.into()),
            };
            let refused = |why: &str| {
                let (path, target) = (mount.host_path().display(), mount.container_path());
                Failure::new(format!("`{path}`, mounted at {target}, {why}"))
            };
            if let Some(state) = &state
                && (found.contains(state)? || state.contains(&found)?)
            {
                let state = self.places.state.display();
                return Err(refused(&format!("would show the task the sandbox's own keys in `{state}`"))
                    .with_hint(
                        "run in the project's own folder, or set XDG_STATE_HOME to a folder outside of the mounts",
                    ));
            }
            for socket in &sockets {
                if found.contains(socket)? {
                    let socket = socket.path().display();
                    return Err(refused(&format!(
                        "would give the task the engine's socket `{socket}`, and thereby control of the host"
                    )));
                }
            }
            if !allow_system && is_system(found.path(), mount.read_only(), &self.homes) {
                return Err(refused("is a system folder or a home folder").with_hint(
                    "mount only the subfolder that the task needs, or pass --allow-system-mounts",
                ));
            }
        }
        Ok(())
    }
}

/// The usual sockets of engines.
const ENGINE_SOCKETS: [&str; 6] = [
    "/run/podman/podman.sock",
    "/run/sandbox/podman.sock",
    "/run/docker.sock",
    "/var/run/docker.sock",
    "/run/containerd/containerd.sock",
    "/run/crio/crio.sock",
];
/// System folders. No part of the last group can be mounted writable.
const SYSTEM: [&str; 6] = ["/", "/home", "/root", "/var", "/run", "/mnt"];
const SYSTEM_WHOLE: [&str; 11] =
    ["/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/sbin", "/sys", "/usr"];

/// Whether the real path `path` belongs to the system rather than to a user.
fn is_system(path: &Path, read_only: bool, homes: &[PathBuf]) -> bool {
    let is_home = path.parent() == Some(Path::new("/home")) || homes.iter().any(|home| home == path);
    let whole = SYSTEM_WHOLE.iter().map(Path::new);
    is_home
        || SYSTEM.iter().any(|system| path == Path::new(system))
        || whole.into_iter().any(|system| path == system || (!read_only && path.starts_with(system)))
}

/// The same, which knows where a task with `mounts` can write as well.
pub(super) fn with_mounts(mut resolver: Resolver, mounts: &[Mount]) -> Resolver {
    let writable = mounts.iter().filter(|mount| !mount.read_only());
    writable.for_each(|mount| resolver.add(mount.host_path()));
    resolver
}

#[cfg(test)]
mod tests {
    use std::fs;

    use located_yaml::Position;

    use super::super::fixtures::project;
    use super::*;
    use located_yaml::{Location, Spanned};

    #[test]
    fn work_tree_is_mounted_unless_another_mount_replaces_it() {
        let mut project = project(Path::new("/srv/app"), Path::new("/state"));
        let location = Location::new("sandbox.yaml", Position { line: 1, column: 1 });
        project.file.mounts = vec![Spanned::new("/data:/data".parse().unwrap(), location)];
        let mounts = |flags: &[&str]| {
            let flags: Vec<Mount> = flags.iter().map(|flag| flag.parse().unwrap()).collect();
            let mounts = project.mounts(&flags, WorkspaceMode::Direct, false);
            mounts
                .iter()
                .map(|mount| format!("{}:{}", mount.host_path().display(), mount.container_path()))
                .collect::<Vec<_>>()
        };
        assert_eq!(mounts(&[]), ["/srv/app:/workspace", "/data:/data"]);
        assert_eq!(mounts(&["sub:/workspace"]), ["/data:/data", "/srv/app/sub:/workspace"]);
        assert_eq!(mounts(&["/other:/data:ro"]), ["/srv/app:/workspace", "/other:/data"]);
    }

    #[test]
    fn mount_of_the_state_directory_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let state = home.join(".local/state/sandbox");
        let app = home.join("app");
        fs::create_dir(&app).unwrap();
        fs::create_dir_all(state.join("logs")).unwrap();
        for (mounted, good) in
            [(home.clone(), false), (state.join("logs"), false), (app, true), (home.join(".local"), false)]
        {
            let mounts = [Mount::read_only_at(&mounted, "/x")];
            let refused = project(&home, &state).check_mounts(&mounts, None, true);
            assert_eq!(refused.is_ok(), good, "{}", mounted.display());
        }
    }

    #[test]
    fn mount_of_an_engine_socket_is_refused_under_any_name() {
        let home = tempfile::tempdir().unwrap();
        let at = |path: &str| home.path().join(path);
        fs::create_dir_all(at("run/engine")).unwrap();
        fs::create_dir_all(at("app")).unwrap();
        std::os::unix::fs::symlink("run", at("alias")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("run/engine/podman.sock")).unwrap();
        let engine = EngineAddress::unix(at("run/engine/podman.sock"));
        let project = project(&at("app"), &at("state"));
        for (path, good) in
            [("run", false), ("alias/engine", false), ("run/engine/podman.sock", false), ("app", true)]
        {
            let mounts = [Mount::read_only_at(at(path), "/x")];
            assert_eq!(project.check_mounts(&mounts, Some(&engine), true).is_ok(), good, "{path}");
        }
    }

    #[test]
    fn system_folders_need_a_flag() {
        let homes = [PathBuf::from("/srv/people/ann")];
        for (path, read_only, system) in [
            ("/", true, true),
            ("/etc", true, true),
            ("/etc/ssl", true, false),
            ("/etc/ssl", false, true),
            ("/usr/local/share", false, true),
            ("/home/ann", true, true),
            ("/home/ann/app", false, false),
            ("/srv/people/ann", false, true),
            ("/srv/people/ann/app", false, false),
            ("/var/lib/app", false, false),
            ("/var", true, true),
        ] {
            assert_eq!(is_system(Path::new(path), read_only, &homes), system, "{path} {read_only}");
        }
    }
}

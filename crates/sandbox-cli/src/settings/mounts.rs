//! What of this machine a task sees.

use std::path::{Path, PathBuf};

use sandbox::{Mount, Protection};

use super::{Project, WORKSPACE};
use crate::config::InvalidFile;
use crate::failure::Failure;
use crate::workspace::{self, WorkspaceMode};

impl Project {
    /// The work tree first, unless another mount takes its place; those of the command line win over those of the file.
    pub(super) fn mounts(&self, flags: &[Mount], mode: WorkspaceMode, protection: &Protection) -> Vec<Mount> {
        let mut mounts = vec![Mount::read_write(&self.root, WORKSPACE)];
        let named = self
            .file
            .mounts
            .iter()
            .map(|(mount, _)| mount.clone())
            .chain(flags.iter().map(|mount| mount.clone().relative_to(&self.root)));
        for mount in named {
            mounts.retain(|other| other.container_path() != mount.container_path());
            mounts.push(mount);
        }
        let copy_dir = self.copy_dir();
        let of_workspace = |mount: Mount| match mount.container_path() {
            WORKSPACE => workspace::mounted(mount, mode, protection.clone(), &copy_dir),
            _ => mount,
        };
        mounts.into_iter().map(of_workspace).collect()
    }

    /// What is wrong with the mounts of a task that gets none but those of the configuration.
    pub(super) fn mount_faults(&self) -> Vec<Failure> {
        let of_file = self.file.mounts.iter().filter_map(|(mount, location)| {
            let fault = mount.validate().err()?;
            Some(InvalidFile::new(location, fault.problem()).into())
        });
        let mode = self.file.workspace.mode.unwrap_or(WorkspaceMode::Auto);
        let mounts = self.mounts(&[], mode, &self.protection());
        let work_tree = mounts
            .iter()
            .filter(|mount| mount.host_path() == self.root)
            .filter_map(|mount| mount.validate().err());
        let in_reach = self.refuse_state_in_reach(&mounts).err();
        of_file
            .chain(work_tree.map(Failure::from))
            .chain(in_reach)
            .collect()
    }

    /// Where the copy of the work tree is, where there is one.
    pub(crate) fn copy_dir(&self) -> PathBuf {
        self.places.copy(&self.key)
    }

    /// What is not applied of a copy by itself.
    pub(crate) fn protection(&self) -> Protection {
        workspace::protection(&self.file.workspace, false)
    }

    /// A task that sees the state directory has the key of the root authority.
    pub(super) fn refuse_state_in_reach(&self, mounts: &[Mount]) -> Result<(), Failure> {
        let state = resolved(&self.places.state);
        let reaches = |mount: &&Mount| {
            let path = resolved(mount.host_path());
            state.starts_with(&path) || path.starts_with(&state)
        };
        match mounts.iter().find(reaches) {
            Some(mount) => Err(Failure::new(format!(
                "`{}`, mounted at {}, would show the task the sandbox's own keys in `{}`",
                mount.host_path().display(),
                mount.container_path(),
                self.places.state.display()
            ))
            .with_hint(
                "run in the project's own folder, or point XDG_STATE_HOME outside of what is mounted",
            )),
            None => Ok(()),
        }
    }
}

/// The path without symbolic links, as far as it is there.
fn resolved(path: &Path) -> PathBuf {
    let there = path
        .ancestors()
        .find_map(|part| Some((part, part.canonicalize().ok()?)));
    match there {
        Some((part, real)) => real.join(path.strip_prefix(part).unwrap_or(Path::new(""))),
        None => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use located_yaml::Position;

    use super::super::fixtures::project;
    use super::*;
    use crate::config::Location;

    #[test]
    fn the_work_tree_is_mounted_unless_something_else_takes_its_place() {
        let mut project = project(Path::new("/srv/app"), Path::new("/state"));
        let location = Location::new("sandbox.yaml", Position { line: 1, column: 1 });
        project.file.mounts = vec![("/data:/data".parse().unwrap(), location)];
        let mounts = |flags: &[&str]| {
            let flags: Vec<Mount> = flags.iter().map(|flag| flag.parse().unwrap()).collect();
            let mounts = project.mounts(&flags, WorkspaceMode::Direct, &Protection::default());
            mounts
                .iter()
                .map(|mount| format!("{}:{}", mount.host_path().display(), mount.container_path()))
                .collect::<Vec<_>>()
        };
        assert_eq!(mounts(&[]), ["/srv/app:/workspace", "/data:/data"]);
        assert_eq!(
            mounts(&["sub:/workspace"]),
            ["/data:/data", "/srv/app/sub:/workspace"]
        );
        assert_eq!(
            mounts(&["/other:/data:ro"]),
            ["/srv/app:/workspace", "/other:/data"]
        );
    }

    #[test]
    fn a_task_never_sees_the_state_directory() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let state = home.join(".local/state/sandbox");
        let app = home.join("app");
        fs::create_dir(&app).unwrap();
        for (mounted, good) in [
            (home.clone(), false),
            (state.join("logs"), false),
            (app, true),
            (home.join(".local"), false),
        ] {
            let mounts = [Mount::read_only_at(&mounted, "/x")];
            let refused = project(&home, &state).refuse_state_in_reach(&mounts);
            assert_eq!(refused.is_ok(), good, "{}", mounted.display());
        }
    }
}

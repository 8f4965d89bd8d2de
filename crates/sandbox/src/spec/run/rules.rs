//! Rules across the parts of a run's specification.

use std::path::Path;

use crate::spec::InvalidSpec;

use super::{RunSpec, VolumeSpec};

/// Paths where the kernel or the engine has files of its own.
const NOT_OF_THE_IMAGE: [&str; 4] = ["/proc", "/sys", "/dev", "/etc/hosts"];

/// Checks combinations that are invalid although each part is valid.
pub(super) fn check(spec: &RunSpec) -> Result<(), InvalidSpec> {
    spec.launch.validate_command(&spec.command)?;
    if spec.launch.limits.timeout.is_some() {
        return Err(InvalidSpec::new(
            "resource_limits.timeout",
            "is not supported for runs, which continue until they are stopped",
        ));
    }
    if !(RunSpec::LEAST_LOG..=RunSpec::LARGEST_LOG).contains(&spec.log_limit) {
        return Err(InvalidSpec::new("log_limit", "must be from 64k to 1g"));
    }
    for (key, value) in &spec.annotations {
        key.check(value)?;
    }
    spec.volumes.iter().try_for_each(separable)?;
    refuse_log_in_reach(spec)?;
    if spec.sealed {
        spec.copied().try_for_each(|volume| copyable(spec, volume))?;
    }
    Ok(())
}

/// The mount syntax with a label uses colons as separators.
fn separable(volume: &VolumeSpec) -> Result<(), InvalidSpec> {
    if volume.host_path.to_str().is_some_and(|path| !path.contains(':')) {
        return Ok(());
    }
    Err(InvalidSpec::new(
        "volumes",
        format!(
            "`{}` must be UTF-8 without a colon, which the engine's volume syntax requires; rename it",
            volume.host_path.display()
        ),
    ))
}

/// A run that can write its own log could forge it.
fn refuse_log_in_reach(spec: &RunSpec) -> Result<(), InvalidSpec> {
    let Some(task_dir) = &spec.launch.network_log_dir else {
        return Ok(());
    };
    if !task_dir.is_absolute() {
        return Err(InvalidSpec::new("task_dir", format!("`{}` must be absolute", task_dir.display())));
    }
    let task_dir = task_dir.canonicalize().unwrap_or_else(|_| task_dir.clone());
    let reaches = |volume: &&VolumeSpec| {
        !volume.read_only
            && volume
                .host_path
                .canonicalize()
                .is_ok_and(|path| task_dir.starts_with(&path) || path.starts_with(&task_dir))
    };
    match spec.mounted().find(reaches) {
        Some(volume) => Err(InvalidSpec::new(
            "volumes",
            format!(
                "`{}` would give the container the task_dir `{}`; keep them apart or mount it read-only",
                volume.host_path.display(),
                task_dir.display()
            ),
        )),
        None => Ok(()),
    }
}

/// Refuses a copy to a path that something else covers: it would be invisible, or be written to the
/// host.
fn copyable(spec: &RunSpec, volume: &VolumeSpec) -> Result<(), InvalidSpec> {
    let target = volume.target();
    let covered = |by: &str| target.starts_with(by);
    let refused = |by: &str, what: &str| {
        Err(InvalidSpec::new(
            "volumes",
            format!(
                "`{}` cannot be copied to a sealed run: {what} `{by}` covers it; make it live, or choose another path",
                volume.container_path
            ),
        ))
    };
    if let Some(by) = NOT_OF_THE_IMAGE.into_iter().find(|by| covered(by)) {
        return refused(by, "the engine's own");
    }
    if let Some(live) = spec.mounted().find(|live| covered(&live.container_path)) {
        return refused(&live.container_path, "the live volume");
    }
    let isolation = spec.launch.isolation.clone().resolved("", &[]);
    match isolation.tmpfs.iter().find(|tmpfs| covered(&tmpfs.path)) {
        Some(tmpfs) => refused(&tmpfs.path, "the in-memory file system at"),
        None => Ok(()),
    }
}

/// The order in which volumes are copied to give the same result as mounts: a folder before its
/// contents, and at one depth the first one first.
pub(super) fn copy_order<'a>(volumes: impl Iterator<Item = &'a VolumeSpec>) -> Vec<&'a VolumeSpec> {
    let mut ordered: Vec<_> = volumes.collect();
    ordered.sort_by_key(|volume| Path::new(&volume.container_path).components().count());
    ordered
}

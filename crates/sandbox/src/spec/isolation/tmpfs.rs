//! In-memory file systems.

use super::rules;
use crate::spec::InvalidSpec;

/// An in-memory file system, initially empty, that counts towards the container's memory.
/// Set-user-id programs and device nodes have no effect on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tmpfs {
    /// Its path in the container.
    pub path: String,
    /// Bytes, at least 4096.
    pub size: u64,
    /// The mode of its root folder, which belongs to root: podman supports no other owner. Default:
    /// `0o1777`, writable by every user.
    pub mode: u16,
    /// Whether programs on it can be executed. Default: no.
    pub exec: bool,
    /// Whether the image's files at its path are copied into it. Default: no.
    pub copy_up: bool,
}

impl Tmpfs {
    /// A file system of `size` bytes at `path`, with defaults for the other fields.
    pub fn new(path: impl Into<String>, size: u64) -> Self {
        Self { path: path.into(), size, mode: 0o1777, exec: false, copy_up: false }
    }

    pub(super) fn validate(&self) -> Result<(), InvalidSpec> {
        let invalid = |problem: String| Err(InvalidSpec::new("isolation.tmpfs", problem));
        let path = self.path.escape_debug();
        if !rules::is_plain_path(&self.path) {
            return invalid(format!(
                "`{path}` is not a plain absolute path in the container; write it without `..`, `:` and `,`"
            ));
        }
        let target = std::path::Path::new(&self.path);
        if ["/proc", "/sys", "/dev", "/run/sandbox"].iter().any(|owned| target.starts_with(owned)) {
            return invalid(format!(
                "`{path}` would hide files of the engine or the sandbox; for /dev/shm, set isolation.shm_size"
            ));
        }
        if !(4096..=1 << 50).contains(&self.size) {
            return invalid(format!("`{path}` must have at least 4k"));
        }
        if self.mode > 0o7777 {
            return invalid(format!("the mode {:o} of `{path}` has more than four digits", self.mode));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tmpfs_that_hides_files_or_cannot_be_created_is_refused() {
        for (tmpfs, good) in [
            (Tmpfs::new("/tmp", 4096), true),
            (Tmpfs::new("/tmp", 4095), false),
            (Tmpfs::new("/", 1 << 20), false),
            (Tmpfs::new("/dev/shm", 1 << 20), false),
            (Tmpfs::new("/proc/acpi", 1 << 20), false),
            (Tmpfs::new("/run", 1 << 20), true),
            (Tmpfs::new("/run/sandbox/trust", 1 << 20), false),
            (Tmpfs::new("/x,size=9g", 1 << 20), false),
            (Tmpfs { mode: 0o10000, ..Tmpfs::new("/tmp", 4096) }, false),
        ] {
            assert_eq!(tmpfs.validate().is_ok(), good, "{tmpfs:?}");
        }
    }
}

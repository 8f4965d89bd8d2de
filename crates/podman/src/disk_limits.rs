//! Support of an engine for limits on a container's root file system.

use crate::facts::EngineFacts;

/// Support of an engine for limits on a container's root file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskLimits {
    /// Supported.
    Possible,
    /// Supported if its XFS is mounted with project quotas, which only creating a container with a
    /// limit can show.
    WithProjectQuotas,
    /// Not supported.
    Impossible,
}

impl DiskLimits {
    /// The requirements.
    pub const HINT: &'static str = "keep the storage of an engine of root on btrfs with `driver = \"btrfs\"`, or on XFS that is mounted with \
                                    the option `pquota`, as containers-storage.conf(5) says";
}

impl EngineFacts {
    /// Support of the engine for disk limits.
    #[must_use]
    pub fn disk_limits(&self) -> DiskLimits {
        match (self.storage_driver.as_str(), self.storage_file_system.as_str()) {
            // The kernel permits only root to set quotas.
            _ if self.rootless => DiskLimits::Impossible,
            ("btrfs", _) => DiskLimits::Possible,
            ("overlay", "xfs") => DiskLimits::WithProjectQuotas,
            _ => DiskLimits::Impossible,
        }
    }

    /// The storage of its images and containers, such as `overlay on extfs`.
    #[must_use]
    pub fn storage(&self) -> String {
        let owner = if self.rootless { " without root" } else { "" };
        match self.storage_file_system.as_str() {
            "" => format!("{}{owner}", self.storage_driver),
            system => format!("{} on {system}{owner}", self.storage_driver),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disk_limits_depend_on_the_storage() {
        for (driver, system, rootless, limits, storage) in [
            ("overlay", "extfs", false, DiskLimits::Impossible, "overlay on extfs"),
            ("overlay", "btrfs", false, DiskLimits::Impossible, "overlay on btrfs"),
            ("overlay", "xfs", false, DiskLimits::WithProjectQuotas, "overlay on xfs"),
            ("overlay", "xfs", true, DiskLimits::Impossible, "overlay on xfs without root"),
            ("btrfs", "", false, DiskLimits::Possible, "btrfs"),
            ("btrfs", "", true, DiskLimits::Impossible, "btrfs without root"),
            ("vfs", "", false, DiskLimits::Impossible, "vfs"),
            ("", "", false, DiskLimits::Impossible, ""),
        ] {
            let mut facts = EngineFacts::default();
            driver.clone_into(&mut facts.storage_driver);
            system.clone_into(&mut facts.storage_file_system);
            facts.rootless = rootless;
            assert_eq!(facts.disk_limits(), limits, "{driver} {system} {rootless}");
            assert_eq!(facts.storage(), storage);
        }
    }
}

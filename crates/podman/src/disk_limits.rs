//! Whether an engine can bound what a container writes to its root file system.

use crate::facts::EngineFacts;

/// Whether an engine can bound what a container writes to its root file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskLimits {
    /// It can.
    Possible,
    /// It can if its XFS was mounted with project quotas, which shows when a container is made with
    /// a limit.
    WithProjectQuotas,
    /// It cannot.
    Impossible,
}

impl DiskLimits {
    /// What makes it possible.
    pub const HINT: &'static str = "keep the storage of an engine of root on btrfs with `driver = \"btrfs\"`, or on XFS that is mounted with \
                                    the option `pquota`, as containers-storage.conf(5) says";
}

impl EngineFacts {
    /// Whether the engine can bound what a container writes.
    #[must_use]
    pub fn disk_limits(&self) -> DiskLimits {
        match (self.storage_driver.as_str(), self.storage_file_system.as_str()) {
            // The kernel lets none but root set quotas.
            _ if self.rootless => DiskLimits::Impossible,
            ("btrfs", _) => DiskLimits::Possible,
            ("overlay", "xfs") => DiskLimits::WithProjectQuotas,
            _ => DiskLimits::Impossible,
        }
    }

    /// What keeps its images and containers, such as `overlay on extfs`.
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
    fn only_some_storage_has_quotas() {
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

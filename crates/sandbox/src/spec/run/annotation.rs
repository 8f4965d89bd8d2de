//! Annotations, which runtimes and hooks of the host read.

use std::fmt;
use std::str::FromStr;

use crate::spec::InvalidSpec;

/// The annotations that a run may carry. A closed list: runtimes and hooks act on annotations with
/// their own privileges (crun takes hooks, devices and groups from them), so no others are passed
/// on.
///
/// Podman 4 drops annotations silently; there, requesting one is an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum AnnotationKey {
    /// `dossier.meta_path`: the path at which a reader on the host finds a container's description.
    DossierMetaPath,
    /// `krun.cpus`: processors of the virtual machine that `krun` creates, a number from 1 to 255.
    KrunCpus,
    /// `terok.sandbox.sidecar`: the file of a container's sidecar, for hooks that look for one.
    TerokSidecar,
}

impl AnnotationKey {
    const ALL: [Self; 3] = [Self::DossierMetaPath, Self::KrunCpus, Self::TerokSidecar];
    const LONGEST: usize = 4096;

    /// The annotation's key.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DossierMetaPath => "dossier.meta_path",
            Self::KrunCpus => "krun.cpus",
            Self::TerokSidecar => "terok.sandbox.sidecar",
        }
    }

    pub(super) fn check(self, value: &str) -> Result<(), InvalidSpec> {
        let good = match self {
            Self::KrunCpus => {
                value.bytes().all(|byte| byte.is_ascii_digit())
                    && value.parse::<u8>().is_ok_and(|cpus| cpus > 0)
            }
            Self::DossierMetaPath | Self::TerokSidecar => {
                !value.is_empty() && value.len() <= Self::LONGEST && !value.contains(char::is_control)
            }
        };
        if good {
            return Ok(());
        }
        Err(InvalidSpec::new(
            "annotations",
            match self {
                Self::KrunCpus => format!("`{self}` must be a number from 1 to 255"),
                _ => format!("`{self}` must have 1 to 4096 bytes without control characters"),
            },
        ))
    }
}

impl fmt::Display for AnnotationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for AnnotationKey {
    type Err = InvalidSpec;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|key| key.as_str() == text).ok_or_else(|| {
            let known = Self::ALL.map(Self::as_str).join(", ");
            InvalidSpec::new(
                "annotations",
                format!("`{}` is not a supported annotation; expected one of {known}", text.escape_debug()),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotation_that_a_runtime_obeys_is_refused() {
        for key in AnnotationKey::ALL {
            assert_eq!(key.as_str().parse::<AnnotationKey>().unwrap(), key);
        }
        for text in [
            "",
            "run.oci.hooks.stdout",
            "run.oci.keep_original_groups",
            "io.podman.annotations.privileged",
            "KRUN.CPUS",
            "krun.cpus ",
            "krun.cpus=1",
        ] {
            assert!(text.parse::<AnnotationKey>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn annotation_value_out_of_range_is_refused() {
        for (key, value, good) in [
            (AnnotationKey::KrunCpus, "2", true),
            (AnnotationKey::KrunCpus, "0", false),
            (AnnotationKey::KrunCpus, "+2", false),
            (AnnotationKey::KrunCpus, "256", false),
            (AnnotationKey::KrunCpus, "", false),
            (AnnotationKey::DossierMetaPath, "/srv/a,b=c", true),
            (AnnotationKey::DossierMetaPath, "", false),
            (AnnotationKey::TerokSidecar, "/srv/a\nrun.oci.x=1", false),
        ] {
            assert_eq!(key.check(value).is_ok(), good, "{key} {value:?}");
        }
    }
}

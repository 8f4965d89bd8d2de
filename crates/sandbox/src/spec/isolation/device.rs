//! Devices of the host that a container may use.

use std::path::{Path, PathBuf};

use super::rules;
use crate::spec::InvalidSpec;

/// A device of the host that the container may read and write. Default: none, because a device
/// bypasses all other confinement.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Device {
    /// A device node of the host.
    Node {
        /// Its path on the host, such as `/dev/kvm`.
        host: PathBuf,
        /// Its path in the container.
        container: String,
    },
    /// A device that a Container Device Interface (CDI) specification on the engine's host
    /// describes, such as `nvidia.com/gpu=all`.
    Cdi(String),
}

impl Device {
    /// The device node `path`, at the same path in the container.
    pub fn node(path: impl Into<String>) -> Self {
        let container = path.into();
        Self::Node { host: PathBuf::from(&container), container }
    }

    /// Its paths on the host and in the container; `None` for a CDI device, which defines them
    /// itself.
    pub(crate) fn node_paths(&self) -> Option<(&Path, &str)> {
        match self {
            Self::Node { host, container } => Some((host, container)),
            Self::Cdi(_) => None,
        }
    }

    pub(super) fn validate(&self) -> Result<(), InvalidSpec> {
        let good = match self {
            Self::Node { host, container } => {
                host.starts_with("/dev") && rules::is_plain_path(container) && is_below_dev(container)
            }
            Self::Cdi(name) => is_cdi_name(name),
        };
        if good {
            return Ok(());
        }
        Err(InvalidSpec::new(
            "isolation.devices",
            match self {
                Self::Node { host, container } => format!(
                    "`{}` at `{}` is not a device; write absolute paths below /dev",
                    host.display(),
                    container.escape_debug()
                ),
                Self::Cdi(name) => format!(
                    "`{}` is not a CDI device; write VENDOR/CLASS=NAME, such as nvidia.com/gpu=all",
                    name.escape_debug()
                ),
            },
        ))
    }
}

fn is_below_dev(path: &str) -> bool {
    Path::new(path).starts_with("/dev") && path.len() > "/dev/".len()
}

fn is_cdi_name(text: &str) -> bool {
    let is_word = |word: &str| {
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-:".contains(&byte))
    };
    text.split_once('=').is_some_and(|(kind, name)| {
        is_word(name) && kind.split_once('/').is_some_and(|(vendor, class)| is_word(vendor) && is_word(class))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_or_name_of_no_device_is_refused() {
        for (device, good) in [
            (Device::node("/dev/kvm"), true),
            (Device::node("/dev/../etc/shadow"), false),
            (Device::node("/etc/shadow"), false),
            (Device::node("/dev"), false),
            (Device::node("/dev/a:b"), false),
            (Device::Cdi("nvidia.com/gpu=all".to_owned()), true),
            (Device::Cdi("nvidia.com/gpu".to_owned()), false),
            (Device::Cdi("/dev/nvidia0".to_owned()), false),
            (Device::Cdi("a/b=".to_owned()), false),
        ] {
            assert_eq!(device.validate().is_ok(), good, "{device:?}");
        }
    }
}

//! GPUs of a run.

use std::fmt;
use std::str::FromStr;

use crate::spec::{Device, InvalidSpec};

/// The vendor of a GPU, by the prefix of its CDI names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GpuVendor {
    /// `nvidia.com/gpu`.
    Nvidia,
    /// `amd.com/gpu`.
    Amd,
    /// `intel.com/gpu`.
    Intel,
}

impl GpuVendor {
    const ALL: [(Self, &str); 3] = [(Self::Nvidia, "nvidia"), (Self::Amd, "amd"), (Self::Intel, "intel")];

    fn name(self) -> &'static str {
        Self::ALL.iter().find_map(|&(vendor, name)| (vendor == self).then_some(name)).unwrap_or_default()
    }
}

/// A request for GPUs: `all` (of NVIDIA), `nvidia`, `amd:0,1`.
///
/// They are requested by their Container Device Interface (CDI) specifications, which the engine's
/// host must have. Podman before 5.4 drops such a request silently; there it is an error.
///
/// The error is [`ContainerError::Unsupported`](crate::ContainerError::Unsupported) of the field
/// `gpus`.
///
/// ```
/// let gpus: sandbox::runs::GpuRequest = "nvidia:0,1".parse()?;
/// assert_eq!(gpus.to_string(), "nvidia:0,1");
/// # Ok::<(), sandbox::InvalidSpec>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuRequest {
    vendor: GpuVendor,
    /// Empty means all.
    indices: Vec<u32>,
}

impl GpuRequest {
    /// All GPUs of one vendor.
    #[must_use]
    pub fn all(vendor: GpuVendor) -> Self {
        Self { vendor, indices: Vec::new() }
    }

    /// The devices for an isolation.
    pub(crate) fn devices(&self) -> Vec<Device> {
        let kind = format!("{}.com/gpu", self.vendor.name());
        if self.indices.is_empty() {
            return vec![Device::Cdi(format!("{kind}=all"))];
        }
        let device = |index| Device::Cdi(format!("{kind}={index}"));
        self.indices.iter().map(device).collect()
    }

    /// The fix where the engine does not know the GPUs.
    pub(crate) fn hint(&self) -> &'static str {
        match self.vendor {
            GpuVendor::Nvidia => {
                "use podman 5.4 or later, and describe the GPUs on its host: `nvidia-ctk cdi generate \
                 --output=/etc/cdi/nvidia.yaml` (see `nvidia-ctk cdi list`)"
            }
            GpuVendor::Amd => {
                "use podman 5.4 or later, and describe the GPUs on its host: `amd-ctk cdi generate \
                 --output=/etc/cdi/amd.json`"
            }
            GpuVendor::Intel => {
                "use podman 5.4 or later, and put a description of the GPUs under /etc/cdi of its host"
            }
        }
    }
}

impl fmt::Display for GpuRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.vendor.name())?;
        for (place, index) in self.indices.iter().enumerate() {
            write!(f, "{}{index}", if place == 0 { ':' } else { ',' })?;
        }
        Ok(())
    }
}

impl FromStr for GpuRequest {
    type Err = InvalidSpec;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let read = || {
            if text == "all" {
                return Some(Self::all(GpuVendor::Nvidia));
            }
            let (name, indices) = match text.split_once(':') {
                Some((name, indices)) => (name, Some(indices)),
                None => (text, None),
            };
            let vendor = GpuVendor::ALL.iter().find_map(|&(vendor, its)| (its == name).then_some(vendor))?;
            let index = |text: &str| {
                (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
                    .then(|| text.parse().ok())?
            };
            let indices = match indices {
                Some(list) => list.split(',').map(index).collect::<Option<Vec<u32>>>()?,
                None => Vec::new(),
            };
            Some(Self { vendor, indices })
        };
        read().ok_or_else(|| {
            InvalidSpec::new(
                "gpus",
                format!(
                    "`{}` is not a GPU request; write all, nvidia, or nvidia:0,1 (or amd, or intel)",
                    text.escape_debug()
                ),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_become_cdi_devices() {
        for (text, expected) in [
            ("all", Some(vec!["nvidia.com/gpu=all"])),
            ("nvidia", Some(vec!["nvidia.com/gpu=all"])),
            ("amd:0,3", Some(vec!["amd.com/gpu=0", "amd.com/gpu=3"])),
            ("intel:1", Some(vec!["intel.com/gpu=1"])),
            ("", None),
            ("nvidia:", None),
            ("nvidia:a", None),
            ("nvidia:+1", None),
            ("nvidia:0,", None),
            ("nvidia.com/gpu=all", None),
            ("voodoo", None),
        ] {
            let devices = text.parse::<GpuRequest>().ok().map(|gpus| gpus.devices());
            let expected =
                expected.map(|names| names.into_iter().map(|name| Device::Cdi(name.to_owned())).collect());
            assert_eq!(devices, expected, "{text:?}");
        }
    }
}

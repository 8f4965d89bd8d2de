//! The confinement of a container, except for its network and resource limits.

mod apparmor;
mod capability;
mod device;
mod host_entry;
mod preset;
mod rules;
mod runtime;
mod seccomp;
mod stop_signal;
mod tmpfs;
mod ulimit;
mod user_namespace;
mod whole;

pub use apparmor::AppArmorProfile;
pub use capability::Capability;
pub use device::Device;
pub use host_entry::HostEntry;
pub use runtime::Runtime;
pub use seccomp::Seccomp;
pub use stop_signal::StopSignal;
pub use tmpfs::Tmpfs;
pub use ulimit::{Ulimit, UlimitKind};
pub use user_namespace::UserNamespace;
pub use whole::Isolation;

//! Specifications of the caller: validated values, nothing else.

mod asking;
mod env;
mod git_settings;
mod image;
mod isolation;
mod launch;
mod limits;
mod network;
mod network_callback;
mod object_id;
mod quantity;
mod run;
mod service;
mod ssh_signer;
mod stall;
mod task;

pub(crate) use asking::Asking;
pub use asking::{Answer, Question};
pub use env::ContainerEnv;
pub(crate) use git_settings::{SYSTEM, SYSTEM_FILE, http_1, over_https, system_file, with_git_settings};
pub use image::{ImageSource, ImageTag};
pub use isolation::{
    AppArmorProfile, Capability, Device, HostEntry, Isolation, Runtime, Seccomp, StopSignal, Tmpfs, Ulimit,
    UlimitKind, UserNamespace,
};
pub(crate) use launch::{Launch, attached_settings, launch_settings};
pub use limits::ResourceLimits;
pub use network::{Network, NetworkSandboxConfig};
pub(crate) use network_callback::NetworkCallback;
pub(crate) use object_id::ObjectId;
pub use quantity::{ByteSize, Cpus};
pub use run::{AnnotationKey, GpuRequest, GpuVendor, RunName, RunSpec, Sharing, VolumeSpec};
pub use service::HostService;
pub(crate) use service::ServiceTarget;
pub use ssh_signer::SshSigner;
pub use stall::OnStall;
pub(crate) use stall::Stall;
pub use task::{CommandSpec, TaskSpec};

pub use sandbox_workspace::{InvalidSpec, Mount};

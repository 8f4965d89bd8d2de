//! The egress of a task: a network of its own with nothing on it but the task and its proxy.
//!
//! [`Egress`] is the state that all tasks share. [`Egress::open`] creates one task's
//! [`Link`](link::Link) and yields an [`Endpoint`], which is all that the rest of this crate knows
//! about the path of traffic to the proxy. The proxy is started concurrently with the task's
//! container and becomes a [`RunningProxy`]. Only this module decides addresses, networks and
//! certificates.

mod authority;
mod blocking;
mod bridge;
mod endpoint;
mod error;
mod link;
mod network;
mod pending;
mod prerequisites;
mod proxy;
mod questions;
mod relay;
mod remote;
mod resolver;
mod resources;
mod running;
mod shared;
mod shared_cleanup;
mod shield;
mod spare;
mod subnet;
mod trust;

pub(crate) use bridge::stray_bridges;
pub(crate) use endpoint::Endpoint;
pub use error::ProxyError;
pub(crate) use pending::PendingEgress;
pub use prerequisites::Prerequisites;
#[cfg(any(test, feature = "fuzzing"))]
pub use proxy::proxy_records;
pub(crate) use proxy::{PROGRAM as PROXY_PROGRAM, image_of as proxy_image};
pub(crate) use relay::GATE_TOKEN;
pub use remote::RemoteProxy;
pub(crate) use resources::EgressResources;
pub(crate) use running::{ProxyControl, RunningProxy};
pub(crate) use shared::Egress;
pub(crate) use shared_cleanup::{remove_shared, remove_unused_network};
pub use shield::ShieldState;
pub(crate) use trust::{
    BUILD_FOLDER as BUILD_TRUST_FOLDER, FOLDER as TRUST_FOLDER, variable_names as trust_variables,
};

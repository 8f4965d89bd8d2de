//! Makes the tools in a task's container trust the root authority, without any change to the image.
//!
//! The image's own CA bundle is read once, merged with the root, and mounted over the bundle; a
//! folder of the sandbox has the same for tools that need a file named by a variable. Both contain
//! only public certificates. An image without a bundle gets only the root, because everything that
//! it reaches goes through its proxy.

mod bundle;
mod environment;
mod files;
mod java;

pub(crate) use environment::names as variable_names;
pub(super) use environment::{remote, variables};
pub(crate) use files::{BUILD_FOLDER, FOLDER};
pub(super) use files::{TrustFiles, TrustStore};

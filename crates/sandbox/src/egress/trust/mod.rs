//! Makes the tools in a task's container trust the root authority, without any change to the image.
//!
//! The image's own bundle of authorities is read out once, merged with the root, and mounted over
//! the bundle; a folder of our own holds the same for tools that want a file named by a variable.
//! Only public certificates are in either. An image without a bundle gets the root alone:
//! everything it reaches goes through its proxy.

mod bundle;
mod environment;
mod files;
mod java;

pub(crate) use environment::names as variable_names;
pub(super) use environment::variables;
pub(crate) use files::{BUILD_FOLDER, FOLDER};
pub(super) use files::{TrustFiles, TrustStore};

//! Files of the host where a task may have written: paths, trees, locks and replacements that follow no link of a task.
//!
//! [`host_path`] opens what configuration and flags name, [`tree`] walks a folder whose content is hostile, [`Replacement`] puts a
//! whole file in the place of another, and [`FileLock`] keeps other processes out. Nothing here knows a container or an engine.

mod hex;
pub mod host_path;
mod lock;
mod operations;
mod replacement;
pub mod tree;

pub use hex::hex;
pub use lock::FileLock;
pub use operations::{create_folder, or_absent, read_if_present};
pub use replacement::{Replacement, Writers, remove_in};

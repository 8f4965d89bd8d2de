#![doc = include_str!("../README.md")]

mod hex;
pub mod host_path;
mod lock;
mod operations;
pub mod overlay;
mod replacement;
mod search_path;
pub mod tree;

pub use hex::hex;
pub use lock::FileLock;
pub use operations::{create_folder, or_absent, read_if_present};
pub use replacement::{Replacement, Writers, remove_in};
pub use search_path::search_path;

#![doc = include_str!("../README.md")]

mod archive;
mod bundle;
mod canonical;
mod digest;
mod error;
mod listing;
mod path;
mod settings;
mod snapshot;

pub use bundle::{Bundle, Manifest};
pub use digest::Digest;
pub use error::{InvalidBundle, PackError};
pub use listing::{Entry, Listing};
pub use path::{LinkTarget, TreePath};
pub use settings::{Limits, SessionToken, Settings, SigningKey, Upstream, Variable, VariableName};
pub use snapshot::Snapshot;

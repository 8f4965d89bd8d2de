#![doc = include_str!("../README.md")]

mod backend;
mod error;
mod git;
mod push;
mod refs;
mod repository;
mod server;
mod sync;
mod token;

pub use error::GateError;
pub use repository::{Gate, Repository};
pub use server::GateServer;
pub use sync::{Change, ChangeKind, Rewrites, SyncReport};
pub use token::GateToken;

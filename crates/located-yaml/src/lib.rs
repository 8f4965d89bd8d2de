#![doc = include_str!("../README.md")]
//!
//! # Invariants
//!
//! - A tag is the document's own (`!env`), one of YAML's core schema, or a fault: none is dropped.
//! - A key that is there twice, or without a value, is a fault.
//! - A document expands to at most 1 MiB more than twice its own size, however often aliases name
//!   its parts again.
//! - [`Node`] has no `Debug`, and no fault quotes a value that was expected to be something else: a
//!   document may hold secrets.

mod error;
mod fault;
mod lines;
#[cfg(feature = "yaml")]
mod locate;
mod location;
mod node;
#[cfg(feature = "yaml")]
mod parse;
mod position;
mod reader;
mod spanned;
#[cfg(feature = "yaml")]
mod tags;
mod text;

pub use error::{Mismatch, nearest};
pub use fault::Fault;
pub use location::{InvalidFile, Location};
pub use node::{Node, Step};
pub use position::Position;
pub use reader::from_node;
#[cfg(feature = "yaml")]
pub use reader::{read, read_without_nul};
pub use spanned::{Entries, Spanned};
pub use text::text;

#![doc = include_str!("../README.md")]
//!
//! # Invariants
//!
//! - A tag is the document's own (`!env`), one of YAML's core schema, or an error: none is dropped.
//! - A duplicate key, or one without a value, is an error.
//! - With any number of aliases, a document expands to at most twice its own size plus 1 MiB.
//! - [`Node`] has no `Debug`, and no error quotes a value of an unexpected type: a document may
//!   contain secrets.

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

//! YAML documents as types, with the place in the text of every part.
//!
//! A reader of a document that people write has to say where a fault is. [`read`] gives any type that derives `Deserialize`, or an
//! [`InvalidFile`] that says `file:line:column` and the fix; a [`Spanned`] value keeps its place for what turns out to be wrong later.
//!
//! ```
//! use located_yaml::{InvalidFile, Spanned, read};
//! use serde::Deserialize;
//!
//! #[derive(Deserialize)]
//! #[serde(deny_unknown_fields)]
//! struct Ports {
//!     ports: Vec<Spanned<u16>>,
//! }
//!
//! let ports: Ports = read("ports.yaml", "ports:\n  - 80\n  - 8080\n")?;
//! assert_eq!(*ports.ports[1], 8080);
//! assert_eq!(ports.ports[1].location().to_string(), "ports.yaml:3:5");
//!
//! let fault = read::<Ports>("ports.yaml", "ports:\n  - many\n").err().map(|fault| fault.to_string());
//! assert_eq!(fault.as_deref(), Some("ports.yaml:2:5: an item of `ports` is a whole number, not a text"));
//! # Ok::<(), InvalidFile>(())
//! ```
//!
//! # Invariants
//!
//! - A tag is the document's own (`!env`), one of YAML's core schema, or a fault: none is dropped.
//! - A key that is there twice, or without a value, is a fault.
//! - A document expands to at most 1 MiB more than twice its own size, however often aliases name its parts again.
//! - [`Node`] has no `Debug`, and no fault quotes a value that was expected to be something else: a document may hold secrets.

mod error;
mod fault;
mod lines;
mod locate;
mod location;
mod node;
mod parse;
mod position;
mod reader;
mod spanned;
mod tags;
mod text;

pub use error::Mismatch;
pub use fault::Fault;
pub use location::{InvalidFile, Location};
pub use node::{Node, Step};
pub use position::Position;
pub use reader::{from_node, read, read_without_nul};
pub use spanned::{Entries, Spanned};
pub use text::text;

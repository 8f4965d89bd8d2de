//! YAML documents as trees, with the place in the text of every part.
//!
//! A reader of a document that people write has to say where a fault is. [`parse`] gives a tree of [`Node`]s, whatever stood there; its
//! reader checks it, and asks [`locate`] for the place of what it does not like.
//!
//! ```
//! use located_yaml::{Node, Position, Step, locate, parse};
//!
//! let text = "ports:\n  - 80\n  - many\n";
//! let document = parse(text).map_err(|fault| fault.message)?;
//! let Node::Map(entries) = document else { return Err("no mapping".to_owned()) };
//! let (Node::Text(key), Node::List(ports)) = &entries[0] else { return Err("no list".to_owned()) };
//! assert_eq!(key, "ports");
//! assert!(!matches!(ports[1], Node::Integer(_)));
//! // The second item of the value of the first entry.
//! assert_eq!(locate(text, &[Step::Value(0), Step::Item(1)]), Position { line: 3, column: 5 });
//! # Ok::<(), String>(())
//! ```
//!
//! # Invariants
//!
//! - A tag is the document's own (`!env`), one of YAML's core schema, or a fault: none is dropped.
//! - Keys that stand there twice are both in the tree: it is the reader's to refuse them.
//! - A document stands for at most 1 MiB more than twice its own size, however often aliases name its parts again.
//! - [`Node`] has no `Debug`, and no [`Fault`] quotes a value: a document may hold secrets.

mod lines;
mod locate;
mod node;
mod parse;
mod position;
mod tags;
mod text;

pub use locate::locate;
pub use node::{Node, Step};
pub use parse::{Fault, parse};
pub use position::Position;
pub use text::text;

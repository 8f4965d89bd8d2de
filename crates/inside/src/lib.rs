//! The program that runs inside of containers, `sandbox-inside`, and what it and the sandbox say to each other.
//!
//! It is one static program that needs nothing of an image, not even a shell. The sandbox mounts it read-only:
//!
//! - `sandbox-inside supervise` is the first process of an executor's container. It exchanges [frames](Frame) with the sandbox over stdin
//!   and stdout: starts commands, moves their streams, and ends each command with every process it started. See `supervise` in the program.
//! - `sandbox-inside verify ORDER` runs the [checks](Check) of an [`Order`] and prints one [`Finding`] per line, as JSON.
//!
//! A user of the library `sandbox` puts the program beside his own, or names its folder in the configuration. This builds it:
//!
//! ```sh
//! RUSTFLAGS="-C target-feature=+crt-static" cargo build --release --package sandbox-inside --target x86_64-unknown-linux-gnu
//! ```
//!
//! ```
//! use sandbox_inside::{Category, Check, Decoder, Frame};
//!
//! let frame = Frame::Input { command: 7, bytes: b"hello".to_vec() };
//! let mut decoder = Decoder::default();
//! decoder.push(&frame.encode());
//! assert_eq!(decoder.next_frame()?, Some(frame));
//!
//! assert_eq!(Check::Capabilities.category(), Category::Rights);
//! assert_eq!(Check::Capabilities.id(), "capabilities");
//! # Ok::<(), sandbox_inside::ProtocolError>(())
//! ```

mod check;
mod decoder;
mod end;
mod finding;
mod frame;
mod order;
mod request;

pub use check::{Category, Check};
pub use decoder::{Decoder, ProtocolError};
pub use end::End;
pub use finding::Finding;
pub use frame::{Frame, LARGEST_CHUNK};
pub use order::{Order, ProcessLimit, Scratch};
pub use request::{CommandLine, Request};
